package admission

import (
	"fmt"
	"time"

	"taskbus/coordinator"
)

// Violation is something that is not as it must be.
type Violation struct {
	Wait *Wait  // that it is about; nil: all
	Node string // likewise; empty: all. Text does not repeat it
	Text string
}

// Check returns what is reserved for no dispatch, and does not add up; and what is not filed where it would be
// found. held reports whether a dispatch is open for which quota is reserved under the key; lost: there may be
// reservations without one.
func (q *Quotas) Check(held func(key coordinator.TaskKey) bool, lost bool) (found []Violation) {
	without := 0
	q.Ledger.Audit(func(key coordinator.TaskKey) {
		if !held(key) {
			without++
		}
	}, func(node string, d coordinator.Dimension, reserved, sum int64) {
		found = append(found, Violation{Node: node, Text: fmt.Sprintf(
			"%d of %s are set aside, and %d by its dispatches", reserved, d, sum)})
	})
	if without > 0 && !lost && len(q.lost) == 0 {
		found = append(found, Violation{Text: fmt.Sprintf(
			"quota is set aside for %d dispatches that are not open", without)})
	}
	return append(found, q.Waits.Check()...)
}

// Check returns what is not filed where it would be found: waits, and what is left of removed ones.
func (q *Waits) Check() (found []Violation) {
	owning, queued, refused := 0, 0, 0
	for id, w := range q.of {
		if w.mayHaveOwn() {
			owning++
		}
		if id != (key{w.Class.Admission(), w.Leaf}) {
			found = append(found, Violation{Wait: w, Text: fmt.Sprintf("it is filed at leaf %d, or under another class",
				id.leaf)})
		}
		if k := q.queues[lackOf(&w.Lacks)]; k == nil || k != w.queue {
			found = append(found, Violation{Wait: w, Text: "it is not in the queue for what it lacks"})
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
				found = append(found, Violation{Wait: w, Text: fmt.Sprintf("it is thought to wait for quota behind its own node %s",
					node)})
			}
		}
	}
	if queued != len(q.of) || refused != owning {
		found = append(found, Violation{Text: fmt.Sprintf(
			"%d wait for quota and %d are in queues for it; %d of them may have their own, and %d are thought to",
			len(q.of), queued, owning, refused)})
	}
	return found
}

// CheckServed returns what must not be left when a round is over: waits that are due, or may try, and do not.
func (q *Waits) CheckServed(now time.Time, v View) (found []Violation) {
	q.step++
	if levels := q.trying(v); levels != 0 && !q.Paused() {
		found = append(found, Violation{Text: fmt.Sprintf("some may try at the levels %b, and do not", levels)})
	}
	for _, k := range q.queues {
		if k.place >= 0 && !k.at.After(now) {
			found = append(found, Violation{Text: fmt.Sprintf("%v was to be opened at %v", k.key, k.at)})
		}
	}
	for _, w := range q.All() {
		if !w.at.IsZero() && !w.at.After(now) {
			found = append(found, Violation{Wait: w, Text: fmt.Sprintf("it was to be tried at %v", w.at)})
		}
		if k := w.queue; q.queues[k.key] != k || w.closes() && k.head == nil && !k.open {
			found = append(found, Violation{Wait: w, Text: "it waits behind no head"})
		}
	}
	return found
}
