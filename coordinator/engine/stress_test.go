package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// TestLoadBalancingStress is ADR-018's: a million events in random order - tasks,
// confirms, results good and bad, heartbeats, some of them old news - and no agent is
// ever given a task beyond its slots. What an agent has is counted here, from the
// dispatches and the results alone.
func TestLoadBalancingStress(t *testing.T) {
	events := 1_000_000
	if testing.Short() {
		events = 100_000
	}
	const agents = 12
	var crew []*specBuilder
	for i := range agents {
		crew = append(crew, worker(coordinator.AgentID(fmt.Sprintf("a%02d", i))).slots(1+i%5).every(time.Second))
	}
	p := policyOf(crew...).by(strategy.LoadBalancedName).set(func(s *coordinator.Settings) {
		s.StaleAfter, s.MaxQueueSize, s.DedupeMaxIDs = 1000*time.Hour, 50, 5000
	})
	e, now, chance := engine.New(), epoch, rand.New(rand.NewPCG(1, 18))
	has := make(map[coordinator.AgentID]map[coordinator.TaskID]bool)
	var unconfirmed, working []*coordinator.Dispatch
	var out []coordinator.Effect
	dispatched, most := 0, 0
	apply := func(ev coordinator.Event) {
		out = e.Apply(now, ev, out[:0])
		for _, f := range out {
			d, ok := f.(*coordinator.Dispatch)
			if !ok {
				continue
			}
			dispatched++
			has[d.Agent][d.Task.ID] = true
			unconfirmed = append(unconfirmed, d)
			slots := e.FleetAgent(d.Agent).Spec().MaxConcurrent
			if n := len(has[d.Agent]); n > slots {
				t.Fatalf("%s has %d tasks and %d slots", d.Agent, n, slots)
			} else if n == slots {
				most++
			}
		}
	}
	take := func(list *[]*coordinator.Dispatch) *coordinator.Dispatch {
		i := chance.IntN(len(*list))
		d := (*list)[i]
		(*list)[i] = (*list)[len(*list)-1]
		*list = (*list)[:len(*list)-1]
		return d
	}
	beat := func(id coordinator.AgentID) {
		r := coordinator.AgentReport{Agent: id, Status: coordinator.StatusReady, ActiveTasks: []coordinator.TaskID{},
			Timestamp: now}
		for task := range has[id] {
			r.ActiveTasks = append(r.ActiveTasks, task)
		}
		r.Active = len(r.ActiveTasks)
		r.Available = e.FleetAgent(id).Spec().MaxConcurrent - r.Active
		apply(coordinator.AgentReported{Report: r, Live: true})
	}
	apply(coordinator.PolicyChanged{Policy: &p.Policy})
	apply(coordinator.SessionOpened{})
	for _, w := range crew {
		has[w.ID] = make(map[coordinator.TaskID]bool)
		beat(w.ID)
	}
	for i := range events {
		now = now.Add(time.Duration(chance.IntN(2000)) * time.Microsecond)
		switch c := chance.IntN(10); {
		case c < 3:
			apply(coordinator.TaskReceived{Handle: coordinator.Handle(i + 1), Task: &coordinator.Task{
				ID: numbered(i), Type: "any", Priority: coordinator.Priority(chance.IntN(4)), AcceptedAt: now, ContentHash: 1,
			}})
		case c < 6 && len(unconfirmed) > 0:
			d := take(&unconfirmed)
			working = append(working, d)
			apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
		case c < 9 && len(working) > 0:
			d := take(&working)
			delete(has[d.Agent], d.Task.ID)
			r := coordinator.Result{Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: now,
				Duration: time.Second}
			if chance.IntN(5) == 0 {
				r.Outcome = coordinator.OutcomeFailed
			}
			apply(coordinator.ResultReported{Result: r, Live: true})
		case c == 9:
			beat(crew[chance.IntN(agents)].ID)
		}
	}
	// The fleet is worked hard, or this would show nothing: a tenth of the dispatches
	// at least takes an agent's last slot.
	if dispatched < events/10 || most < dispatched/10 {
		t.Errorf("%d dispatches in %d events, %d of them into the last slot", dispatched, events, most)
	}
	engine.CheckIndexes(t, e)
}
