package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
)

// follow folds what the engine has recorded into its twin, which must then know the
// same as far as it must survive; and so must whoever folds an image.
func (h *history) follow(ev coordinator.Event) {
	h.t.Helper()
	if h.e.policy == nil {
		return
	}
	if _, changed := ev.(coordinator.PolicyChanged); changed {
		h.twin.FoldPolicy(h.now, h.e.policy)
		h.past = append(h.past, written{at: h.now, policy: h.e.policy})
	}
	for _, r := range h.e.Records(nil) {
		h.twin.Fold(h.now, r)
		h.past = append(h.past, written{at: h.now, record: r})
	}
	h.twin.Apply(h.now, coordinator.Tick{}, nil)
	want := h.durable(h.e)
	if got := h.durable(h.twin); !alike(got, want) {
		h.t.Fatalf("whoever follows knows\n%s\ninstead of\n%s", show(got, want), show(want, got))
	}
	if h.imaged++; h.imaged%64 == 0 {
		h.followLate(want)
	}
	if h.imaged%16 != 0 {
		return
	}
	fresh := New()
	fresh.Apply(h.now, coordinator.PolicyChanged{Policy: h.e.policy}, nil)
	fresh.Follow()
	h.e.Image(h.now).Records(func(r coordinator.Record) bool { fresh.Fold(h.now, copied(r)); return true })
	fresh.recollect()
	fresh.recallQuotas()
	if got := h.durable(fresh); !alike(got, want) {
		h.t.Fatalf("an image gives\n%s\ninstead of\n%s", show(got, want), show(want, got))
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
func (h *history) followLate(want facts) {
	h.t.Helper()
	late := New()
	late.Follow()
	for _, w := range h.past {
		if w.policy != nil {
			late.FoldPolicy(w.at, w.policy)
		} else {
			late.Fold(w.at, w.record)
		}
		late.Apply(h.now, coordinator.Tick{}, nil)
	}
	if got := h.durable(late); !alike(got, want) {
		h.t.Fatalf("whoever follows late knows\n%s\ninstead of\n%s", show(got, want), show(want, got))
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

// facts are what an engine knows, in words, with the numbers apart that may differ a
// little: what a type's rate was at an outcome is read as of a second before, or less.
type facts struct {
	tasks   map[coordinator.TaskKey]taskFacts
	words   map[string]string
	numbers map[string]float64
}

// taskFacts are what an engine knows of a task that is open (agents by name, in order), or has been.
// They are compared after every event: nothing is put into words that nobody reads.
type taskFacts struct {
	content                  uint64
	agent                    coordinator.AgentID
	fate                     coordinator.Fate
	flags                    recordFlags
	reason                   string
	task                     coordinator.TaskID
	attempt                  int
	tried, failed, untouched string
	unanswered, withdrawn    bool
	returning, attempted     bool
	timeout                  time.Duration
	batch                    string
}

// named are agents, in their order.
func named(agents []coordinator.AgentID) (all string) {
	for _, id := range agents {
		all += string(id) + " "
	}
	return all
}

// durable is what must survive of an engine's state. Tasks that wait are the
// broker's, and what an earlier dispatch of theirs has left may be known or not.
func (h *history) durable(e *Engine) facts {
	f := facts{make(map[coordinator.TaskKey]taskFacts), make(map[string]string), make(map[string]float64)}
	for n := e.memory.first; n < e.memory.next; n++ {
		r := e.memory.at(n)
		t := h.e.taskOf(r.key)
		switch {
		case r.flags&replaced != 0, t != nil && t.handle != 0 && t.state != stateDispatching:
			continue
		}
		open := e.tasks.of(r)
		if open == nil {
			if r.attempt == 0 && (r.fate == coordinator.FateForgotten || r.fate == coordinator.FateFailed) {
				continue // as if it had never been seen
			}
			f.tasks[r.key] = taskFacts{
				content: r.content, agent: e.fleet.named(r.ref), fate: r.fate, flags: r.flags, reason: e.memory.reasons.of(r.key), attempt: int(r.attempt),
			}
			continue
		}
		f.tasks[r.key] = taskFacts{
			content: r.content, agent: open.agent.spec.ID, task: open.task.ID, attempt: open.attempt,
			tried: named(open.tried), failed: named(open.failed), untouched: named(open.untouched),
			unanswered: open.state == stateDispatching || open.unanswered, withdrawn: open.withdrawn, returning: open.returning, attempted: open.attempted,
			timeout: open.timeout, batch: open.batch,
		}
	}
	for _, a := range e.fleet.agents {
		f.words["word of "+string(a.spec.ID)] = fmt.Sprintf("%+v", a.calibration)
	}
	for id, order := range e.orders {
		f.words["order "+string(id)] = order.String()
	}
	for i, o := range e.owed.fails {
		f.words[fmt.Sprint("owed ", i)] = fmt.Sprint(o.Task.ID, o.Failure)
	}
	h.quotaFacts(e, &f)
	for i, c := range e.QuotaControls() {
		f.words[fmt.Sprint("control ", i)] = fmt.Sprintf("%+v", c)
	}
	if !e.days.start.IsZero() {
		f.words["day"] = fmt.Sprint(e.days.start.UTC())
	}
	for node, u := range valuesOf(e.days.uses) {
		f.words["day of "+node] = fmt.Sprintf("%+v", u)
	}
	s := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.agents[i].spec.ID })
	for _, a := range s.Agents { // shares do not depend on as of when they are read
		f.numbers[string(a.Agent)] = a.Successes / a.Expected
	}
	for _, t := range s.Types {
		for _, a := range t.Agents {
			f.numbers[t.Type+" "+string(a.Agent)] = a.Successes / a.Outcomes
		}
	}
	if e.trust.breakers != nil {
		for _, p := range e.trust.breakers.Pairs() {
			st := e.trust.breakers.Look(h.now, p)
			f.words[fmt.Sprint("breaker ", e.fleet.agents[p.Agent].spec.ID, p.Capability)] = fmt.Sprint(st.State, st.Until, st.Opened, st.Faults)
		}
	}
	return f
}

// taskOf is the open task of a key; nil when there is none.
func (e *Engine) taskOf(key coordinator.TaskKey) *openTask {
	if n, known := e.memory.lookup(key); known {
		return e.tasks.of(e.memory.at(n))
	}
	return nil
}

func alike(a, b facts) bool {
	return maps.Equal(a.tasks, b.tasks) && maps.Equal(a.words, b.words) && maps.EqualFunc(a.numbers, b.numbers, near)
}

// near tells whether numbers differ by a ten-thousandth at most: of themselves, if they are above 1.
func near(x, y float64) bool { return math.Abs(x-y) < 1e-4*max(1, x, y) }

// show is what of a is not in b.
func show(a, b facts) string {
	var lines []string
	for k, t := range a.tasks {
		if b.tasks[k] != t {
			lines = append(lines, fmt.Sprintf("%x: %+v", k, t))
		}
	}
	slices.Sort(lines)
	for _, k := range slices.Sorted(maps.Keys(a.words)) {
		if b.words[k] != a.words[k] {
			lines = append(lines, k+": "+a.words[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.numbers)) {
		if !near(a.numbers[k], b.numbers[k]) {
			lines = append(lines, fmt.Sprint(k, ": ", a.numbers[k]))
		}
	}
	return strings.Join(lines, "\n")
}
