package engine_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// joins makes a policy whose discovery admits agents x*, at most three of them with
// two slots each, that can do go or py.
func (b *policyBuilder) joins() *policyBuilder {
	b.Discovery = &coordinator.Discovery{
		Agents: []string{"x*"}, Capabilities: []string{"go", "py"}, Queues: []string{"q*"}, MaxAgents: 3, MaxConcurrent: 2,
		ForgetAfter: time.Minute,
		Template: coordinator.AgentSpec{Rank: 3, HealthCheckInterval: interval, Timeout: time.Minute,
			AcceptTimeout: time.Minute},
	}
	return b
}

// offering announces capabilities, two slots, and nothing running.
func (b *reportBuilder) offering(capabilities ...string) *reportBuilder {
	b.Capabilities = capabilities
	return b.running().available(2)
}

func (b *reportBuilder) consuming(queue string) *reportBuilder { b.Queue = queue; return b }

func (r *rig) fleetIDs() (ids []string) {
	for _, a := range r.FleetAgents() {
		ids = append(ids, string(a.Spec().ID))
	}
	return ids
}

// TestJoin: an agent that announces itself is part of the fleet a moment later, gets
// work once its queue exists, and leaves when it has been gone for ForgetAfter.
func TestJoin(t *testing.T) {
	r := boot(t, policyOf(worker("a")).route("go", "go").joins())
	want(t, r.hear(beat("x1").offering("go")))
	want(t, r.pass(engine.JoinDelay-1))
	want(t, r.pass(1), "ensure agent.x1", "agent x1 online")
	if a := r.seen("x1"); !a.Discovered || a.Spec.MaxConcurrent != 2 || a.Eligibility != coordinator.QueueMissing {
		t.Errorf("joined as %+v", a)
	}
	want(t, r.assign(job("t").kind("go")))
	want(t, r.apply(coordinator.QueueChecked{Agent: "x1", Exists: true}), "dispatch t.1 x1")
	r.confirm(r.last)

	r.pass(time.Second)
	want(t, r.hear(beat("x1").offering("go").status(coordinator.StatusOffline)), "agent x1 offline", "take back agent.x1")
	want(t, r.pass(59*time.Second))
	want(t, r.hear(beat("x1").offering("go")), "agent x1 online", "leave agent.x1") // just in time: its minute begins anew
	// a minute and the margin after it was confirmed
	want(t, r.pass(time.Second), "fail t task_timeout", "withdraw t.1 x1")
	want(t, r.hear(beat("x1").offering("go").status(coordinator.StatusOffline)), "agent x1 offline", "take back agent.x1")
	want(t, r.look("x1", 0, 0), "leave agent.x1")
	r.pass(time.Minute + engine.JoinDelay)
	if ids := r.fleetIDs(); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the fleet is %v, want a alone", ids)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestWaitsForWhoMayJoin: what no agent of the fleet offers waits its time where
// discovery admits agents that do. No other is waited for.
func TestWaitsForWhoMayJoin(t *testing.T) {
	tests := []struct {
		name   string
		policy *policyBuilder
		task   *taskBuilder
		now    []string
		in30s  []string // after the assignment timeout
	}{
		{"admitted", policyOf(worker("a")).joins(), job("t").needs("go"), nil, []string{"fail t no_agents_online"}},
		{"no fleet at all", policyOf().joins(), job("t").needs("go", "py"), nil, []string{"fail t no_agents_online"}},
		{"it asks for nothing, and nobody is there", policyOf().joins(), job("t"), nil, []string{"fail t no_agents_online"}},
		{"whoever could have it is excluded", policyOf(worker("a").can("go")).joins(), job("t").needs("go").not("a"), nil,
			[]string{"fail t no_agents_online"}},
		{"not admitted", policyOf(worker("a")).joins(), job("t").needs("root"), []string{"fail t no_eligible_agents"}, nil},
		{"one of two not admitted", policyOf(worker("a")).joins(), job("t").needs("go", "root"),
			[]string{"fail t no_eligible_agents"}, nil},
		{"discovery is off", policyOf(worker("a")), job("t").needs("go"), []string{"fail t no_eligible_agents"}, nil},
		{"nobody may wait", policyOf(worker("a")).joins().set(func(s *coordinator.Settings) { s.AssignmentTimeout = 0 }),
			job("t").needs("go"), []string{"fail t no_agents_online"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, tt.policy)
			want(t, r.assign(tt.task), tt.now...)
			engine.CheckIndexes(t, r.Engine)
			want(t, r.pass(30*time.Second-1))
			want(t, r.pass(1), tt.in30s...)
			waited := r.failures[0].Failure.Reason == coordinator.ReasonNoAgentsOnline
			if says := strings.Contains(r.failures[0].Failure.Text, "discovery admits"); says != waited {
				t.Errorf("the text is %q", r.failures[0].Failure.Text)
			}
		})
	}
	t.Run("it comes", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).joins())
		want(t, r.assign(job("t").needs("go")))
		if got := r.Snapshot(r.now).PendingReasons; got[coordinator.ReasonNoAgentsOnline] != 1 {
			t.Errorf("pending for %v", got)
		}
		r.pass(10 * time.Second)
		r.hear(beat("x1").offering("go"))
		want(t, r.pass(engine.JoinDelay), "ensure agent.x1", "agent x1 online")
		want(t, r.apply(coordinator.QueueChecked{Agent: "x1", Exists: true}), "dispatch t.1 x1")
	})
	t.Run("another comes: its time goes on", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).joins())
		r.assign(job("t").needs("go"))
		r.pass(20 * time.Second)
		r.hear(beat("x1").offering("py"))
		r.pass(engine.JoinDelay)
		r.apply(coordinator.QueueChecked{Agent: "x1", Exists: true})
		engine.CheckIndexes(t, r.Engine)
		want(t, r.pass(10*time.Second-engine.JoinDelay), "fail t no_agents_online") // 20 + 10 = 30
	})
	t.Run("discovery is switched off", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).joins())
		r.assign(job("t").needs("go"))
		want(t, r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("a")).Policy}), "fail t no_eligible_agents")
	})
}

// TestNotAdmitted: everything is an allow-list.
func TestNotAdmitted(t *testing.T) {
	tests := []struct {
		name   string
		report *reportBuilder
		want   string
	}{
		{"id", beat("y1").offering("go"), "refused y1 not_admitted first"},
		{"capability", beat("x1").offering("go", "root"), "refused x1 not_admitted first"},
		{"no capability", beat("x1").offering(), "refused x1 not_admitted first"},
		{"a queue of Taskbus", beat("x1").offering("go").consuming("task.assign"), "refused x1 not_admitted first"},
		{"the queue of somebody else", beat("x1").offering("go").consuming("agent.a"), "refused x1 not_admitted first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ready(t, policyOf(worker("a")).joins())
			want(t, r.hear(tt.report), tt.want)
			want(t, r.pass(time.Second))
		})
	}
	t.Run("discovery is off", func(t *testing.T) {
		want(t, ready(t, policyOf(worker("a"))).hear(beat("x1").offering("go")), "refused x1 unknown_agent first")
	})
	t.Run("one goes before it has come", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).joins())
		r.hear(beat("x1").offering("go"))
		r.hear(beat("x1").offering("go").status(coordinator.StatusOffline))
		want(t, r.pass(time.Second))
	})
	t.Run("too many, and two with one queue", func(t *testing.T) {
		r := ready(t, policyOf(worker("a")).joins())
		r.hear(beat("x1").offering("go").consuming("q"))
		r.hear(beat("x2").offering("go").consuming("q"))
		r.hear(beat("x3").offering("go"))
		want(t, r.hear(beat("x4").offering("go")), "refused x4 not_admitted first") // the fourth of 3
		want(t, r.pass(engine.JoinDelay), "refused x2 not_admitted first",
			"ensure q", "agent x1 online", "ensure agent.x3", "agent x3 online")
	})
}

// TestAnnouncedAnew: an agent that has joined may change what it offers, within the
// rules.
func TestAnnouncedAnew(t *testing.T) {
	r := boot(t, policyOf().route("py", "py").joins())
	r.hear(beat("x1").offering("go"))
	r.pass(engine.JoinDelay)
	r.apply(coordinator.QueueChecked{Agent: "x1", Exists: true})
	want(t, r.hear(beat("x1").offering("root")), "refused x1 not_admitted first") // heard, but it stays what it was
	want(t, r.hear(beat("x1").offering("py")))
	want(t, r.pass(engine.JoinDelay))
	want(t, r.assign(job("t").kind("py")), "dispatch t.1 x1")
}

// TestLabelsOfAJoinedAgent: they are those of its latest announcement, and what chooses by
// labels reads them.
func TestLabelsOfAJoinedAgent(t *testing.T) {
	r := boot(t, policyOf().route("go", "go").joins())
	labelled := func(labels map[string]string) *reportBuilder {
		b := beat("x1").offering("go")
		b.Labels = labels
		return b
	}
	expect := func(what string, want map[string]string) {
		t.Helper()
		view := r.SeenByStrategies("x1")
		if got := r.seen("x1").Spec.Labels; !maps.Equal(got, want) || !maps.Equal(view.Labels, want) {
			t.Errorf("%s: labels %v, strategies see %v, want %v", what, got, view.Labels, want)
		}
	}
	said := map[string]string{"zone": "b"}
	r.hear(labelled(said))
	said["zone"] = "the message's own list is not kept"
	r.pass(engine.JoinDelay)
	expect("as it joins", map[string]string{"zone": "b"})
	r.apply(coordinator.QueueChecked{Agent: "x1", Exists: true})
	r.hear(labelled(map[string]string{"zone": "c", "gpu": "a100"}))
	r.pass(engine.JoinDelay)
	expect("with others", map[string]string{"zone": "c", "gpu": "a100"})
	want(t, r.assign(job("t").kind("go")), "dispatch t.1 x1") // its queue is known still
	r.hear(labelled(nil))
	r.pass(engine.JoinDelay)
	expect("with none", nil)
	r.hear(labelled(map[string]string{"zone": "b"}))
	r.pass(engine.JoinDelay)
	r.install(policyOf().route("go", "go").joins())
	expect("after a reload", map[string]string{"zone": "b"})
	r.install(policyOf(worker("x1").can("go")).route("go", "go").joins())
	expect("listed, without labels", nil)
	engine.CheckIndexes(t, r.Engine)
}

// TestSettingsOfJoinedAgents: what the section says of all that join is true of those that have
// joined before it was changed, and of a follower that folds their records.
func TestSettingsOfJoinedAgents(t *testing.T) {
	r := boot(t, policyOf().joins())
	r.Record(true)
	r.hear(beat("x1").offering("go"))
	r.pass(engine.JoinDelay)
	changed := policyOf().joins()
	template := &changed.Discovery.Template
	template.Cost, template.Pull, template.Rank = 2.5, coordinator.PullShared, 1
	template.HealthCheckInterval, template.Timeout, template.AcceptTimeout = 7*time.Second, time.Hour, time.Second
	r.install(changed)
	spec := r.seen("x1").Spec
	joined := *template
	joined.ID, joined.Queue, joined.Capabilities, joined.MaxConcurrent = "x1", "agent.x1", []string{"go"}, 2
	if !reflect.DeepEqual(spec, joined) {
		t.Errorf("after the reload %+v\nwant %+v", spec, joined)
	}
	follower := engine.New()
	follower.FoldPolicy(r.now, &changed.Policy)
	for _, record := range r.Records(nil) {
		if j, is := record.(*coordinator.Joined); is {
			follower.FoldJoined(r.now, j)
		}
	}
	if a := follower.FleetAgent("x1"); a == nil || !reflect.DeepEqual(a.Spec(), joined) {
		t.Errorf("the follower has %+v\nwant %+v", a, joined)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestPolicyOverDiscovery: what agents.yaml lists is not discovered, and one that is not
// admitted any more leaves.
func TestPolicyOverDiscovery(t *testing.T) {
	r := boot(t, policyOf().joins())
	r.hear(beat("x1").offering("go"))
	r.hear(beat("x2").offering("go"))
	r.pass(engine.JoinDelay)
	r.hear(beat("x3").offering("go")) // is about to, when …
	r.install(policyOf(worker("x1"), worker("x3")).joins())
	r.pass(engine.JoinDelay)
	if ids := r.fleetIDs(); !slices.Equal(ids, []string{"x1", "x2", "x3"}) || r.seen("x1").Discovered ||
		!r.seen("x2").Discovered {
		t.Errorf("the fleet is %v", ids)
	}
	engine.CheckIndexes(t, r.Engine)
	narrower := policyOf(worker("x1")).joins()
	narrower.Discovery.Queues = nil // agent.<id> alone
	r.hear(beat("x4").offering("go").consuming("q4"))
	r.pass(engine.JoinDelay)
	r.install(narrower)
	if ids := r.fleetIDs(); !slices.Equal(ids, []string{"x1", "x2"}) {
		t.Errorf("the fleet is %v, want x4 gone with its queue", ids)
	}
	r.install(policyOf(worker("x1")))
	if ids := r.fleetIDs(); !slices.Equal(ids, []string{"x1"}) {
		t.Errorf("the fleet is %v, want x1 alone", ids)
	}
	engine.CheckIndexes(t, r.Engine)
}

// TestJoinsAreRecordedOnce: the journal grows by what changes, however large the fleet is.
func TestJoinsAreRecordedOnce(t *testing.T) {
	p := policyOf().joins()
	p.Discovery.MaxAgents = 100
	r := boot(t, p)
	r.Record(true)
	recorded := func() (list []string) {
		for _, record := range r.Records(nil) {
			if j, is := record.(*coordinator.Joined); is {
				for _, spec := range j.Agents {
					list = append(list, string(spec.ID))
				}
				for _, id := range j.Left {
					list = append(list, "-"+string(id))
				}
			}
		}
		return list
	}
	for i := range 50 {
		id := coordinator.AgentID(fmt.Sprint("x", i))
		r.hear(beat(id).offering("go"))
		r.pass(engine.JoinDelay)
		if got := recorded(); !slices.Equal(got, []string{string(id)}) {
			t.Fatalf("as %s joins %v is recorded", id, got)
		}
	}
	r.hear(beat("x7").offering("go").status(coordinator.StatusOffline))
	r.pass(2 * time.Minute)
	if got := recorded(); !slices.Contains(got, "-x7") {
		t.Errorf("%v is recorded, and not that x7 has left", got)
	}
}

// TestJoiningHistories: whichever agents come and go, and whatever the policy lists
// meanwhile, the fleet keeps to the rules, its indexes hold, slots come back, and
// the history repeats.
func TestJoiningHistories(t *testing.T) {
	ids := []coordinator.AgentID{"a", "x1", "x2", "x3", "x4", "y"}
	rapid.Check(t, func(t *rapid.T) {
		e, now := engine.New(), epoch
		var steps []step
		var open []*coordinator.Dispatch
		handle := coordinator.Handle(0)
		apply := func(ev coordinator.Event) {
			effects := e.Apply(now, ev, nil)
			steps = append(steps, step{now, ev, effects})
			t.Logf("%s  %s", now.Format("15:04:05.000"), showEvent(ev))
			for _, f := range effects {
				t.Logf("                → %s", describe(f))
				if d, ok := f.(*coordinator.Dispatch); ok {
					open = append(open, d)
				}
			}
			engine.CheckIndexes(t, e)
			joined := 0
			queues := make(map[string]bool)
			for _, a := range e.FleetAgents() {
				if e.HasJoined(a.Spec().ID) {
					joined++
				}
				if queues[a.Spec().Queue] {
					t.Fatalf("two agents have the queue %s", a.Spec().Queue)
				}
				queues[a.Spec().Queue] = true
			}
			if joined > 3 {
				t.Fatalf("%d agents have joined, at most 3 may", joined)
			}
		}
		policy := func(t *rapid.T) {
			p := policyOf().set(func(s *coordinator.Settings) { s.StaleAfter = time.Minute })
			for _, id := range ids[:3] {
				if rapid.Bool().Draw(t, string(id)+" is listed") {
					p.Agents = append(p.Agents, worker(id).can("go").AgentSpec)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "discovery is off at 3") < 3 {
				p.joins()
			}
			apply(coordinator.PolicyChanged{Policy: &p.Policy})
		}
		policy(t)
		apply(coordinator.SessionOpened{})
		report := func(t *rapid.T) {
			id := rapid.SampledFrom(ids).Draw(t, "agent")
			b := beat(id).offering(someOf(t, "capabilities", []string{"go", "py", "root"}, 2)...).stamped(now)
			b.Queue = rapid.SampledFrom([]string{"", "", "q1", "task.assign", "agent.a"}).Draw(t, "queue")
			b.MaxConcurrent = rapid.IntRange(0, 4).Draw(t, "slots")
			b.Labels = rapid.SampledFrom([]map[string]string{nil, nil, {"zone": "a"}, {"zone": "b"}}).Draw(t, "labels")
			if rapid.IntRange(0, 3).Draw(t, "offline at 3") == 3 {
				b.Status = coordinator.StatusOffline
			}
			apply(coordinator.AgentReported{Report: b.AgentReport, Live: true})
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {}, "policy": policy, "report": report, "report again": report, "report once more": report,
			"task": func(t *rapid.T) {
				handle++
				task := job(coordinator.TaskID(fmt.Sprint("t", handle))).
					needs(rapid.SampledFrom([]string{"go", "py"}).Draw(t, "needs"))
				task.AcceptedAt = now
				apply(coordinator.TaskReceived{Handle: handle, Task: &task.Task})
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing is on its way")
				}
				apply(coordinator.DispatchSettled{Handle: open[0].Handle, Outcome: coordinator.PublishConfirmed})
				if rapid.Bool().Draw(t, "done") {
					apply(coordinator.ResultReported{Result: coordinator.Result{Task: open[0].Task.ID, Agent: open[0].Agent,
						Timestamp: now}, Live: true})
				}
				open = open[1:]
			},
			"queue": func(t *rapid.T) {
				apply(coordinator.QueueChecked{Agent: rapid.SampledFrom(ids).Draw(t, "agent"), Exists: true})
			},
			"look": func(t *rapid.T) {
				apply(coordinator.QueueSeen{
					Agent: rapid.SampledFrom(ids).Draw(t, "agent"),
					Ready: rapid.IntRange(0, 1).Draw(t, "ready"), Consumers: rapid.IntRange(0, 1).Draw(t, "consumers"),
				})
			},
			"time": func(t *rapid.T) {
				now = now.Add(rapid.SampledFrom([]time.Duration{50 * time.Millisecond, time.Second, time.Minute}).Draw(t, "by"))
				apply(coordinator.Tick{})
			},
		})
		for _, d := range open {
			apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
		}
		open = nil
		for range 5 { // the waiting fail, leases end, those that have gone are forgotten
			now = now.Add(5 * time.Minute)
			apply(coordinator.Tick{})
			for _, d := range open {
				apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
			}
			open = nil
			for _, a := range slices.Clone(e.FleetAgents()) {
				apply(coordinator.QueueSeen{Agent: a.Spec().ID})
				apply(coordinator.AgentReported{Report: beat(a.Spec().ID).running().status(coordinator.StatusOffline).stamped(now).
					AgentReport, Live: true})
				apply(coordinator.QueueSeen{Agent: a.Spec().ID})
			}
		}
		for _, a := range e.FleetAgents() {
			if e.HasJoined(a.Spec().ID) || len(a.Open()) > 0 || a.Uncovered() > 0 {
				t.Fatalf("%s is left, joined %v, %d on its account", a.Spec().ID, e.HasJoined(a.Spec().ID), len(a.Open()))
			}
		}
		again := engine.New()
		for _, s := range steps {
			if effects := again.Apply(s.at, s.event, nil); !reflect.DeepEqual(effects, s.effects) {
				t.Fatalf("%s: the same history gives other effects", showEvent(s.event))
			}
		}
	})
}
