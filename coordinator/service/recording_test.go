package service

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/replay"
	"taskbus/tests/support/membus"
)

// What is recorded of a term decides the same once more: tasks, results, returns,
// failures, a cancel, a reload, and agents that come and go.
func TestRecordingReplays(t *testing.T) {
	recorded := fleet + "journal: {record_inputs: true}\n"
	inRig(t, recorded, func(r *rig) {
		a1, a2 := r.worker("a1", true), r.worker("a2", true)
		for i := range 12 {
			r.task(fmt.Sprint("t-", i), "build", "")
			r.pass(300 * time.Millisecond)
			switch w := []*worker{a1, a2}[i%2]; {
			case len(w.has()) == 0:
			case i%5 == 4:
				w.finish("failed", "")
			default:
				w.finish("succeeded", `,"duration_ms":300`)
			}
		}
		r.task("t-x", "nonsense", "")
		r.cancel("t-11", "")
		r.service.Reload(parseConfig(t, strings.Replace(recorded, "max_concurrent_tasks: 1", "max_concurrent_tasks: 2", 1)),
			nil)
		a1.report()
		r.pass(10 * time.Second)
		r.broker.Cut() // and a second term
		r.pass(backoffMax)
		r.connect()
		r.worker("a1", true)
		r.task("t-20", "build", "")
		r.pass(2 * time.Second)

		r.replays(8, 1)
	})
}

// replays holds what the journal has recorded of each term against the program: it decides the same once
// more, and at least so many times.
func (r *rig) replays(least ...int) {
	r.t.Helper()
	var c replay.Collector
	for _, d := range r.broker.Messages(bus.StreamJournal) {
		if err := c.Take(d.Offset, d.Body); err != nil {
			r.t.Fatal(err)
		}
	}
	recordings, err := c.Recordings()
	if err != nil || len(recordings) != len(least) {
		r.t.Fatalf("recordings of %d terms, want %d: %v", len(recordings), len(least), err)
	}
	for i, rec := range recordings {
		v, err := rec.Verify(func(p *coordinator.Policy) (*coordinator.Policy, error) {
			c, err := config.ParseSource(p.Source, "recorded")
			if err != nil {
				return nil, err
			}
			if c.Policy().Version != p.Version {
				return nil, fmt.Errorf("read again it has the version %s, and had %s", c.Policy().Version, p.Version)
			}
			return c.Policy(), nil
		})
		if err != nil {
			r.t.Fatalf("term %d: %v", i+1, err)
		}
		if v.Difference != nil {
			r.t.Errorf("term %d: %s", i+1, v.Difference)
		}
		if v.Decisions < least[i] {
			r.t.Errorf("term %d: %d decisions are identical, want at least %d", i+1, v.Decisions, least[i])
		}
	}
}

// TestStopKeepsTheRecording: a coordinator that stops in order has all of its term recorded, also one that
// is over before its first snapshot is written, because the broker takes its time.
func TestStopKeepsTheRecording(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "a slow broker": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, quotaFleet+"journal: {record_inputs: true}\n")
				if slow > 0 {
					defer r.slowJournal(slow)()
				}
				r.start()
				r.pass(3 * slow)
				r.tenSlots()
				for i := range 10 {
					r.send(bus.QueueAssign, taskBody(fmt.Sprint("t-", i), "build", ""))
				}
				r.pass(100*time.Millisecond + 2*slow)
				if n := len(r.in("agent.a1")); n != 10 {
					t.Fatalf("%d dispatches; log:\n%s", n, r.log)
				}
				r.close()
				r.replays(10)
			})
		})
	}
}

// slowJournal has the broker confirm what is written to the journal now and then, until the end.
func (r *rig) slowJournal(every time.Duration) (end func()) {
	r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
		if p.Key == bus.StreamJournal {
			return membus.Withhold
		}
		return membus.Answer
	})
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(every):
				r.broker.ReleaseConfirms()
			}
		}
	}()
	return func() { close(ended) }
}
