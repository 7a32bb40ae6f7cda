package service

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

// elsewhere is a leader that another coordinator forwards to: it answers each call by its group, once it
// can be reached.
type elsewhere struct {
	reached atomic.Bool
	states  map[string]coordinator.CallState
}

func (e *elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if !e.reached.Load() {
		return nil, errors.New("dial tcp 192.0.2.7:8551: connection refused")
	}
	var asked struct{ Calls []coordinator.Call }
	var answers struct {
		Answers []coordinator.CallAnswer `json:"answers"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	for _, c := range asked.Calls {
		answers.Answers = append(answers.Answers, coordinator.CallAnswer{State: e.states[c.Group]})
	}
	w := httptest.NewRecorder()
	if err := json.NewEncoder(w).Encode(answers); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// A call that the leader does not charge afterwards is told of, and not counted as charged.
func TestWhatIsNotChargedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, standby := newRig(t, quotaFleet), newRig(t, quotaFleet)
		leader.service.options.Address = "http://leader.example:8551"
		leader.start()
		defer leader.close()
		standby.under(limited + "unknown_callers: allow\npool: {on_loss: allow}")
		standby.broker, standby.service.options.Bus = leader.broker, leader.broker
		standby.service.options.Address, standby.service.options.PeerToken = "http://standby.example:8551", "a token"
		far := &elsewhere{states: map[string]coordinator.CallState{"poor": coordinator.CallGranted,
			"moved": coordinator.CallForeign}}
		standby.service.forwarding.Transport = far
		standby.start()
		defer standby.close()
		standby.pass(tellEvery)
		for id, group := range map[string]string{"1": "", "2": "moved", "3": ""} { // a1 is one of poor's
			c := aCall(coordinator.CallConsume, id, 10)
			c.Group = group
			standby.asked(c, coordinator.CallGranted)
		}
		standby.pass(2 * tellEvery)
		if n := standby.service.lost.waiting(); n != 3 {
			t.Fatalf("%d calls wait for a leader that answers, want 3", n)
		}
		// /status shows it, and why; it is logged once.
		const begun = "calls are admitted without the leader, as on_loss in quotas.yaml says, and charged when it can be asked; " +
			"if this lasts longer than a takeover see that http.advertise_url (TASKBUS_ADVERTISE_URL) of the leader is where others reach it"
		line := standby.lineOf(begun)
		if cause, _ := line["error"].(string); line["level"] != "warn" || line["address"] != "http://leader.example:8551" ||
			!strings.Contains(cause, "connection refused") {
			t.Errorf("%v", line)
		}
		if n := strings.Count(standby.log.String(), "calls are admitted without the leader"); n != 1 {
			t.Errorf("written %d times", n)
		}
		const shown = "3 were admitted by on_loss, and 3 are not charged yet"
		st := standby.status()
		if c := st.Health.Checks["calls"]; st.Health.Status != httpapi.Degraded || !strings.Contains(c.Detail, shown) ||
			!strings.Contains(st.Readiness.Detail, shown) {
			t.Errorf("%+v, %+v", st.Health, st.Readiness)
		}
		far.reached.Store(true)
		standby.pass(2 * tellEvery)
		if line := standby.lineOf(
			"the leader can be asked about calls again; so many were admitted without it, and it is told of them"); line["calls"] != 3.0 {
			t.Errorf("%v", line)
		}
		// The standby has a quotas.yaml that the leader of this test lacks, and says that.
		st = standby.status()
		if _, said := st.Health.Checks["calls"]; said || !strings.Contains(st.Health.Checks["config"].Detail,
			"quotas.yaml of this standby differs") || strings.Contains(st.Readiness.Detail, "on_loss") {
			t.Errorf("%+v, %+v", st.Health, st.Readiness)
		}
		if n := standby.service.lost.waiting(); n != 0 {
			t.Errorf("%d calls wait still", n)
		}
		if n := standby.value("taskbus_calls_uncharged_total"); n != 1 {
			t.Errorf("%v calls counted as not charged, want 1", n)
		}
		if line := standby.lineOf("charged calls that were admitted while no leader could be asked"); line["calls"] != 2.0 {
			t.Errorf("%v", line)
		}
		line = standby.lineOf(
			"the leader does not charge a call that was admitted while it could not be asked; see that all coordinators have the same quotas.yaml")
		if line["level"] != "warn" || line["group"] != "moved" || line["agent_id"] != "a1" || line["answer"] != "foreign" {
			t.Errorf("%v", line)
		}
	})
}

// A leader's reservation with a lost answer that is asked for again without a leader is charged once: the
// reservation stands in the journal, and is settled.
func TestOwedReservationThatStandsIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, quotaFleet)
		first.limit()
		first.start()
		first.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted)
		first.close()

		second := newRig(t, quotaFleet)
		second.under(limited + "pool: {on_loss: allow}")
		second.broker, second.service.options.Bus = first.broker, first.broker
		if a := second.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted); !a.Own {
			t.Errorf("%+v", a)
		}
		second.asked(aCall(coordinator.CallSettle, "1", 250), coordinator.CallGranted)
		second.start()
		defer second.close()
		second.pass(3 * tellEvery)
		second.used(250, 0)
		second.asked(aCall(coordinator.CallSettle, "1", 250), coordinator.CallEnded)
		if n := second.value("taskbus_calls_uncharged_total"); n != 0 {
			t.Errorf("%v calls are not charged", n)
		}
	})
}

// What is logged of a question without an answer is bounded, and has what an operator needs.
func TestUnansweredCallsAreLogged(t *testing.T) {
	inLossRig(t, limited, func(r *rig) {
		for range 100 {
			if _, err := r.ask(aCall(coordinator.CallReserve, "1", 300)); !errors.Is(err, gateway.ErrNotLeading) {
				t.Fatal(err)
			}
		}
		if c := r.service.health(coordinator.Snapshot{}).Checks["calls"]; !strings.Contains(c.Detail,
			"0 were admitted by on_loss") {
			t.Errorf("%+v", c)
		}
		time.Sleep(aloneShown + time.Second) // no more questions
		if c, said := r.service.health(coordinator.Snapshot{}).Checks["calls"]; said {
			t.Errorf("%+v", c)
		}
		if n := strings.Count(r.log.String(),
			"a question for LLM quota was not answered: no leader could be asked"); n != noiseLines {
			t.Errorf("%d lines, want %d in a second", n, noiseLines)
		}
	})
}
