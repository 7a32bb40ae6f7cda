package journal

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkRecorder is what the engine's goroutine pays for each recorded input, with
// the messages made of them: the four events of a task's life, one after the other.
func BenchmarkRecorder(b *testing.B) {
	task := &coordinator.Task{
		ID: "01JD6Q3ZV8T7C5M2N4", Type: "summarize-document", Priority: 1, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		Timeout: 5 * time.Minute, AcceptedAt: someTime, ContentHash: 0x1234567890abcdef, Labels: map[string]string{"zone": "a"},
	}
	life := []coordinator.Event{
		coordinator.TaskReceived{Handle: 4711, Task: task},
		coordinator.DispatchSettled{Handle: 4711},
		coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: task.ID, Agent: "summarizer-7", DispatchID: string(task.ID) + ".1", TraceID: task.TraceID, Timestamp: someTime, Duration: 1234567 * time.Microsecond,
		}},
		coordinator.Tick{},
	}
	r := NewRecorder("s", 1<<50)
	var message []byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.Add(someTime.Add(time.Duration(i)*time.Millisecond), life[i%len(life)])
		if m, ok := r.Take(message[:0], Header{Epoch: 1}, false); ok {
			message = m
		}
		i++
	}
	b.ReportMetric(float64(r.Bytes())/float64(i), "bytes/input")
}
