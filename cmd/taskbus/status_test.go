package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/httpapi"
)

// burning is a coordinator in the middle of a burst: 44,753 tasks in task.assign, 3,992 here, 12 in a lane.
var burning = httpapi.Status{
	Version: "1.4.0", Instance: "taskbus@host-1#4711", Now: noon,
	Readiness: httpapi.Readiness{Ready: true, State: "active"},
	Leader: &httpapi.Leader{Instance: "taskbus@host-1#4711", Address: "http://host-1:8551", Version: "1.4.0", Epoch: 3,
		Since: noon.Add(-3 * time.Hour)},
	Broker: httpapi.Broker{URL: "amqp://broker:5672/", Connected: true, Since: noon.Add(-3 * time.Hour)},
	Agents: []httpapi.Agent{
		{ID: "a1", State: "online", InFlight: 4, Slots: 4, WhyNot: "full"},
		{ID: "a2", State: "online", InFlight: 4, Slots: 4, WhyNot: "full",
			Recent: httpapi.AgentResults{Succeeded: 1, Failed: 5}},
		{ID: "a3", State: "online", InFlight: 1, Slots: 4, Eligible: true,
			Ejected: []httpapi.Ejection{{Capability: "translate"}}},
		{ID: "a4", State: "stale", Slots: 4, WhyNot: "stale"},
	},
	Pending: httpapi.Pending{
		Total: 3990, Moving: 2, Leased: 9, OldestSeconds: 31.5, DrainSeconds: 48_757 / 48.4,
		ByReason: map[string]int{"all_agents_at_capacity": 3980, "quota_exhausted": 10},
		Waits: []httpapi.Wait{{Required: []string{"translate"}, Tasks: 3980, OldestSeconds: 31.5,
			ReasonCode: "all_agents_at_capacity",
			Reason:     "0 of 4 agents eligible: 1 silent for too long, 1 ejected after failures, 2 full; nearest: a1 (full)"}},
	},
	Queues: []httpapi.Queue{{Name: "task.assign", Ready: 44_753}, {Name: "task.assign.high"},
		{Name: "task.dead", Ready: 7}},
	Lanes: []httpapi.Lane{{Name: "task.lane.research", Ready: 12}},
	Rates: httpapi.Rates{Received: 62.1, Assigned: 48.4, Succeeded: 9.96, Failed: 0.25},
	Health: httpapi.Health{Status: httpapi.Degraded, Checks: map[string]httpapi.Check{
		"broker": {Status: httpapi.Healthy, Detail: "connected, active"},
		"assignments": {
			Status: httpapi.Degraded, Detail: "last minute: 2904 assigned, 0 failed; oldest waits 31.5s",
			Advice: "3980 tasks wait for `translate`, and all 8 slots of the agents that could are in use (besides, 1 ejected after failures): add agents or slots (max_concurrent_tasks)",
		},
	}},
}

// The whole fits a screen, and says what waits where, why, and what to do.
func TestStatus(t *testing.T) {
	r := newRig()
	r.startCoordinator(t, fixedSource{status: &burning})
	if code := r.run(t, "status"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, r.err.String())
	}
	golden(t, "status.txt", r.out.String())
	if lines := strings.Count(r.out.String(), "\n"); lines > 19 {
		t.Errorf("%d lines, want a screen's part", lines)
	}
	asJSON := newRig()
	asJSON.startCoordinator(t, fixedSource{status: &burning})
	var v overview
	code := asJSON.run(t, "status", "-o", "json")
	if err := json.Unmarshal([]byte(asJSON.out.String()), &v); err != nil || code != exitOK {
		t.Fatalf("%d, %v: %s", code, err, asJSON.out.String())
	}
	// 44,753 + 0 + 3,990 + 2 on their way into lanes + 12
	if n := v.Waiting.total(); n != 48_757 || v.Agents.Online != 3 || v.Agents.WhyNot["full"] != 2 ||
		v.Agents.SlotsUsed != 9 || v.Agents.Slots != 12 {
		t.Errorf("%d wait, want 48757; agents %+v", n, v.Agents)
	}
}

// Of several coordinators each is shown; the fleet is that of the leader. A standby knows the leader, and
// not what the leader knows of the fleet.
func TestStatusOfSeveral(t *testing.T) {
	serve := func(source fixedSource) string {
		server := httptest.NewServer(httpapi.New(source, http.NotFoundHandler(), httpapi.Options{LoopbackHosts: true}))
		t.Cleanup(server.Close)
		return server.URL
	}
	follower := burning
	follower.Instance, follower.Agents, follower.Readiness = "taskbus@host-2#7", nil,
		httpapi.Readiness{State: "standby", Detail: "taskbus@host-1#4711 leads"}
	leader, standby, none := serve(fixedSource{status: &burning}), serve(fixedSource{status: &follower, is: "standby"}),
		dead(t)
	r := newRig()
	code := r.run(t, "status", "--url", standby+","+none+","+leader)
	for _, want := range []string{
		"leader      taskbus@host-1#4711 (1.4.0) at http://host-1:8551, epoch 3 for 3h\n",
		"standbys    " + standby + " standby; " + none + " does not answer", "3 of 4 agents online",
	} {
		if !strings.Contains(r.out.String(), want) || code != exitOK {
			t.Errorf("exit code %d; %q is missing in\n%s%s", code, want, r.out.String(), r.err.String())
		}
	}
	r = newRig()
	code = r.run(t, "status", "--url", standby)
	if want := "--url http://host-1:8551"; code != exitOK ||
		!strings.Contains(strings.Join(strings.Fields(r.out.String()), " "), want) ||
		strings.Contains(r.out.String(), "agents online") {
		t.Errorf("exit code %d; a standby alone says\n%s; want %s, and nothing of agents", code, r.out.String(), want)
	}
}

// More kinds of waiting tasks than are shown are counted.
func TestStatusCountsTheKindsThatItDoesNotShow(t *testing.T) {
	many := burning
	many.Pending.Waits = nil
	for range maxKinds + 2 {
		many.Pending.Waits = append(many.Pending.Waits, burning.Pending.Waits...)
	}
	r := newRig()
	r.startCoordinator(t, fixedSource{status: &many})
	if code := r.run(t, "status"); code != exitOK ||
		!strings.Contains(r.out.String(), "            and 2 kinds more (-o json)\n") {
		t.Errorf("exit code %d:\n%s", code, r.out.String())
	}
}

// Several processes under one id are told of once: below the table of agents, and in the one row that doctor has for
// the fleet.
func TestSeveralProcessesUnderOneID(t *testing.T) {
	shared := burning
	shared.Agents = []httpapi.Agent{{ID: "a1", State: "online", Slots: 4, Eligible: true, Instances: 2}}
	shared.Health.Checks = map[string]httpapi.Check{"agents": {Status: httpapi.Degraded,
		Detail: "several processes report as a1 (2)"}}
	r := newRig()
	r.startCoordinator(t, fixedSource{status: &shared})
	const want = "\na1 is the id of 2 processes, and the slots and tasks of one count for all: give each its own agent_id\n"
	if code := r.run(t, "agents"); code != exitOK || !strings.HasSuffix(r.out.String(), want) {
		t.Errorf("exit code %d:\n%s", code, r.out.String())
	}
	var said []diagnosis
	for _, f := range (&doctor{app: &newRig().app}).judgeCoordinator(&shared, noon) {
		if f.Check == "agents" {
			said = append(said, f)
		}
	}
	if len(said) != 1 || said[0].Text != "several processes report as a1 (2)" {
		t.Errorf("doctor: %+v", said)
	}
}

// doctor says what a coordinator that leads finds wrong, and what to do about it.
func TestDoctorNamesTheCure(t *testing.T) {
	d := doctor{app: &newRig().app}
	critical := burning
	critical.Health = httpapi.Health{Checks: map[string]httpapi.Check{
		"agents":      {Status: httpapi.Critical, Detail: "0 can take a task now", Advice: "start agents"},
		"assignments": burning.Health.Checks["assignments"],
		"results":     {Status: httpapi.Critical, Detail: "last minute: 1 succeeded", Advice: "see which agents fail"},
	}}
	got := make(map[string]diagnosis)
	for _, f := range d.judgeCoordinator(&critical, noon) {
		got[f.Check] = f
	}
	if f := got["assignments"]; f.State != checkWarning || !strings.Contains(f.Advice, "add agents or slots") {
		t.Errorf("assignments: %+v", f)
	}
	if f := got["results"]; f.State != checkProblem || f.Advice != "see which agents fail" {
		t.Errorf("results: %+v", f)
	}
	if f := got["agents"]; f.State != checkProblem || f.Text != "0 can take a task now; not online: a4 (stale)" ||
		f.Advice != "start agents" {
		t.Errorf("agents: %+v", f)
	}
	ejected := critical
	ejected.Agents = burning.Agents[:3]
	ejected.Health = httpapi.Health{
		Checks: map[string]httpapi.Check{"agents": {Status: httpapi.Degraded, Detail: "1 ejected after failures",
			Advice: "see why"}}}
	if _, state, text, advice := d.judgeFleet(&ejected); state != checkWarning || text != "1 ejected after failures" ||
		advice != "see why" {
		t.Errorf("all online, one ejected: %s %s → %s", state, text, advice)
	}
	away := critical
	away.Health = httpapi.Health{Checks: map[string]httpapi.Check{"agents": {Status: httpapi.Degraded,
		Detail: "3 of 4 agents online; slots are taken", Advice: "start it again"}}}
	if _, state, text, advice := d.judgeFleet(&away); state != checkWarning ||
		text != "3 of 4 agents online; slots are taken; not online: a4 (stale)" || advice != "start it again" {
		t.Errorf("one away, one that hangs: %s %s → %s", state, text, advice)
	}
	follower := critical
	follower.Readiness.State = "standby"
	for _, f := range d.judgeCoordinator(&follower, noon) {
		if f.Check == "results" || f.Check == "assignments" {
			t.Errorf("of one that stands by: %+v", f)
		}
	}
}
