package simulator

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Three tasks at once for one slot, ten seconds each: they begin after 0, 10 and 20
// seconds, and the agent works 30 of 100 seconds.
func TestOneSlotServesInTurn(t *testing.T) {
	s := scenario(t, oneAgent("service: 10", "count: 3, arrivals: {bursts: {every_seconds: 1000, size: 3}}",
		"[least_loaded]"))
	w := finished(t, s, 0, 1)
	for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		if got := time.Duration(w.tasks.at(int32(i)).started - w.tasks.at(int32(i)).arrived); got != want {
			t.Errorf("task %d began after %v, want %v", i+1, got, want)
		}
	}
	p := played(t, s).Strategies[0]
	// The run ends with the last task, at 30 s.
	approx(t, "tasks/s", p.Throughput.Mean, 3.0/30, 0)
	approx(t, "wait p50", p.WaitP50.Mean, 10, 0)
	approx(t, "wait max", p.WaitMax.Mean, 20, 0)
	approx(t, "mean wait", p.WaitMean.Mean, (0+10+20)/3.0, 0)
	approx(t, "utilisation", p.Utilisation.Mean, 1, 0)
	approx(t, "Jain of one agent", p.Jain.Mean, 1, 0)
	approx(t, "work conservation violated", p.Violations.Mean, 0, 0)
	approx(t, "regret", p.RegretReward.Mean, 0, 0)
}

// Both agents have reported a load of 0, and a strategy by that alone gives both
// tasks to the same one: the second waits 10 s behind the first, while the other
// agent is idle. Its reward rate is 1/(10+10) instead of 1/10: half of the best,
// which makes a quarter on average over the two decisions.
func TestViolationsAndRegretOfAPushedTask(t *testing.T) {
	s := scenario(t, `
duration_seconds: 100
fleet:
	- {name: a, count: 2, capabilities: [work], service: 10, heartbeat_seconds: 50}
workloads:
	- {task_type: job, required_capabilities: [work], count: 2, arrivals: {bursts: {every_seconds: 1000, size: 2}}}
strategies:
	- {name: heartbeat_only, advertised_slots: 10, reports: heartbeats}
	- least_loaded
`)
	r := played(t, s)
	pushed, late := r.Strategies[0], r.Strategies[1]
	approx(t, "pushed: violated", pushed.Violations.Mean, 10, 0)
	approx(t, "pushed: regret", pushed.RegretReward.Mean, (0+0.5)/2, 0)
	approx(t, "pushed: wait max", pushed.WaitMax.Mean, 10, 0)
	// One agent works 20 of the 20 seconds, the other none: (1+0)²/(2·(1²+0²)).
	approx(t, "pushed: Jain", pushed.Jain.Mean, 0.5, 0)
	approx(t, "late binding: violated", late.Violations.Mean, 0, 0)
	approx(t, "late binding: regret", late.RegretReward.Mean, 0, 0)
	approx(t, "late binding: Jain", late.Jain.Mean, 1, 0)
}

// Round robin gives one task to each: 0.9 − 0.5 = 0.4 of a success is given away by
// the second, 0.2 on average. Equal durations: of the best reward rate it gives
// away 0.4/0.9, on average half of that.
func TestRegretOfTheWorseAgent(t *testing.T) {
	s := scenario(t, `
duration_seconds: 100
fleet:
	- {name: a, slots: 2, capabilities: [work], service: 10, success_rate: 0.9}
	- {name: b, slots: 2, capabilities: [work], service: 10, success_rate: 0.5}
workloads:
	- {task_type: job, required_capabilities: [work], arrivals: {bursts: {every_seconds: 1000, size: 2}}}
strategies: [round_robin]
`)
	p := played(t, s).Strategies[0]
	approx(t, "regret in successes", p.RegretSuccess.Mean, 0.4/2, 1e-12)
	approx(t, "regret in reward rate", p.RegretReward.Mean, 0.4/0.9/2, 1e-12)
	for _, g := range p.Groups {
		approx(t, "share of "+g.Group, g.Share.Mean, 0.5, 0)
	}
}

// A task arrives every ten seconds from 10 s on and takes one. Until 45 s everything
// succeeds, then nothing: four successes (10, 20, 30, 40), five failures (50 … 90).
func TestDriftTakesEffectAtItsMoment(t *testing.T) {
	s := scenario(t, oneAgent("service: 1, success_rate: 1, drift: [{at_seconds: 45, rate: 0}]",
		"arrivals: {constant: {rate: 0.1}}", "[least_loaded]"))
	p := played(t, s).Strategies[0]
	if p.Tasks.Succeeded != 4 || p.Tasks.FailedByAgent != 5 {
		t.Errorf("%+v, want 4 successes and 5 failures", p.Tasks)
	}
	approx(t, "success rate", p.SuccessRate.Mean, 4.0/9, 1e-12)
	if len(p.Failed) != 1 || p.Failed[0].Reason != AgentFailed || p.Failed[0].Tasks.Mean != 5 {
		t.Errorf("failures %+v, want 5 %s", p.Failed, AgentFailed)
	}
}

// The warm-up is not measured: of the tasks at 10, 20, … 90 s, those from 50 s on.
func TestWarmUpIsCutOff(t *testing.T) {
	s := scenario(t, "warm_up_seconds: 45\n"+oneAgent("service: 1", "arrivals: {constant: {rate: 0.1}}", "[least_loaded]"))
	p := played(t, s).Strategies[0]
	approx(t, "decisions", p.Decisions.Mean, 5, 0)
	approx(t, "tasks/s", p.Throughput.Mean, 5.0/55, 1e-12)
	approx(t, "utilisation", p.Utilisation.Mean, 5.0/55, 1e-12)
	if p.Tasks.Arrived != 9 {
		t.Errorf("%d arrived in the whole run, want 9", p.Tasks.Arrived)
	}
}

// A task may take 5 s but takes 10. One second after its time the coordinator gives
// it up and tells the agent, whose slot is free again at 6 s: the second task of the
// burst begins then and is given up 6 s later.
func TestTimeoutFreesTheSlot(t *testing.T) {
	s := scenario(t, oneAgent("service: 10", "timeout_seconds: 5, arrivals: {bursts: {every_seconds: 1000, size: 2}}",
		"[least_loaded]"))
	w := finished(t, s, 0, 1)
	if got := time.Duration(w.tasks.at(1).started); got != 6*time.Second {
		t.Errorf("the second task began at %v, want 6 s", got)
	}
	p := played(t, s).Strategies[0]
	if p.Tasks.Refused != 2 || len(p.Failed) != 1 || p.Failed[0].Reason != "task_timeout" {
		t.Errorf("tasks %+v, failed %+v; want 2 × task_timeout", p.Tasks, p.Failed)
	}
}

// A newcomer is not in the fleet before it joins at 50 s, and takes its turns then.
func TestNewcomerWorksFromItsFirstHeartbeat(t *testing.T) {
	s := scenario(t, `
duration_seconds: 100
fleet:
	- {name: known, capabilities: [work], service: 1}
	- {name: late, capabilities: [work], service: 1, join_at_seconds: 50}
workloads:
	- {task_type: job, required_capabilities: [work], arrivals: {constant: {rate: 0.1}}}
strategies: [round_robin]
`)
	w := finished(t, s, 0, 1)
	first, last := w.agents[0].decisions, w.agents[1].decisions
	// 10 … 40 s to the known one; at 50 s the join was scheduled first, so of the
	// tasks at 50, 60, 70, 80 and 90 s the newcomer, which never had any, gets the
	// first, the third and the fifth.
	if first != 4+2 || last != 3 {
		t.Errorf("%d and %d tasks, want 6 and 3", first, last)
	}
	if up := time.Duration(w.agents[1].upFor); up != 50*time.Second {
		t.Errorf("the newcomer was up for %v, want 50 s", up)
	}
}

// A closed loop keeps its number of tasks open: with two slots and a second each,
// two tasks end every second, and none waits.
func TestClosedLoop(t *testing.T) {
	s := scenario(t, oneAgent("slots: 2, service: 1", "arrivals: {closed: {tasks: 2}}", "[least_loaded]"))
	p := played(t, s).Strategies[0]
	approx(t, "tasks/s", p.Throughput.Mean, 2, 0.02)
	approx(t, "utilisation", p.Utilisation.Mean, 1, 0)
	approx(t, "wait max", p.WaitMax.Mean, 0, 0)
}

// An agent that tells nothing but heartbeats, every 20 s, seems full until its next
// one: one task per heartbeat gets through, though each takes a second.
func TestHeartbeatsAloneFreeSlotsLate(t *testing.T) {
	full := scenario(t, oneAgent("service: 1, heartbeat_seconds: 20", "arrivals: {closed: {tasks: 1}}", "[least_loaded]"))
	only := scenario(t, oneAgent("service: 1, heartbeat_seconds: 20, reports: heartbeats",
		"arrivals: {closed: {tasks: 1}}", "[least_loaded]"))
	if n := played(t, full).Strategies[0].Tasks.Succeeded; n < 99 {
		t.Errorf("with results: %d tasks in 100 s, want one each second", n)
	}
	if n := played(t, only).Strategies[0].Tasks.Succeeded; n < 4 || n > 7 {
		t.Errorf("with heartbeats only: %d tasks in 100 s, want one for each of 5 or 6 heartbeats", n)
	}
}

// The only agent is silent from 20 s on, and counts as gone after 30 s; what comes
// later fails for want of an agent, until it is heard again.
func TestSilenceMakesAnAgentStale(t *testing.T) {
	text := oneAgent("service: 1, heartbeat_seconds: 5, silent: [{from_seconds: 20, to_seconds: 80}]",
		"arrivals: {constant: {rate: 0.1}}", "[least_loaded]")
	s := scenario(t, text)
	for i := range s.Strategies {
		s.Strategies[i].Settings.StaleAfter = 30 * time.Second
		s.Strategies[i].Settings.AssignmentTimeout = 0
	}
	p := played(t, s).Strategies[0]
	if len(p.Failed) != 1 || p.Failed[0].Reason != "no_agents_online" || p.Failed[0].Tasks.Mean < 2 ||
		p.Tasks.Succeeded < 5 {
		t.Errorf("tasks %+v, failed %+v; want a few no_agents_online between 50 and 80 s", p.Tasks, p.Failed)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := scenario(t, oneAgent("service: 1", "arrivals: {constant: {rate: 1}}", "[least_loaded]"))
	if _, err := Play(ctx, s, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
