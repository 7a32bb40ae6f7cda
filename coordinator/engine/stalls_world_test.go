package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// What the random worlds (history, succession) know of alarms and of agents that are killed.

// stalls are the times in which no agent can be heard: there is no session, or an alarm holds up
// publishers.
type stalls struct {
	since time.Time // when the one at hand began; zero: there is none
	over  time.Time // when the latest ended; zero: there was none
	past  []stalled
}

type stalled struct{ from, until time.Time }

func (s *stalls) begin(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
}

func (s *stalls) end(now time.Time) {
	if !s.since.IsZero() {
		s.past = append(s.past, stalled{s.since, now})
		s.since, s.over = time.Time{}, now
	}
}

// between is how much of the time between two moments they took, in those that are over.
func (s *stalls) between(from, until time.Time) (sum time.Duration) {
	for _, p := range s.past {
		if d := coordinator.Earlier(p.until, until).Sub(coordinator.Later(p.from, from)); d > 0 {
			sum += d
		}
	}
	return sum
}

// mayBeOverdue objects to a lease that ends while no agent can be heard, before it has had its time
// without the stalls, or before what was held up in the last one could be told.
func (s *stalls) mayBeOverdue(now time.Time, a *attempt) error {
	switch least := a.since.Add(a.Timeout + engine.LeaseMargin + s.between(a.since, now)); {
	case !s.since.IsZero():
		return fmt.Errorf("%s is overdue, and since %v nobody could have told", a.DispatchID, s.since)
	case now.Before(least):
		return fmt.Errorf("%s is overdue at %v, before %v", a.DispatchID, now, least)
	case !a.settled.IsZero() && a.settled.Before(s.over) && now.Before(s.over.Add(engine.LeastToTell)):
		return fmt.Errorf("%s is overdue at %v, and could be told of only from %v on", a.DispatchID, now, s.over)
	}
	return nil
}

// alarmTimes are how long alarms last, or pauses in them: longer than any lease, now and then.
var alarmTimes = []int{0, 1, 30, 100, 1000}

// alarm begins, or ends after a while. Time passes in it as ever.
func (h *history) alarm(t *rapid.T) {
	h.needSession(t)
	if h.m.held {
		h.now = h.now.Add(seconds(t, "the alarm lasts", alarmTimes...))
		h.do(coordinator.Tick{})
	}
	h.do(coordinator.PublishingHeld{Held: !h.m.held})
}

// kill ends an agent without a word: its consumer is gone from one moment to the next. Whether it
// has work or none, a look that the engine asks for sees that within five seconds, and what it
// had in hand, and what was sent to it meanwhile, is taken back together. It may be back at once.
func (h *history) kill(t *rapid.T) {
	h.needSession(t)
	var idle, busy []coordinator.AgentID
	for _, a := range h.e.FleetAgents() {
		switch b := h.m.agents[a.Spec().ID]; {
		case b.state != coordinator.AgentOnline || b.noQueue:
		case b.outstanding() == 0:
			idle = append(idle, a.Spec().ID)
		default:
			busy = append(busy, a.Spec().ID)
		}
	}
	list := idle
	if len(idle) == 0 || len(busy) > 0 && rapid.Bool().Draw(t, "one with work") {
		list = busy
	}
	if len(list) == 0 {
		t.Skip("no agent is there")
	}
	id := rapid.SampledFrom(list).Draw(t, "killed")
	a := h.m.agents[id]
	h.do(coordinator.QueueSeen{Agent: id, Consumers: 1})
	const look, within = 500 * time.Millisecond, 5 * time.Second
	for end := h.now.Add(within); a.state == coordinator.AgentOnline; h.now = h.now.Add(look) {
		if h.now.After(end) {
			t.Fatalf("%s was killed %v ago, and is not missed", id, within)
		}
		h.do(coordinator.Tick{})
		if slices.ContainsFunc(h.e.Watched(h.now, engine.PresentMost),
			func(w coordinator.QueueWatch) bool { return w.Agent == id }) {
			h.do(coordinator.QueueSeen{Agent: id, Ready: 1})
		}
		if n := h.e.ActiveClasses(); n > 0 && rapid.Bool().Draw(t, "a word of another") {
			h.do(coordinator.AgentReported{Live: true, Report: h.idle(rapid.SampledFrom(agentIDs).Draw(t, "agent"))})
		}
	}
	for _, d := range slices.Clone(h.arrived) {
		if d.Agent == id && rapid.IntRange(0, 5).Draw(t, d.DispatchID+" comes later at 0") > 0 {
			h.arrived = slices.DeleteFunc(h.arrived, func(x *coordinator.Dispatch) bool { return x == d })
			h.handle++
			h.do(coordinator.TaskReturned{
				Handle: h.handle, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Failed: d.Failed,
				Cause: coordinator.ReturnTakenBack, Redelivered: rapid.Bool().Draw(t, "in hand"), MaybeDuplicate: d.MaybeDuplicate,
			})
		}
	}
	if rapid.Bool().Draw(t, "it is back") {
		h.now = h.now.Add(time.Second)
		h.do(coordinator.AgentReported{Live: true, Report: h.idle(id)})
		h.do(coordinator.QueueSeen{Agent: id, Consumers: 1})
	}
}

// alarm begins, or ends after a while.
func (s *succession) alarm(t *rapid.T) bool {
	if s.held {
		s.now = s.now.Add(seconds(t, "the alarm lasts", alarmTimes...))
		s.do(coordinator.Tick{})
	}
	s.do(coordinator.PublishingHeld{Held: !s.held})
	return true
}

// kill ends an agent without a word, which is back when all that it had in hand has come back.
func (s *succession) kill(t *rapid.T) bool {
	id := rapid.SampledFrom(s.policy.Agents).Draw(t, "killed").ID
	s.attend(id)
	for range 2 {
		s.do(coordinator.QueueSeen{Agent: id, Ready: 1})
	}
	if a := s.e.FleetAgent(id); a.State() == coordinator.AgentOnline {
		s.t.Fatalf("%s was killed, and is not missed", id)
	}
	for _, d := range slices.Clone(s.arrived) {
		if d.Agent != id || !s.early &&
			s.l.life(d.Task.ID).attempts[coordinator.AttemptID(d.Task.ID, d.Attempt)].standing == published {
			continue
		}
		s.heard[d.DispatchID] = true
		s.arrived = slices.DeleteFunc(s.arrived, func(x *coordinator.Dispatch) bool { return x == d })
		s.handle++
		s.do(coordinator.TaskReturned{
			Handle: s.handle, Task: d.Task, Agent: d.Agent, Attempt: d.Attempt, Tried: d.Tried, Failed: d.Failed,
			Cause: coordinator.ReturnTakenBack, Redelivered: rapid.Bool().Draw(t, "in hand"), MaybeDuplicate: d.MaybeDuplicate,
		})
	}
	s.attend(id)
	return true
}

// attend has an agent be there.
func (s *succession) attend(id coordinator.AgentID) {
	if s.dead == id {
		s.dead = ""
	}
	s.now = s.now.Add(time.Millisecond)
	s.do(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
		Agent: id, Status: coordinator.StatusReady, Available: 3, Timestamp: s.real(), ActiveTasks: []coordinator.TaskID{},
	}})
	s.do(coordinator.QueueSeen{Agent: id, Consumers: 1})
}

// killMeanwhile has an agent have been killed while none led, of which the stream of heartbeats says
// nothing: the first look at its queue tells, and it gets nothing from then on.
func (s *succession) killMeanwhile(t *rapid.T) {
	if s.dead = ""; rapid.IntRange(0, 2).Draw(t, "an agent was killed meanwhile at 0") > 0 {
		return
	}
	id := rapid.SampledFrom(s.policy.Agents).Draw(t, "killed").ID
	s.do(coordinator.QueueSeen{Agent: id})
	s.dead = id
	if a := s.e.FleetAgent(id); !a.Unattended() {
		s.t.Fatalf("%s has no consumer any more, and the new leader does not know", id)
	}
}

// revive has the agent come back that was killed while none led.
func (s *succession) revive(*rapid.T) bool {
	if s.dead == "" {
		return false
	}
	s.attend(s.dead)
	return true
}

// TestOverdueByTheClockThatCounts: how long a dispatch has had is known by the clock of the leader that made
// it, and by no other, however far ahead that was.
func TestOverdueByTheClockThatCounts(t *testing.T) {
	for name, c := range map[string]struct {
		at      time.Time // when it is made
		another bool      // a leader that began at epoch, a minute before it is taken for overdue
		ok      bool
	}{
		"too early":                             {at: epoch},
		"in time":                               {at: epoch.Add(-10 * time.Minute), ok: true},
		"made by another leader":                {at: epoch.Add(-30 * time.Second), another: true, ok: true},
		"made by another, by a clock far ahead": {at: epoch.Add(100 * time.Hour), another: true, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &succession{l: newLedger(), e: engine.New(), now: c.at, began: c.at, led: true}
			s.l.engine = s.e
			task := &job("t").Task
			s.l.receive(&receipt{handle: 1, task: task, message: 1})
			d := &coordinator.Dispatch{
				Handle: 1, Task: task, Agent: "a", DispatchID: coordinator.DispatchID(task, 1), Attempt: 1,
				Timeout: 5 * time.Minute, At: c.at,
			}
			if err := s.judge(d); err != nil {
				t.Fatal(err)
			}
			s.settled(s.l.receipts[1], coordinator.PublishConfirmed)
			if c.another {
				s.e = engine.New()
				s.l.engine, s.began = s.e, epoch
			}
			s.now = epoch.Add(time.Minute)
			if err := s.judge(&coordinator.Fail{Task: task}); (err == nil) != c.ok {
				t.Errorf("judged %v, want it in order: %v", err, c.ok)
			}
		})
	}
}
