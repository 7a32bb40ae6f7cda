package journal

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkRecorder is what the engine's goroutine pays for each recorded input, with
// the messages made of them: the four events of a task's life, one after the other; and heartbeats.
func BenchmarkRecorder(b *testing.B) {
	task := &coordinator.Task{
		ID: "01JD6Q3ZV8T7C5M2N4", Type: "summarize-document", Priority: 1,
		Carried: coordinator.Carried{CorrelationID: "4bf92f3577b34da6a3ce929d0e0e4736"},
		Timeout: 5 * time.Minute, AcceptedAt: someTime, ContentHash: 0x1234567890abcdef,
		Labels: map[string]string{"zone": "a"},
	}
	life := []coordinator.Event{
		coordinator.TaskReceived{Handle: 4711, Task: task},
		coordinator.DispatchSettled{Handle: 4711},
		coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: task.ID, Agent: "summarizer-7", DispatchID: string(task.ID) + ".1", TraceID: task.CorrelationID,
			Timestamp: someTime,
			Duration:  1234567 * time.Microsecond,
		}},
		coordinator.Tick{},
	}
	heartbeats := make([]coordinator.Event, 100)
	for i := range heartbeats {
		heartbeats[i] = coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: coordinator.AgentID(fmt.Sprint("summarizer-", i)), Status: coordinator.StatusReady, Load: 0.4, Active: 2,
			Available: 3,
			Timestamp: someTime.Add(time.Duration(i) * 97 * time.Millisecond), UserID: "agents",
		}}
	}
	b.Run("task", func(b *testing.B) { benchmarkRecorder(b, life, 1) })
	b.Run("heartbeat", func(b *testing.B) { benchmarkRecorder(b, heartbeats, len(heartbeats)) })
}

// benchmarkRecorder records inputs in turn, of which so many are one round: it reports the bytes of each, or of the
// whole round if that is one thing.
func benchmarkRecorder(b *testing.B, inputs []coordinator.Event, things int) {
	r := NewRecorder("s", 1<<50)
	var message []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.Add(someTime.Add(time.Duration(i)*time.Millisecond), inputs[i%len(inputs)])
		if m, ok := r.Take(message[:0], Header{Epoch: 1}, false); ok {
			message = m
		}
		i++
	}
	b.ReportMetric(float64(r.Bytes())/float64(i)*float64(len(inputs)/things), "bytes")
}
