package admission

import (
	"fmt"
	"time"
)

// Violation is something that is not as it must be.
type Violation struct {
	Wait *Wait // that it is about; nil: all
	Text string
}

// Check returns what is not filed where it would be found: waits, and what is left of removed ones.
func (q *Waits) Check() (found []Violation) {
	owning, queued, refused := 0, 0, 0
	for id, w := range q.of {
		if w.mayHaveOwn() {
			owning++
		}
		if id != (key{w.Class.Admission(), w.Leaf}) {
			found = append(found, Violation{w, fmt.Sprintf("it is filed at leaf %d, or under another class", id.leaf)})
		}
		if k := q.queues[lackOf(&w.Lacks)]; k == nil || k != w.queue {
			found = append(found, Violation{w, "it is not in the queue for what it lacks"})
		}
	}
	for _, k := range q.queues {
		for _, p := range k.parts {
			if queued += p.leaves.Len(); p.whole != nil {
				queued++
			}
		}
	}
	for node, list := range q.refused {
		for _, w := range list {
			if refused++; w.part == nil || w.Lacks.Node != node || !w.mayHaveOwn() {
				found = append(found, Violation{w, fmt.Sprintf("it is thought to wait for quota behind its own node %s", node)})
			}
		}
	}
	if queued != len(q.of) || refused != owning {
		found = append(found, Violation{nil, fmt.Sprintf(
			"%d wait for quota and %d are in queues for it; %d of them may have their own, and %d are thought to",
			len(q.of), queued, owning, refused)})
	}
	return found
}

// CheckServed returns what must not be left when a round is over: waits that are due, or may try, and do not.
func (q *Waits) CheckServed(now time.Time, v View) (found []Violation) {
	q.step++
	if levels := q.trying(v); levels != 0 && !q.Paused() {
		found = append(found, Violation{nil, fmt.Sprintf("some may try at the levels %b, and do not", levels)})
	}
	for _, k := range q.queues {
		if k.place >= 0 && !k.at.After(now) {
			found = append(found, Violation{nil, fmt.Sprintf("%v was to be opened at %v", k.key, k.at)})
		}
	}
	for _, w := range q.All() {
		if !w.at.IsZero() && !w.at.After(now) {
			found = append(found, Violation{w, fmt.Sprintf("it was to be tried at %v", w.at)})
		}
		if k := w.queue; q.queues[k.key] != k || w.closes() && k.head == nil && !k.open {
			found = append(found, Violation{w, "it waits behind no head"})
		}
	}
	return found
}
