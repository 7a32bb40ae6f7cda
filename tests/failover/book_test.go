package failover

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// book is what producers, agents and observers of one test have seen.
type book struct {
	mu    sync.Mutex
	tasks map[string]*entry
	// duplicates are the ids that were announced as copies.
	duplicates map[string]int
	strangers  []string // what came out of nowhere
}

// entry is all that is known of one task.
type entry struct {
	id        string
	confirmed bool // the broker has accepted it
	runs      []run
	done      []string // what its handler has finished: the dispatch ids
	ends      []end
}

// run is one delivery of one dispatch to an agent.
type run struct {
	agent, dispatch string
	marked, tells   bool      // tells: its agent will say how it ended
	at              time.Time // when it arrived
	assigned        time.Time // when it was decided, by the coordinator's clock
}

// end is what was announced: the outcome that an agent told, or why it failed.
type end struct {
	what, agent, dispatch string
	failed                bool // by assignment.failed
}

func newBook() *book { return &book{tasks: map[string]*entry{}, duplicates: map[string]int{}} }

// of finds a task's entry, making one if need be. mu is held.
func (b *book) of(id string) *entry {
	e := b.tasks[id]
	if e == nil {
		e = &entry{id: id}
		b.tasks[id] = e
	}
	return e
}

func (b *book) confirm(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(id).confirmed = true
}

func (b *book) begins(id string, r run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of(id)
	e.runs = append(e.runs, r)
}

func (b *book) finishes(id, dispatch string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of(id)
	e.done = append(e.done, dispatch)
}

// ends notes how a task has ended; what comes again may have been noted.
func (b *book) ends(id string, what end, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.of(id); !again || !slices.Contains(e.ends, what) {
		e.ends = append(e.ends, what)
	}
}

// duplicate notes an announcement of a copy; what comes again may have been noted.
func (b *book) duplicate(id string, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !again || b.duplicates[id] == 0 {
		b.duplicates[id]++
	}
}

// look gives a copy of a task's entry.
func (b *book) look(id string) entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := *b.of(id)
	e.runs, e.done, e.ends = slices.Clone(e.runs), slices.Clone(e.done), slices.Clone(e.ends)
	return e
}

// settled tells that the task has come out: an agent has it, or its failure is told.
func (e entry) settled() bool { return len(e.runs) > 0 || len(e.ends) > 0 }

// unfinished tells that an agent has it that will say how it ended.
func (e entry) unfinished() bool { return len(e.runs) > 0 && e.runs[0].tells && len(e.ends) == 0 }

// open counts the confirmed tasks that have not come out.
func (b *book) open() (open, confirmed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.tasks {
		if e.confirmed {
			confirmed++
			if !e.settled() {
				open++
			}
		}
	}
	return open, confirmed
}

// firstAfter is when the first dispatch arrived that was decided after a moment;
// zero: none has.
func (b *book) firstAfter(t time.Time) (arrived time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.tasks {
		for _, r := range e.runs {
			if r.assigned.After(t) && r.at.After(t) && (arrived.IsZero() || r.at.Before(arrived)) {
				arrived = r.at
			}
		}
	}
	return arrived
}

// begunBy counts the dispatches that an agent got which were decided after a moment.
func (b *book) begunBy(agent string, after time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.tasks {
		for _, r := range e.runs {
			if r.agent == agent && r.assigned.After(after) {
				n++
			}
		}
	}
	return n
}

// balance is what a test has come to.
type balance struct {
	offered, confirmed, dispatched, failed, lost int
	copies                                       int // deliveries of a dispatch beyond its first
	toldTwice                                    int // tasks whose end was announced more than once
}

func (s balance) String() string {
	return fmt.Sprintf("%d confirmed of %d offered: %d dispatched, %d failed, lost %d; %d copies; %d ends told twice",
		s.confirmed, s.offered, s.dispatched, s.failed, s.lost, s.copies, s.toldTwice)
}

// audit holds the book against the promise: nothing is lost; an end is told of
// everything that an agent with the SDK had, and never two different ones; copies are
// marked. If the agents were alive throughout, no task has two dispatch ids, nor two
// agents, and nothing is done twice by agents with the SDK. suspects are some of the
// tasks that break it.
func (b *book) audit(t *testing.T, agentsLived bool) (s balance, suspects []entry) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for id, e := range b.tasks {
		were := len(broken)
		s.offered++
		if e.confirmed {
			s.confirmed++
		}
		switch {
		case e.confirmed && !e.settled():
			s.lost++
			report("lost: %s", id)
		case len(e.runs) > 0:
			s.dispatched++
		case len(e.ends) > 0:
			s.failed++
		}
		if wantsFailure := fails(id); e.settled() && wantsFailure != (len(e.runs) == 0) {
			report("%s should fail: %v; it came out as %+v", id, wantsFailure, e)
		}
		unmarked := 0
		for i, r := range e.runs {
			if first := e.runs[0]; agentsLived && (r.dispatch != first.dispatch || r.agent != first.agent) {
				report("%s is dispatched as %s to %s, and as %s to %s", id, first.dispatch, first.agent, r.dispatch, r.agent)
			}
			if i > 0 {
				s.copies++
			}
			if !r.marked {
				unmarked++
			}
		}
		if unmarked > 1 {
			report("%s: %d copies without the mark: %+v", id, unmarked, e.runs)
		}
		if agentsLived && len(e.done) > 1 {
			report("%s is done %d times by an agent that should know it", id, len(e.done))
		}
		if len(e.ends) > 1 {
			s.toldTwice++
		}
		if e.unfinished() {
			report("%s was begun, and nobody was told how it ended: %+v", id, e)
		}
		for _, other := range e.ends {
			if agentsLived && other != e.ends[0] || other.what != e.ends[0].what {
				report("%s ends in two ways: %+v", id, e.ends)
				break
			}
		}
		if len(broken) > were && len(suspects) < 3 {
			suspects = append(suspects, *e)
		}
	}
	broken = append(broken, b.strangers...)
	for i, text := range broken {
		if i == 10 {
			t.Errorf("and %d more", len(broken)-i)
			break
		}
		t.Error(text)
	}
	return s, suspects
}
