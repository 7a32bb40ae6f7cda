package admission

import (
	"testing"

	"taskbus/coordinator"
)

// TestCheck: what is filed where it would not be found is found out, one place at a time.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(q *Waits, w *Wait){
		"": func(*Waits, *Wait) {},
		"under another leaf": func(q *Waits, w *Wait) {
			delete(q.of, key{w.Class.Admission(), w.Leaf})
			q.of[key{w.Class.Admission(), w.Leaf + 1}] = w
		},
		"under another class": func(q *Waits, w *Wait) {
			delete(q.of, key{w.Class.Admission(), w.Leaf})
			q.of[key{&ClassState{}, w.Leaf}] = w
		},
		"in no queue":                  func(q *Waits, w *Wait) { delete(q.queues, w.queue.key) },
		"in a queue, and not itself":   func(q *Waits, w *Wait) { delete(q.of, key{w.Class.Admission(), w.Leaf}) },
		"behind a node that it is not": func(q *Waits, w *Wait) { q.refused["pool/y"] = append(q.refused["pool/y"], w) },
	} {
		h := newHarness(t, limits(map[string]int64{"x": 1}), "x", "y")
		c := h.class(10)
		for range 2 {
			a := requests(1)
			a[coordinator.DimConcurrency] = 1
			h.add(c, "x", coordinator.PriorityNormal, a)
		}
		h.run()
		all := h.All()
		if len(all) != 1 || all[0].Leaf < 0 {
			t.Fatalf("%d wait, want one leaf: the seat of x is taken", len(all))
		}
		spoil(h.Waits, all[0])
		if found := h.Check(); (len(found) > 0) != (name != "") {
			t.Errorf("filed %s: %+v", name, found)
		}
	}
}
