package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// Slow answers raise what is a node's own, up to the bound, and fast ones lower it again.
func TestSlowRule(t *testing.T) {
	r := ruledRig(t)
	q := ruled()
	q.Adjustment.Idle = nil
	r.reload(q)
	// b 3 s; x 2 s, which is not slow yet
	slow := func() { r.worksOften("b", "x", 10, 3*time.Second); r.worksOften("a", "x", 10, time.Second) }
	r.day(slow)
	r.day(slow)
	r.stands("pool/x/b limits +10%")
	if c := r.QuotaControls()[0]; !strings.Contains(c.Reason, "answers took 3s on average, more than 2s") {
		t.Errorf("%+v", c)
	}
	for range 3 {
		r.day(slow)
	}
	r.stands("pool/x/b limits +25%")
	r.day(func() {}) // no answer says nothing, nor does one
	r.day(func() { r.works("b", "x", 10, time.Second) })
	r.stands("pool/x/b limits +25%")
	for range 3 {
		r.day(func() { r.worksOften("b", "x", 10, time.Second) })
	}
	r.stands()
}

// A report of how long it took has answered, whether or not it says what it has used.
func TestSlowCountsWhatSaysHowLong(t *testing.T) {
	r := ruledRig(t)
	q := ruled()
	q.Adjustment.Idle = nil
	r.reload(q)
	told := func(n int, took time.Duration) {
		for range n {
			r.n++
			id := coordinator.TaskID(fmt.Sprint("t", r.n))
			b := job(id).of("x").tokens(1, 1)
			b.Preferred = []coordinator.AgentID{"b"}
			r.give(b)
			r.tell(says("b", id).took(took))
			r.hear(beat("b").running())
		}
	}
	r.day(func() {}) // the day on which counting began
	r.day(func() { told(often, 0) })
	r.stands() // how long is not reported
	r.day(func() { told(often-1, 3*time.Second) })
	r.stands() // not often enough
	r.day(func() { told(often, 3*time.Second) })
	r.stands("pool/x limits +10%", "pool/x/b limits +10%")
}
