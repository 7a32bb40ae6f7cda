package ejection

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/breaker"
)

// Dispatch is a task that an agent has been given.
type Dispatch struct {
	Agent      int // below 0: it has left the fleet
	Task       coordinator.TaskID
	Required   []string // the capabilities that the task requires
	Generation uint64   // by Begin
	Probe      bool     // likewise; or it has ended before
}

// Off reports whether no agent is ever ejected.
func (t *Table) Off() bool { return t.breakers == nil }

// Begin notes that an agent has been given a task: it may be the one by which a half-open breaker tries the agent. It
// returns the stamp of the dispatch.
func (t *Table) Begin(now time.Time, d Dispatch) (generation uint64, probe bool, changes *Changes) {
	t.begin(now)
	b := t.breakers
	if b == nil {
		return d.Generation, false, &t.changes
	}
	if !b.Quiet() && d.Agent >= 0 {
		for _, c := range orNone(d.Required) {
			p := breaker.Pair{Agent: d.Agent, Capability: c}
			t.change(p, func() []breaker.Pair {
				taken, changed := b.Probe(p, d.Task)
				probe = probe || taken
				return changed
			})
		}
	}
	return t.begun + b.Generation(), probe, &t.changes
}

// Counts reports whether the end of the dispatch counts for or against its agent. One that was made under other
// rules says nothing.
func (t *Table) Counts(d *Dispatch) bool {
	return t.breakers != nil && d.Agent >= 0 && d.Generation >= t.begun
}

// capabilities lists those for which the end of the dispatch counts: what its task requires, and those for which it is
// the probe. They differ when it was made by a leader with another route for tasks of its type in its policy; a probe
// that is never ended would keep the agent ejected for ever.
func (t *Table) capabilities(d *Dispatch) []string {
	if !d.Probe {
		return orNone(d.Required)
	}
	return coordinator.MergeSorted(orNone(d.Required), t.breakers.Probed(d.Agent, d.Task))
}

// Success notes that the dispatch has succeeded.
func (t *Table) Success(now time.Time, d Dispatch) *Changes {
	t.begin(now)
	if t.Counts(&d) && !t.breakers.Quiet() {
		t.advance()
		for _, c := range t.capabilities(&d) {
			p := breaker.Pair{Agent: d.Agent, Capability: c}
			t.change(p, func() []breaker.Pair { return t.breakers.Success(now, p, d.Generation-t.begun, d.Task) })
		}
	}
	return &t.changes
}

// Fault notes that the dispatch has failed by the fault of its agent, counted under that key: equal ones count once.
// tooOften: the agent fails with so many tasks of this type that this alone ejects it.
func (t *Table) Fault(now time.Time, d Dispatch, key coordinator.TaskID, tooOften bool) *Changes {
	t.begin(now)
	if !t.Counts(&d) {
		return &t.changes
	}
	t.advance()
	for _, c := range t.capabilities(&d) {
		p := breaker.Pair{Agent: d.Agent, Capability: c}
		t.change(p, func() []breaker.Pair { return t.breakers.Fault(now, p, d.Generation-t.begun, key) })
		t.presence(p)
		if tooOften {
			t.change(p, func() []breaker.Pair { return t.breakers.Trip(now, p) })
		}
	}
	return &t.changes
}

// Release notes that the dispatch, a probe, has ended in a way that says nothing of its agent.
func (t *Table) Release(now time.Time, d Dispatch) *Changes {
	t.begin(now)
	if t.breakers != nil && d.Agent >= 0 {
		for _, c := range t.capabilities(&d) {
			p := breaker.Pair{Agent: d.Agent, Capability: c}
			t.change(p, func() []breaker.Pair { return t.breakers.Release(p, d.Task) })
		}
	}
	return &t.changes
}

// Forgive takes back the fault that was counted under the key for an agent.
func (t *Table) Forgive(now time.Time, agent int, required []string, key coordinator.TaskID) *Changes {
	t.begin(now)
	if t.breakers != nil {
		t.advance()
		for _, c := range orNone(required) {
			p := breaker.Pair{Agent: agent, Capability: c}
			t.change(p, func() []breaker.Pair { return t.breakers.Forgive(now, p, key) })
		}
	}
	return &t.changes
}

// presence sets whether the agent is there in a breaker that may be new.
func (t *Table) presence(p breaker.Pair) { t.follow(t.breakers.Away(p, !t.agents[p.Agent].Online)) }

// change carries out a change of one breaker, with the record of what came of it.
func (t *Table) change(p breaker.Pair, change func() []breaker.Pair) {
	if !t.recording {
		t.follow(change())
		return
	}
	before, was := t.breakers.Export(p)
	t.follow(change())
	after, is := t.breakers.Export(p)
	if was != is || is && !after.Equal(before) {
		t.changes.Records = append(t.changes.Records, t.record(p, after, is))
	}
}
