package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// A checker that cannot fail proves nothing: each promise is broken here once, by a
// book that is made by hand.

// at is a moment of such a book.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// written is one task of such a book: offered at second 1, confirmed.
func written(id string, edit func(e *entry)) *entry {
	e := &entry{id: id, payload: [32]byte{1}, offered: at(1), confirmed: true}
	edit(e)
	return e
}

// done is a run that ended the task, at a moment.
func done(agent, dispatch string, second float64) *run {
	return &run{agent: agent, dispatch: dispatch, attempt: 1, payload: [32]byte{1}, at: at(second)}
}

func marked(o *run) *run { o.marked = true; return o }

func TestCheckersFindWhatIsBroken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fates  []fate
		faults []strike
		task   *entry
		// broken are the promises that must be found broken, and no others.
		broken []invariant
	}{
		{name: "run once", task: written("t", func(e *entry) { e.runs = []*run{done("a1", "t.1", 2)} })},
		{name: "lost", task: written("t", func(*entry) {}), broken: []invariant{s1NoLoss}},
		{name: "not confirmed, and gone: nobody promised anything",
			task: written("t", func(e *entry) { e.confirmed = false })},
		{name: "given back, and not given to anybody again", task: written("t", func(e *entry) {
			o := done("a1", "t.1", 2)
			o.gaveBack = true
			e.runs = []*run{o}
		}), broken: []invariant{s1NoLoss}},
		{name: "given back, then run", task: written("t", func(e *entry) {
			o := done("a1", "t.1", 2)
			o.gaveBack = true
			e.runs = []*run{o, done("a2", "t.2", 3)}
		})},
		{name: "another payload", task: written("t", func(e *entry) {
			o := done("a1", "t.1", 2)
			o.payload = [32]byte{2}
			e.runs = []*run{o}
		}), broken: []invariant{s3NoPhantom}},
		{name: "failed, and could have been done", task: written("t", func(e *entry) {
			e.failures = []failure{{"no_agents_online", at(2)}}
		}), broken: []invariant{s3NoPhantom}},
		{name: "failed, as it should", fates: []fate{{"t", "no_agents_online"}}, task: written("t", func(e *entry) {
			e.failures = []failure{{"no_agents_online", at(2)}}
		})},
		{name: "failed for another reason", fates: []fate{{"t", "no_agents_online"}}, task: written("t", func(e *entry) {
			e.failures = []failure{{"poisoned", at(2)}}
		}), broken: []invariant{s3NoPhantom}},
		{name: "run, and should have failed", fates: []fate{{"t", "fail"}}, task: written("t", func(e *entry) {
			e.runs = []*run{done("a1", "t.1", 2)}
		}), broken: []invariant{s3NoPhantom}},
		{name: "parked, as it should", fates: []fate{{"t", "park"}}, task: written("t", func(e *entry) { e.parked = 1 })},
		{name: "should have been parked", fates: []fate{{"t", "park"}}, task: written("t", func(e *entry) {
			e.runs = []*run{done("a1", "t.1", 2)}
		}), broken: []invariant{s3NoPhantom}},
		{name: "a marked copy by one fault", faults: []strike{{"kill", at(2.5), at(2.5), 1}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), marked(done("a1", "t.1", 3))}
			}), broken: []invariant{s4OneTerminal}},
		{name: "a marked copy without a fault in flight", faults: []strike{{"kill", at(9), at(9), 1}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), marked(done("a1", "t.1", 3))}
			}), broken: []invariant{s4OneTerminal, s5DuplicateBound}},
		{name: "a fault before the task", faults: []strike{{"kill", at(0.1), at(0.5), 1}}, task: written("t", func(e *entry) {
			e.runs = []*run{done("a1", "t.1", 2), marked(done("a1", "t.1", 3))}
		}), broken: []invariant{s4OneTerminal, s5DuplicateBound}},
		{name: "two copies by one fault", faults: []strike{{"kill", at(2.5), at(2.5), 1}}, task: written("t", func(e *entry) {
			e.runs = []*run{done("a1", "t.1", 2), marked(done("a1", "t.1", 3)), marked(done("a1", "t.1", 4))}
		}), broken: []invariant{s4OneTerminal, s5DuplicateBound}},
		{name: "two copies by a fault that fired twice", faults: []strike{{"kill", at(2.5), at(2.5), 2}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), marked(done("a1", "t.1", 3)), marked(done("a1", "t.1", 4))}
			}), broken: []invariant{s4OneTerminal}},
		{name: "a copy with neither mark nor the same dispatch id", faults: []strike{{"kill", at(2.5), at(2.5), 1}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), done("a2", "t.2", 3)}
			}), broken: []invariant{s4OneTerminal, s5DuplicateBound, s5SameAgent}},
		{name: "a copy under the same dispatch id", faults: []strike{{"kill", at(2.5), at(2.5), 1}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), done("a1", "t.1", 3)}
			}), broken: []invariant{s4OneTerminal}},
		{name: "a marked copy to another agent", faults: []strike{{"kill", at(2.5), at(2.5), 1}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2), marked(done("a2", "t.2", 3))}
			}), broken: []invariant{s4OneTerminal, s5SameAgent}},
		{name: "run and failed", faults: []strike{{"kill", at(2.5), at(2.5), 1}}, fates: []fate{{"t", "any"}},
			task: written("t", func(e *entry) {
				e.runs = []*run{done("a1", "t.1", 2)}
				e.failures = []failure{{"retries_exhausted", at(3)}}
			})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &rig{t: t, fates: tt.fates, strikes: tt.faults}
			r.book = newBook(r)
			r.book.tasks[tt.task.id] = tt.task
			for _, i := range []invariant{s1NoLoss, s3NoPhantom, s4OneTerminal, s5DuplicateBound, s5SameAgent} {
				want := false
				for _, b := range tt.broken {
					want = want || b.name == i.name
				}
				if got := i.check(r); (len(got) > 0) != want {
					t.Errorf("%s: broken %t, want %t: %s", i.name, len(got) > 0, want, strings.Join(got, "; "))
				}
			}
		})
	}
}

// A task that has ended is answered, if it was offered after the cell began to listen: with the output, if its agent
// ended it.
func TestCheckerOfAnswers(t *testing.T) {
	completed, failed := answer{"t.completed", "of t"}, answer{"t.failed", ""}
	for _, tt := range []struct {
		name    string
		offered float64 // the cell listens from 1 s
		ended   bool
		answers []answer
		broken  bool
	}{
		{name: "answered", offered: 2, ended: true, answers: []answer{completed}},
		{name: "answered twice, across a fault", offered: 2, ended: true, answers: []answer{completed, completed}},
		{name: "failed", offered: 2, ended: true, answers: []answer{failed}},
		{name: "never answered", offered: 2, ended: true, broken: true},
		{name: "offered too early to be answered", offered: 0.5, ended: true},
		{name: "still open", offered: 2},
		{name: "another task's output", offered: 2, ended: true, answers: []answer{{"t.completed", "of u"}}, broken: true},
		{name: "no output", offered: 2, ended: true, answers: []answer{completed, {"t.completed", ""}}, broken: true},
		{name: "another message id", offered: 2, ended: true, answers: []answer{{"t", "of t"}}, broken: true},
	} {
		r := &rig{t: t}
		r.book = newBook(r)
		r.book.listens = at(1)
		e := written("t", func(e *entry) { e.offered, e.answers = at(tt.offered), tt.answers })
		if tt.ended {
			e.told = []told{{by: "a1"}}
		}
		r.book.tasks["t"] = e
		if broken := append(r.misanswered(), r.unanswered()...); (len(broken) > 0) != tt.broken {
			t.Errorf("%s: broken %q, want %v", tt.name, broken, tt.broken)
		}
	}
}

func TestCheckersOfTheWhole(t *testing.T) {
	with := func(edit func(r *rig, c *process)) *rig {
		r := &rig{t: t, secrets: []string{"s3cret"}}
		r.book = newBook(r)
		c := &process{r: r, name: "c", log: &brokertest.LogBook{}, told: map[string]bool{}}
		r.processes = append(r.processes, c)
		edit(r, c)
		return r
	}
	write := func(text string) func(*rig, *process) {
		return func(_ *rig, c *process) { _, _ = c.log.Write([]byte(text)) } // never fails (LogBook)
	}
	for _, tt := range []struct {
		name  string
		edit  func(r *rig, c *process)
		check invariant
		want  bool
	}{
		{"an empty log", write(""), s11NoSecrets, false},
		{"a password in the log", write("amqp://u:s3cret@host"), s11NoSecrets, true},
		{"a password over HTTP", func(_ *rig, c *process) { c.told["/status"] = true }, s11NoSecrets, true},
		{"a quiet log", write("task assigned\n"), s12Bounded, false},
		{"a panic", write("panic: runtime error"), s12Bounded, true},
		{"a panic that was asked for", write("failpoint panic: task t-1"), s12Bounded, false},
		{"much memory", func(_ *rig, c *process) { c.mostRSS = memoryBound + 1 }, s12Bounded, true},
		{"much memory, as was expected",
			func(r *rig, c *process) { c.mostRSS = memoryBound + 1; r.mayTake = memoryBound + 2 }, s12Bounded, false},
		{"a stranger", func(r *rig, _ *process) { r.book.strangers = []string{"x"} }, s3NoPhantom, true},
		{"what cannot be read", func(r *rig, _ *process) { r.book.unreadable = []string{"x"} }, s3NoPhantom, true},
		{"an agent beyond its slots", func(r *rig, _ *process) { r.book.overworked = []string{"x"} }, s6Capacity, true},
		{"counters that do not add up", func(r *rig, _ *process) { r.book.unbalanced = []string{"x"} }, s14Conservation,
			true},
		{"the auditor's finding", func(_ *rig, c *process) { c.audited = 1 }, s14Conservation, true},
		{"nothing", func(*rig, *process) {}, s14Conservation, false},
	} {
		if got := tt.check.check(with(tt.edit)); (len(got) > 0) != tt.want {
			t.Errorf("%s: %s is broken: %t, want %t", tt.name, tt.check.name, len(got) > 0, tt.want)
		}
	}
}

// What the wire shows of a coordinator that writes no journal is not what one promises
// that does: the check sees real traffic.
func TestTheWireShowsAMissingJournal(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, unjournalled, 1)
	r.serve()
	r.work(4, 5, usual)
	r.submit(many("t", "build", 20)...)
	r.settled()
	if broken := r.onTheWire("WAL"); len(broken) < 20 {
		t.Errorf("20 dispatches without a journal break the promise %d times", len(broken))
	}
	if broken := r.onTheWire("S2", "S15"); len(broken) > 0 {
		t.Errorf("and nothing else: %v", broken)
	}
	// Acknowledgements go out a few milliseconds after nothing is held any more.
	r.eventually(patience, "20 tasks are delivered, acknowledged and dispatched", func() (bool, string) {
		c := r.trace.Counts()
		return c.Delivered == 20 && c.Acked == 20 && c.ConfirmedTo("agent.a") == 20, fmt.Sprintf("%+v", c)
	})
}

func TestSumOfMetrics(t *testing.T) {
	const page = "# HELP a help\na 1\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3.5\nab 9\n"
	for name, want := range map[string]float64{"a": 1, "a_total": 5.5, `a_total{x="2"}`: 3.5, "b": 0} {
		if got := sumOf(page, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
