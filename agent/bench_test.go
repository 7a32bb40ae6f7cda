package agent_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// What the SDK itself costs for each task: decode, handler, result, confirm,
// acknowledgement, over a broker that answers at once and for nothing.
func BenchmarkEmptyHandler(b *testing.B) {
	const slots = 100
	wire := &instant{ready: make(chan func(bus.Delivery), 1), free: make(chan struct{}, slots)}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() {
		done <- agent.Run(ctx, agent.Config{ID: "a1", Bus: wire, Slots: slots},
			func(context.Context, *agent.Task) (agent.Result, error) {
				return agent.Result{}, nil
			})
	}()
	deliver := <-wire.ready
	bodies := make([][]byte, b.N)
	for i := range bodies {
		bodies[i] = benchDispatch(i)
	}
	before := cpuTime(b)
	b.ReportAllocs()
	b.ResetTimer()
	for i, body := range bodies {
		wire.free <- struct{}{}
		deliver(bus.Delivery{Queue: "agent.a1", Tag: bus.Tag{Delivery: uint64(i + 1)}, Body: body})
	}
	for range slots {
		wire.free <- struct{}{} // all are acknowledged
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/task")
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// benchDispatch is a dispatch of about 600 bytes.
func benchDispatch(i int) []byte {
	id := fmt.Sprintf("0198c1f2-7b1e-7cc3-9f11-%012d", i)
	return messages.AppendDispatch(nil, &coordinator.Dispatch{
		Task: &coordinator.Task{ID: coordinator.TaskID(id), Type: "optimize_memory",
			Carried: coordinator.Carried{CorrelationID: "4bf92f3577b34da6a3ce929d0e0e4736"}},
		Agent: "a1", Queue: "agent.a1", DispatchID: id + ".1", Attempt: 1, Timeout: 5 * time.Minute,
		At: time.Unix(1_700_000_000, 0),
	},
		[]byte(
			`{"target": "cache-7", "goal": "halve the resident set without a restart", "limits": {"cpu": 2, "memory_mb": 512,`+
				` "steps": [1, 2, 3]}, "dry_run": false}`))
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// instant is a session that confirms within Publish.
type instant struct {
	bus.Session // what is not used stays nil
	settled     func(uint64, bus.Outcome)
	ready       chan func(bus.Delivery)
	free        chan struct{} // a token for each delivery that is not acknowledged
}

func (w *instant) Open(_ context.Context, spec bus.SessionSpec) (bus.Session, error) {
	w.settled = spec.OnSettled
	return w, nil
}

func (w *instant) Subscribe(_ context.Context, sub bus.Subscription) error {
	if sub.Queue == "agent.a1" {
		w.ready <- sub.Handle
	}
	return nil
}

func (w *instant) Publish(p bus.Publication) error {
	w.settled(p.Token, bus.Confirmed)
	return nil
}

func (w *instant) Unsubscribe(context.Context, string) (bool, error) { return true, nil }
func (w *instant) Ack(bus.Tag)                                       { <-w.free }
func (w *instant) Findings() []bus.Finding                           { return nil }
func (w *instant) User() string                                      { return "a1" }
func (w *instant) Done() <-chan struct{}                             { return nil }
func (w *instant) Err() error                                        { return nil }
func (w *instant) Close(context.Context) error                       { return nil }
