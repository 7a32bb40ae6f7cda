package setup

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// doctor says what a coordinator that leads finds wrong, and what to do about it.
func TestDoctorNamesTheCure(t *testing.T) {
	d := doctor{app: &newRig().App}
	critical := clitest.Burning
	critical.Health = view.Health{Checks: map[string]view.Check{
		"agents":      {Status: view.Critical, Detail: "0 can take a task now", Advice: "start agents"},
		"assignments": clitest.Burning.Health.Checks["assignments"],
		"results":     {Status: view.Critical, Detail: "last minute: 1 succeeded", Advice: "see which agents fail"},
	}}
	got := make(map[string]diagnosis)
	for _, f := range d.judgeCoordinator(&critical, clitest.Noon) {
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
	ejected.Agents = clitest.Burning.Agents[:3]
	ejected.Health = view.Health{
		Checks: map[string]view.Check{"agents": {Status: view.Degraded, Detail: "1 ejected after failures",
			Advice: "see why"}}}
	if _, state, text, advice := d.judgeFleet(&ejected); state != checkWarning || text != "1 ejected after failures" ||
		advice != "see why" {
		t.Errorf("all online, one ejected: %s %s → %s", state, text, advice)
	}
	away := critical
	away.Health = view.Health{Checks: map[string]view.Check{"agents": {Status: view.Degraded,
		Detail: "3 of 4 agents online; slots are taken", Advice: "start it again"}}}
	if _, state, text, advice := d.judgeFleet(&away); state != checkWarning ||
		text != "3 of 4 agents online; slots are taken; not online: a4 (stale)" || advice != "start it again" {
		t.Errorf("one away, one that hangs: %s %s → %s", state, text, advice)
	}
	follower := critical
	follower.Readiness.State = "standby"
	for _, f := range d.judgeCoordinator(&follower, clitest.Noon) {
		if f.Check == "results" || f.Check == "assignments" {
			t.Errorf("of one that stands by: %+v", f)
		}
	}
}

// Several processes under one id are told of once, in the one row for the fleet.
func TestDoctorTellsOfSeveralProcessesUnderOneID(t *testing.T) {
	shared := clitest.Burning
	shared.Agents = []view.Agent{{ID: "a1", State: "online", Slots: 4, Eligible: true, Instances: 2}}
	shared.Health.Checks = map[string]view.Check{"agents": {Status: view.Degraded,
		Detail: "several processes report as a1 (2)"}}
	var said []diagnosis
	for _, f := range (&doctor{app: &newRig().App}).judgeCoordinator(&shared, clitest.Noon) {
		if f.Check == "agents" {
			said = append(said, f)
		}
	}
	if len(said) != 1 || said[0].Text != "several processes report as a1 (2)" {
		t.Errorf("doctor: %+v", said)
	}
}

// Of each model without a price there is a warning.
func TestDoctorWarnsOfModelsWithoutAPrice(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	models := []view.UnpricedModel{
		{Provider: "openai", Model: "new", Group: "labs", Node: "pool/labs", Refused: 41,
			LastSeen: now.Add(-3 * time.Minute)},
		{Group: "labs", Node: "pool", Refused: 1, Admitted: 2, LastSeen: now.Add(-2 * time.Hour)},
	}
	found := judgePrices(models)
	if len(found) != 2 || found[0].State != checkWarning ||
		found[0].Text != "openai/new has no price, and cost_usd of pool/labs is limited: 41 of its calls and tasks were "+
			"refused" ||
		!strings.HasSuffix(found[1].Text, "2 of its calls and tasks passed, 1 were refused") {
		t.Errorf("the doctor says %+v", found)
	}
	if judgePrices(nil) != nil {
		t.Error("the doctor warns of no model")
	}
}
