package engine_test

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// follow folds what the engine has recorded into its twin, which must then know the
// same as far as it must survive; and so must whoever folds an image.
func (h *history) follow(ev coordinator.Event) {
	h.t.Helper()
	if h.e.Policy() == nil {
		return
	}
	if _, changed := ev.(coordinator.PolicyChanged); changed {
		h.twin.FoldPolicy(h.now, h.e.Policy())
		h.past = append(h.past, written{at: h.now, policy: h.e.Policy()})
	}
	for _, r := range h.e.Records(nil) {
		h.twin.Fold(h.now, r)
		h.past = append(h.past, written{at: h.now, record: r})
	}
	h.twin.Apply(h.now, coordinator.Tick{}, nil)
	want := h.durable(h.e)
	if got := h.durable(h.twin); !engine.Alike(got, want) {
		h.t.Fatalf("whoever follows knows\n%s\ninstead of\n%s", engine.Show(got, want), engine.Show(want, got))
	}
	if h.imaged++; h.imaged%64 == 0 {
		h.followLate(want)
	}
	if h.imaged%16 != 0 {
		return
	}
	fresh := engine.New()
	fresh.Apply(h.now, coordinator.PolicyChanged{Policy: h.e.Policy()}, nil)
	fresh.Follow()
	h.e.Image(h.now).Records(func(r coordinator.Record) bool { fresh.Fold(h.now, copied(r)); return true })
	fresh.RecallAll()
	if got := h.durable(fresh); !engine.Alike(got, want) {
		h.t.Fatalf("an image gives\n%s\ninstead of\n%s", engine.Show(got, want), engine.Show(want, got))
	}
}

// written is what whoever follows reads: a record, or the policy that was in force from there on.
type written struct {
	at     time.Time
	record coordinator.Record
	policy *coordinator.Policy
}

// followLate reads all of the past now, while the clock is ahead of it: one that starts, or whose
// process stood still. It knows the same as who has read it as it was written.
func (h *history) followLate(want engine.Facts) {
	h.t.Helper()
	late := engine.New()
	late.Follow()
	for _, w := range h.past {
		if w.policy != nil {
			late.FoldPolicy(w.at, w.policy)
		} else {
			late.Fold(w.at, w.record)
		}
		late.Apply(h.now, coordinator.Tick{}, nil)
	}
	if got := h.durable(late); !engine.Alike(got, want) {
		h.t.Fatalf("whoever follows late knows\n%s\ninstead of\n%s", engine.Show(got, want), engine.Show(want, got))
	}
}

// copied is a record that may be kept: an image uses one again.
func copied(r coordinator.Record) coordinator.Record {
	if m, ok := r.(*coordinator.Remembered); ok {
		again := *m
		return &again
	}
	return r
}

// durable is what must survive of an engine's state, as far as the history is recorded.
func (h *history) durable(e *engine.Engine) engine.Facts {
	f := engine.Durable(e, h.e, h.now)
	if !h.limited || !e.Ledger().Installed() {
		return f
	}
	// Whoever follows does not know who waits: what a group that does lags behind is lost.
	h.waited = h.waited || slices.ContainsFunc(h.e.OpenTasks(),
		func(o *engine.OpenTask) bool { return o.State() == engine.StateWaiting })
	f.AddQuotas(e, h.now, !h.waited)
	return f
}
