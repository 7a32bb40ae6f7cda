package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// overload is a fleet of one slot that does one task a second, and tenants with quotas by
// weights alone of which some send faster; moves are confirmed at once, and lanes hand out
// what is in them, in order, as far as they are read.
type overload struct {
	*rig
	queues map[string][]coordinator.TaskID
	sent   int
	given  int // dispatches that have ended
}

func newOverload(t *testing.T, room int, groups ...string) *overload {
	q := quotasOf()
	for _, g := range groups {
		q.group(g, 1, nil)
	}
	a := worker("a").slots(1)
	a.Timeout = 240 * time.Hour
	r := ready(t, policyOf(a).quotas(q).lanes(room, groups...).set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.StaleAfter, s.MaxQueueSize, s.DedupeMaxIDs = 24*time.Hour, 1000*time.Hour, 100_000, 1_000_000
	}))
	r.hear(beat("a").running())
	return &overload{rig: r, queues: make(map[string][]coordinator.TaskID)}
}

// send lets each of the groups send a task.
func (o *overload) send(groups ...string) {
	o.sent++
	for _, g := range groups {
		o.assign(job(coordinator.TaskID(fmt.Sprint(g, o.sent))).of(g))
	}
	o.settle()
}

// settle confirms moves.
func (o *overload) settle() {
	for moved := true; moved; {
		moved = false
		for _, t := range o.HeldInOrder() {
			if t.State() == engine.StateMoving {
				g := t.Task().Group
				o.queues[g] = append(o.queues[g], t.Task().ID)
				o.moved(t.Handle(), coordinator.PublishConfirmed)
				moved = true
			}
		}
	}
}

// read hands out what the lanes have.
func (o *overload) read(groups ...string) {
	for _, g := range groups {
		held := 0
		for _, t := range o.HeldTasks() {
			if t.FromLane() == g {
				held++
			}
		}
		for l := o.Lane(g); l != nil && held < l.Window && len(o.queues[g]) > 0; held++ {
			id := o.queues[g][0]
			o.queues[g] = o.queues[g][1:]
			o.comes(g, job(id).of(g), false)
			o.settle()
		}
		o.laneHas(g, len(o.queues[g]))
	}
}

// second ends what is dispatched, and lets a second pass.
func (o *overload) second() {
	o.confirm(o.dispatches[o.given].Handle)
	o.tell(says("a", o.dispatches[o.given].Task.ID))
	o.given++
	o.pass(time.Second)
	o.settle()
}

// TestLanesUnderOverload: two tenants send five tasks a second each, and one of both a second
// is served. The only task of a third, in its lane, starts after one of each of the others and
// the one that was going: it has had nothing, so its turn is next. And no group's old tasks stay
// in a lane while newer ones are served: after 600 dispatches, 300 of each, the first 40 of
// both that did not find room are done.
func TestLanesUnderOverload(t *testing.T) {
	const room = 200
	all := []string{"a", "b", "v"}
	o := newOverload(t, room, all...)
	for range 150 { // 300 tasks, and room for 200
		o.send("a", "b")
	}
	laned := append(slices.Clone(o.queues["a"][:40:40]), o.queues["b"][:40]...)
	o.queues["v"] = []coordinator.TaskID{"v1"}
	o.laneHas("v", 1)
	o.read(all...)
	for i := range 600 {
		o.second()
		for range 5 {
			o.send("a", "b")
		}
		o.hear(beat("a").running(o.latest().Task.ID))
		o.read(all...)
		if i%100 == 0 {
			engine.CheckIndexes(t, o.Engine)
		}
		if n := o.Backlog(); n > room {
			t.Fatalf("%d wait, with room for %d", n, room)
		}
	}
	at := make(map[coordinator.TaskID]int)
	for i, d := range o.dispatches {
		at[d.Task.ID] = i
	}
	if i, begun := at["v1"]; !begun || i > 3 {
		t.Errorf("v1 is dispatch %d, %v", i, begun)
	}
	for _, id := range laned {
		if _, begun := at[id]; !begun {
			t.Errorf("%s has not been dispatched", id)
		}
	}
}

// TestLanesKeepTheirOrder: two tenants send one task a second each, and one of both is served.
// What waits longer and longer goes to the lane and comes back, and no task is overtaken by
// more of its tenant than have room, and a window of the lane, which is half of that at most.
func TestLanesKeepTheirOrder(t *testing.T) {
	const room = 200
	o := newOverload(t, room, "a", "b")
	for range 150 {
		o.send("a", "b")
	}
	latest := make(map[string]int)
	for i := range 2000 {
		o.second()
		o.send("a", "b")
		o.hear(beat("a").running(o.latest().Task.ID))
		o.read("a", "b")
		d := o.dispatches[i].Task
		n, err := strconv.Atoi(strings.TrimPrefix(string(d.ID), d.Group))
		if err != nil {
			t.Fatal(err)
		}
		if latest[d.Group] = max(latest[d.Group], n); latest[d.Group]-n > room*3/2 {
			t.Fatalf("%s is dispatched after %s%d", d.ID, d.Group, latest[d.Group])
		}
	}
}
