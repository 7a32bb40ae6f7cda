package engine_test

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// ofTeam is a call of the group, by no agent, for so many tokens and so long.
func ofTeam(op coordinator.CallOp, id string, n float64, ttl time.Duration) *coordinator.Call {
	c := tokens(op, id, n, 0)
	c.Agent, c.Group, c.TTL = "", "team", ttl
	return c
}

// A call that is refused because of what is only set aside is told when so much of that ends by itself, and
// one that is refused because of what is used when the period does.
func TestCallWaitsForWhatIsSetAside(t *testing.T) {
	r := calls(t, "groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]\nreservation_ttl_seconds: 60\n")
	start := r.now
	refused := func(id string, n float64, after time.Duration) {
		t.Helper()
		a := r.state(ofTeam(coordinator.CallReserve, id, n, 0), coordinator.CallRefused)
		ends := strings.HasSuffix(a.Lacks.Text, "; back when something of it ends")
		if ends != (after < time.Hour) || after < time.Hour && !a.Lacks.RetryAt.Equal(start.Add(after)) ||
			after >= time.Hour && a.Lacks.RetryAt.Sub(r.now) < time.Hour {
			t.Errorf("%s: at %v, want after %v: %s", id, a.Lacks.RetryAt.Sub(start), after, a.Lacks.Text)
		}
	}
	r.state(ofTeam(coordinator.CallReserve, "long", 600, 40*time.Second), coordinator.CallGranted)
	r.state(ofTeam(coordinator.CallReserve, "short", 350, 4*time.Second), coordinator.CallGranted)
	refused("a", 200, 4*time.Second)  // 50 are left, and 350 are back after 4 s
	refused("b", 500, 40*time.Second) // 400 are not enough
	r.now = r.now.Add(5 * time.Second)
	r.state(ofTeam(coordinator.CallReserve, "a", 200, time.Second), coordinator.CallGranted) // as it was told
	r.state(ofTeam(coordinator.CallSettle, "long", 600, 0), coordinator.CallGranted)
	r.state(ofTeam(coordinator.CallCharge, "more", 200, 0), coordinator.CallGranted)
	refused("c", 150, 6*time.Second) // 800 are used, 200 set aside until then
	refused("d", 201, 24*time.Hour)
}

// What a task has set aside ends at no known moment: the wait is short all the same.
func TestCallWaitsForATask(t *testing.T) {
	r := calls(t, "groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}}}]\nreservation_ttl_seconds: 60\n")
	r.assign(job("t1").of("team").tokens(900, 50))
	if a := r.state(ofTeam(coordinator.CallReserve, "a", 200, 0),
		coordinator.CallRefused); !a.Lacks.RetryAt.Equal(r.now.Add(time.Minute)) {
		t.Errorf("at %v, want in a minute: %s", a.Lacks.RetryAt, a.Lacks.Text)
	}
}

// Of seats that all are taken and a budget that is used up the latter is named: it lasts longer.
func TestCallIsToldOfWhatLastsLongest(t *testing.T) {
	r := calls(t,
		"groups: [{id: team, limits: {total_tokens: {amount: 1000, per: day}, concurrency: {amount: "+
			"1}}}]\nreservation_ttl_seconds: 60\n")
	seat := func(id string, n float64) *coordinator.Call {
		c := ofTeam(coordinator.CallReserve, id, n, 0)
		c.Seats = 1
		return c
	}
	r.state(seat("first", 100), coordinator.CallGranted)
	if a := r.state(seat("a", 100), coordinator.CallRefused); a.Lacks.Limit != "seats" {
		t.Errorf("%+v", a.Lacks)
	}
	r.state(ofTeam(coordinator.CallCharge, "much", 900, 0), coordinator.CallGranted)
	if a := r.state(seat("b", 101), coordinator.CallRefused); a.Lacks.Limit != "budget" ||
		a.Lacks.RetryAt.Sub(r.now) < time.Hour {
		t.Errorf("the wait is for %+v, want the budget's", a.Lacks)
	}
}
