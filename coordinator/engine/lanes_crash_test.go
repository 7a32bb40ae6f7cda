package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// crashedMove is a leader whose task t is on its way into a lane; source is where its message is
// held ("": task.assign), lane where it goes.
type crashedMove struct {
	name, source, lane string
	begin              func(t *testing.T) *rig
}

var crashedMoves = []crashedMove{
	{"it crowds the window", "", "other", func(t *testing.T) *rig {
		r := aboutToMove(t, 1)
		r.assign(job("waits").prio(coordinator.PriorityCritical))
		want(t, r.assign(job("t")), "move t to other")
		return r
	}},
	{"it is held for long", "", coordinator.LaneHeld, func(t *testing.T) *rig {
		r := aboutToMove(t, 0)
		r.assign(job("t"))
		want(t, r.busyFor(engine.HeldLong), "move t to ~held")
		return r
	}},
	{"it is held for long out of a lane", "other", coordinator.LaneHeld, func(t *testing.T) *rig {
		r := aboutToMove(t, 0)
		r.comes("other", job("t"), false)
		want(t, r.busyFor(engine.HeldMost), "move t to ~held")
		return r
	}},
}

// aboutToMove is a leader all of whose four slots are taken.
func aboutToMove(t *testing.T, room int) *rig {
	t.Helper()
	r := leader(t)
	p := policyOf(worker("a").slots(2), worker("b").slots(2)).lanes(room).set(func(s *coordinator.Settings) {
		s.AssignmentTimeout, s.StaleAfter = time.Hour, time.Hour
	})
	for i := range p.Agents {
		p.Agents[i].Timeout = time.Hour
	}
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	for _, id := range []coordinator.TaskID{"1", "2", "3", "4"} {
		r.give(job(id))
	}
	return r
}

// busyFor lets time go by in which the agents have what they have.
func (r *rig) busyFor(d time.Duration) []string {
	lines := r.pass(d)
	return slices.DeleteFunc(lines, func(line string) bool { return len(line) < 4 || line[:4] != "move" })
}

// TestLeaderDiesInAMove: at whichever point of a move the leader dies, and in whichever order the
// broker then hands out what is in two queues, the task is dispatched once and ends once, and every
// message is acknowledged.
func TestLeaderDiesInAMove(t *testing.T) {
	points := []struct {
		name           string
		heard          bool // the confirm, and the journal has what follows from it
		source, inLane bool // has the message when the next leader begins
	}{
		{"before it is published", false, true, false},
		{"when it is published, before the confirm", false, true, true},
		{"after the confirm, before the journal has that", false, true, true},
		{"when the journal has it, before the acknowledgement", true, true, true},
		{"after the acknowledgement, which is lost", true, true, true},
		{"after the acknowledgement", true, false, true},
	}
	for _, move := range crashedMoves {
		for _, at := range points {
			var messages []string
			if at.source {
				messages = append(messages, move.source)
			}
			if at.inLane {
				messages = append(messages, move.lane)
			}
			for range 2 {
				for _, ended := range []bool{false, true} {
					r := move.begin(t)
					if at.heard {
						r.moved(r.handleOf("t"), coordinator.PublishConfirmed)
					}
					for how, heir := range heirs(r) {
						t.Run(fmt.Sprintf("%s, %s, %s, messages %q, the second after the end: %v", move.name, at.name, how, messages,
							ended), func(t *testing.T) {
							heir.endsOnce(t, move.source, messages, ended)
						})
					}
				}
				slices.Reverse(messages)
			}
		}
	}
}

// handleOf is the delivery that is held of a task.
func (r *rig) handleOf(id coordinator.TaskID) coordinator.Handle {
	for h, t := range r.HeldTasks() {
		if t.Task().ID == id {
			return h
		}
	}
	r.t.Fatalf("%s is not held", id)
	return 0
}

// endsOnce has the messages of t come out of these queues, and looks at what becomes of it.
func (r *rig) endsOnce(t *testing.T, source string, messages []string, ended bool) {
	t.Helper()
	r.tell(says("a", "1"))
	r.tell(says("a", "2"))
	completed := 0
	finish := func() {
		for _, d := range r.dispatches {
			if d.Task.ID == "t" && completed == 0 {
				r.confirm(d.Handle)
				r.tell(says(d.Agent, "t"))
				completed++
			}
		}
	}
	for _, queue := range messages {
		if l := r.Lane(queue); queue != "" && (l == nil || !l.Known) {
			t.Errorf("that %s may hold something is not known", queue)
		}
		task := job("t").Task
		task.AcceptedAt = epoch
		r.last++
		r.apply(coordinator.TaskReceived{Handle: r.last, Task: &task, Lane: queue, Redelivered: queue == source})
		if ended {
			finish()
		}
	}
	finish()
	dispatched := 0
	for _, d := range r.dispatches {
		if d.Task.ID == "t" {
			dispatched++
		}
	}
	if dispatched != 1 || completed != 1 || len(r.failures) > 0 {
		t.Errorf("dispatched %d times, completed %d times, failures %+v", dispatched, completed, r.failures)
	}
	for _, o := range r.HeldTasks() {
		if o.Task().ID == "t" {
			t.Errorf("a message of it is held in state %d", o.State())
		}
	}
	engine.CheckIndexes(t, r.Engine)
}
