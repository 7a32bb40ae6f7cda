package engine_test

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// follow folds what the engine has recorded into its twin, and into one that has begun with an earlier snapshot. The
// snapshots that they would write are the same, to the byte, and so is that of one that begins with a snapshot now.
func (h *history) follow(ev coordinator.Event) {
	h.t.Helper()
	if h.e.Policy() == nil {
		return
	}
	if _, changed := ev.(coordinator.PolicyChanged); changed {
		h.past = append(h.past, written{at: h.now, policy: h.e.Policy()})
		h.past[len(h.past)-1].fold(h.twin)
		h.restored = nil // a policy replaces what has no place in it, at its own time
	}
	standbys := []*engine.Engine{h.twin}
	if h.restored != nil {
		standbys = append(standbys, h.restored)
	}
	for _, r := range h.e.Records(nil) {
		w := written{at: h.now, record: r}
		h.past = append(h.past, w)
		for _, e := range standbys {
			w.fold(e)
		}
	}
	if _, lost := ev.(coordinator.SessionLost); lost { // the claim that follows says so
		w := written{at: h.now, lasted: max(1, h.now.Sub(h.opened))}
		h.past = append(h.past, w)
		for _, e := range standbys {
			w.fold(e)
		}
	}
	for _, e := range standbys {
		e.Apply(h.now, coordinator.Tick{}, nil)
	}
	if h.imaged++; h.imaged%8 != 0 {
		return
	}
	want := h.durable(h.twin)
	if h.restored != nil {
		h.same("a snapshot of earlier, and what was recorded since", h.durable(h.restored), want)
	}
	if h.imaged%64 == 0 {
		h.same("what is read late", h.durable(h.readLate()), want)
	}
	if h.imaged%16 == 0 {
		h.restored = h.restore()
		h.same("a snapshot", h.durable(h.restored), want)
	}
}

// written is what a standby reads: a record, or the policy that was in force from there on.
type written struct {
	at     time.Time
	record coordinator.Record
	policy *coordinator.Policy
	lasted time.Duration // of the session that has ended; 0: none has
}

func (w *written) fold(e *engine.Engine) {
	switch {
	case w.policy != nil:
		e.FoldPolicy(w.at, w.policy)
	case w.record != nil:
		e.Fold(w.at, w.record)
	default:
		e.Succeed(w.at, w.lasted)
	}
}

// restore begins with a snapshot of this moment.
func (h *history) restore() *engine.Engine {
	e := engine.New()
	e.Apply(h.now, coordinator.PolicyChanged{Policy: h.e.Policy()}, nil)
	e.Follow()
	for r := range h.e.Image(h.now).Records {
		e.Fold(h.now, copied(r))
	}
	return e
}

// readLate reads all earlier records now, while the clock is ahead of them: as after a start, or
// after its process stood still.
func (h *history) readLate() *engine.Engine {
	e := engine.New()
	e.Follow()
	for i := range h.past {
		h.past[i].fold(e)
		e.Apply(h.now, coordinator.Tick{}, nil)
	}
	return e
}

// copied is a record that may be kept: an image uses one again.
func copied(r coordinator.Record) coordinator.Record {
	if m, ok := r.(*coordinator.Remembered); ok {
		again := *m
		return &again
	}
	return r
}

// durable is the snapshot that an engine would write, a line for each record, sorted: open tasks have other numbers in
// another engine. Left out is
//   - what was done with tasks that are pending in the leader: they are the broker's, and a standby does not hear of a
//     dispatch that did not get through;
//   - when an id was seen: a standby hears of it with the dispatch;
//   - what agents have done in which time, of which their reports tell as well;
//   - when a dispatch arrived, which only a report of its agent says;
//   - which messages the broker may deliver again, and what has ended: TestTakeOvers holds them to what comes;
//   - as of when something is learnt, and so by how much it has faded: shares do not depend on that (see rates).
func (h *history) durable(e *engine.Engine) (d durable) {
	e.RecallAll()
	d.rates = make(map[string]float64)
	for r := range e.Image(h.now).Records {
		switch r := r.(type) {
		case *coordinator.LearntBefore:
			if r.Agent != "" {
				d.rates[r.Type+" "+string(r.Agent)] = r.Sums[0] / r.Sums[1]
			}
			continue
		case *coordinator.Remembered:
			never := r.Fate == coordinator.FateForgotten || r.Fate == coordinator.FateFailed
			if r.Seen = (time.Time{}); never && r.Attempt == 0 {
				continue // as if it had never been seen
			}
		case *coordinator.AgentBefore, *coordinator.Doubted, *coordinator.EndedBefore:
			continue
		case *coordinator.Settled:
			if r.Heard, r.At = false, (time.Time{}); r.Attempt == 0 {
				continue
			}
		case *coordinator.ShareBefore:
			if !e.Ledger().Installed() {
				continue
			}
		}
		var line encoder
		line.named = true
		if line.variant(r); !h.isOfPending(r) {
			d.lines = append(d.lines, emptyList.ReplaceAllString(line.facts.String(), "")+line.texts.String())
		}
	}
	slices.Sort(d.lines)
	return d
}

// emptyList is a list of nothing, which a message does not tell from none.
var emptyList = regexp.MustCompile(`\w+:\[\] `)

// isOfPending reports whether a record is of a task that is pending in the leader.
func (h *history) isOfPending(r coordinator.Record) bool {
	key := coordinator.TaskKey{}
	switch r := r.(type) {
	case *coordinator.Remembered:
		key = r.Key
	case *coordinator.Settled:
		key = r.Key
	case *coordinator.LeaseChanged:
		key = r.Key
	case *coordinator.Doubted:
		key = r.Key
	case *coordinator.Assigned:
		key = coordinator.KeyOf(r.Task.ID)
	case *coordinator.EndedBefore:
		key = coordinator.KeyOf(r.Task.ID)
	default:
		return false
	}
	return h.isPending(key)
}

// isPending reports whether the leader holds a task of that key that it has not given to an agent.
func (h *history) isPending(key coordinator.TaskKey) bool {
	for _, o := range h.e.HeldTasks() {
		if o.State() < engine.StateDispatching && coordinator.KeyOf(o.Task().ID) == key {
			return true
		}
	}
	return false
}

// durable are the lines of a snapshot, and rates of success, which may differ by a ten-thousandth.
type durable struct {
	lines []string
	rates map[string]float64
}

func near(x, y float64) bool { return math.Abs(x-y) < 1e-4 }

// same fails where one knows something else.
func (h *history) same(what string, got, want durable) {
	h.t.Helper()
	if slices.Equal(got.lines, want.lines) && maps.EqualFunc(got.rates, want.rates, near) {
		return
	}
	h.t.Fatalf("%s: a standby knows\n%s\nand should\n%s\nrates %v, want %v", what, without(got.lines, want.lines),
		without(want.lines, got.lines), got.rates, want.rates)
}

// without are the lines of one that the other lacks.
func without(lines, others []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return slices.Contains(others, s) }),
		"")
}
