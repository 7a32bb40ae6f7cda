package service

import (
	"context"
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
	"taskbus/coordinator/credential"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/onloss"
	"taskbus/coordinator/service/internal/callgate"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// aCall is one of agent a1, of which it is known what it takes.
func aCall(op coordinator.CallOp, id string, tokens float64) coordinator.Call {
	return coordinator.Call{
		Op: op, Key: coordinator.CallKey("a1", id), Keep: true, Agent: "a1", Usage: coordinator.Usage{InputTokens: tokens},
		Meant:    coordinator.UsageExact,
		Priority: coordinator.PriorityNormal,
	}
}

// ask asks about one call.
func (r *rig) ask(c coordinator.Call) (coordinator.CallAnswer, error) {
	answers, err := r.service.AskCalls(context.Background(), []coordinator.Call{c})
	if err != nil {
		return coordinator.CallAnswer{}, err
	}
	return answers[0], nil
}

// asked checks what becomes of a call.
func (r *rig) asked(c coordinator.Call, want coordinator.CallState) coordinator.CallAnswer {
	r.t.Helper()
	a, err := r.ask(c)
	if err != nil || a.State != want {
		r.t.Errorf("%s: %s, %v; want %s", c.Op, a.State, err, want)
	}
	return a
}

// used checks what of poor's 1,000 tokens is used and set aside.
func (r *rig) used(used, reserved float64) {
	r.t.Helper()
	b := r.quotas(view.QuotaSelection{})["pool/poor"].Budgets[0]
	if b.Used != used || b.Reserved != reserved {
		r.t.Errorf("%v used and %v set aside, want %v and %v", b.Used, b.Reserved, used, reserved)
	}
}

// What is granted is answered when the journal has it, and not before; what is refused, or only
// asked, need not wait.
func TestCallIsAnsweredWhenItWillSurvive(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.answers(membus.Withhold)
		answered := make(chan error, 1)
		go func() {
			_, err := r.ask(aCall(coordinator.CallReserve, "1", 300))
			answered <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		select {
		case err := <-answered:
			t.Errorf("answered before the journal has it: %v", err)
		default:
		}
		if a := r.asked(aCall(coordinator.CallReserve, "2", 800), coordinator.CallRefused); a.Lacks == nil {
			t.Error("refused without a reason")
		}
		r.asked(aCall(coordinator.CallCheck, "3", 700), coordinator.CallGranted)
		r.broker.SetConfirm(nil)
		r.broker.Cut() // nothing comes of it
		if err := <-answered; !errors.Is(err, errSessionEnded) {
			t.Errorf("%v, want that the session has ended", err)
		}
	})
}

// The next leader knows what was set aside; it is settled there, once.
func TestCallSurvivesATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, quotaFleet)
		first.limit()
		first.start()
		first.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted)
		first.asked(aCall(coordinator.CallConsume, "2", 100), coordinator.CallGranted)
		first.close()
		second := newRig(t, quotaFleet)
		second.limit()
		second.broker, second.service.options.Bus = first.broker, first.broker
		second.start()
		defer second.close()
		second.used(100, 300)
		second.asked(aCall(coordinator.CallSettle, "1", 250), coordinator.CallGranted)
		second.asked(aCall(coordinator.CallSettle, "1", 250), coordinator.CallEnded)
		if a := second.asked(aCall(coordinator.CallConsume, "2", 100), coordinator.CallGranted); !a.Standing {
			t.Error("what was consumed before is consumed again")
		}
		second.used(350, 0)
	})
}

// Without a leader no request is answered, unless quotas.yaml lets each coordinator admit calls by itself:
// then they are charged when there is a leader.
func TestCallsWhileNobodyLeads(t *testing.T) {
	for name, c := range map[string]struct {
		pool    string
		granted int // of five calls of 300 tokens, one of which is released
		charged float64
	}{
		"deny":  {"", 0, 0},
		"allow": {"pool: {on_loss: allow}", 5, 300 + 300 + 300 + 250}, // the second one is settled at 250
		"safe":  {"pool: {on_loss: safe, safe_limits: {total_tokens: {rate: 1, per: minute, burst: 700}}}", 2, 250},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, quotaFleet)
				r.under(limited + c.pool)
				granted := 0
				for _, id := range []string{"1", "2", "3", "4", "5"} {
					a, err := r.ask(aCall(coordinator.CallReserve, id, 300))
					switch {
					case err == nil && a.State == coordinator.CallGranted && a.Own:
						granted++
					case !errors.Is(err, gateway.ErrNotLeading):
						t.Errorf("%+v, %v", a, err)
					}
				}
				if granted != c.granted {
					t.Errorf("%d calls are admitted, want %d", granted, c.granted)
				}
				if granted > 0 {
					r.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted) // again: the same
					r.asked(aCall(coordinator.CallRelease, "1", 0), coordinator.CallGranted)
				}
				r.start()
				defer r.close()
				if granted > 0 { // its end is reported to the coordinator that admitted it, though there is a leader by now
					r.asked(aCall(coordinator.CallSettle, "2", 250), coordinator.CallGranted)
				}
				r.pass(onloss.TTL + 2*callgate.ReportEvery)
				r.used(c.charged, 0)
				if n := r.service.calls.Owed(); n != 0 {
					t.Errorf("%d calls are still to be told of", n)
				}
			})
		})
	}
}

// handlerTransport answers requests by a handler.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// One that stands by asks the leader, at the address that it has written into the journal, and
// answers as it does. It shows a token that only coordinators have.
func TestStandbyForwardsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := credential.PeerToken([]byte("a secret that all of them have"))
		leader := newRig(t, quotaFleet)
		leader.limit()
		leader.service.options.Address = "http://leader.example:8551"
		leader.start()
		standby := newRig(t, quotaFleet)
		standby.limit()
		standby.broker, standby.service.options.Bus = leader.broker, leader.broker
		standby.service.options.Address, standby.service.options.PeerToken = "http://standby.example:8551", token
		standby.service.forwarding.Transport = handlerTransport{httpapi.New(leader.service, http.NotFoundHandler(),
			httpapi.Options{PeerToken: []byte(token)})}
		standby.start()
		standby.pass(time.Second)
		a := standby.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted)
		if a.Own || a.Group != "poor" || len(a.Limits) == 0 || a.Limits[0].Limit != "budget" || a.Limits[0].Left != 700 {
			t.Errorf("%+v", a)
		}
		if a := standby.asked(aCall(coordinator.CallReserve, "2", 701), coordinator.CallRefused); a.Lacks == nil ||
			a.Lacks.Node != "pool/poor" {
			t.Errorf("%+v", a)
		}
		leader.used(0, 300)

		standby.service.options.PeerToken = "another's"
		if _, err := standby.ask(aCall(coordinator.CallReserve, "3", 1)); err == nil ||
			!strings.Contains(err.Error(), "answers 401") || strings.Contains(err.Error(), "else's") {
			t.Errorf("with another token: %v", err)
		}
		standby.service.options.PeerToken = token
		leader.stop()
		leader.close()
		standby.pass(5 * time.Second) // it has taken over
		standby.asked(aCall(coordinator.CallSettle, "1", 300), coordinator.CallGranted)
		standby.used(300, 0)
		standby.close()
	})
}

// How a provider stands by what calls have told is to be seen: after a refusal it is left alone, and
// its rates are used at 70 %.
func TestProviderHealthIsShown(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		of := func(op coordinator.CallOp, id string, w *coordinator.ProviderWord) coordinator.Call {
			c := aCall(op, id, 10)
			c.Usage.Provider, c.Heard = "openai", w
			return c
		}
		r.asked(of(coordinator.CallReserve, "1", nil), coordinator.CallGranted)
		r.asked(of(coordinator.CallReserve, "2", nil), coordinator.CallGranted)
		r.asked(of(coordinator.CallSettle, "1", &coordinator.ProviderWord{Status: 200, Latency: 200 * time.Millisecond}),
			coordinator.CallGranted)
		at := time.Now()
		r.asked(of(coordinator.CallRelease, "2", &coordinator.ProviderWord{Status: 429, RetryAfter: 20 * time.Second}),
			coordinator.CallGranted)
		h := r.quotas(view.QuotaSelection{})["openai"].Provider
		if h == nil || h.RatePercent != 70 || h.Calls != 1 || h.SuccessPercent != 100 || h.LatencyMS != 200 ||
			h.BlockedUntil.Sub(at) < 20*time.Second {
			t.Errorf("%+v", h)
		}
	})
}

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

// A call that the leader does not charge afterwards is reported, and not counted as charged.
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
		standby.pass(callgate.ReportEvery)
		for id, group := range map[string]string{"1": "", "2": "moved", "3": ""} { // a1 is one of poor's
			c := aCall(coordinator.CallConsume, id, 10)
			c.Group = group
			standby.asked(c, coordinator.CallGranted)
		}
		standby.pass(2 * callgate.ReportEvery)
		if n := standby.service.calls.Owed(); n != 3 {
			t.Fatalf("%d calls wait for a leader that answers, want 3", n)
		}
		// /status shows it, and why; it is logged once.
		const begun = "calls are admitted without the leader, as on_loss in quotas.yaml says, and charged when it can be " +
			"asked; " +
			"if this lasts longer than a takeover see that http.advertise_url (TASKBUS_ADVERTISE_URL) of the leader is " +
			"where others reach it"
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
		if c := st.Health.Checks["calls"]; st.Health.Status != view.Degraded || !strings.Contains(c.Detail, shown) ||
			!strings.Contains(st.Readiness.Detail, shown) {
			t.Errorf("%+v, %+v", st.Health, st.Readiness)
		}
		far.reached.Store(true)
		standby.pass(2 * callgate.ReportEvery)
		if line := standby.lineOf(
			"the leader can be asked about calls again; so many were admitted without it, and it is told of " +
				"them"); line["calls"] != 3.0 {
			t.Errorf("%v", line)
		}
		// The standby has a quotas.yaml that the leader of this test lacks, and says that.
		st = standby.status()
		if _, said := st.Health.Checks["calls"]; said || !strings.Contains(st.Health.Checks["config"].Detail,
			"quotas.yaml of this standby differs") || strings.Contains(st.Readiness.Detail, "on_loss") {
			t.Errorf("%+v, %+v", st.Health, st.Readiness)
		}
		if n := standby.service.calls.Owed(); n != 0 {
			t.Errorf("%d calls wait still", n)
		}
		if n := standby.value("taskbus_calls_uncharged_total"); n != 1 {
			t.Errorf("%v calls counted as not charged, want 1", n)
		}
		if line := standby.lineOf("charged calls that were admitted while no leader could be asked"); line["calls"] != 2.0 {
			t.Errorf("%v", line)
		}
		line = standby.lineOf(
			"the leader does not charge a call that was admitted while it could not be asked; see that all coordinators " +
				"have the same quotas.yaml")
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
		second.pass(3 * callgate.ReportEvery)
		second.used(250, 0)
		second.asked(aCall(coordinator.CallSettle, "1", 250), coordinator.CallEnded)
		if n := second.value("taskbus_calls_uncharged_total"); n != 0 {
			t.Errorf("%v calls are not charged", n)
		}
	})
}

// What is logged of a question without an answer is bounded, and has what an operator needs.
func TestUnansweredCallsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.limit()
		for range 100 {
			if _, err := r.ask(aCall(coordinator.CallReserve, "1", 300)); !errors.Is(err, gateway.ErrNotLeading) {
				t.Fatal(err)
			}
		}
		if c := r.service.health(coordinator.Snapshot{}).Checks["calls"]; !strings.Contains(c.Detail,
			"0 were admitted by on_loss") {
			t.Errorf("%+v", c)
		}
		time.Sleep(2 * time.Minute) // no more questions for longer than that is shown
		if c, said := r.service.health(coordinator.Snapshot{}).Checks["calls"]; said {
			t.Errorf("%+v", c)
		}
		if n := strings.Count(r.log.String(),
			"a question for LLM quota was not answered: no leader could be asked"); n != telemetry.LinesPerSecond {
			t.Errorf("%d lines, want %d in a second", n, telemetry.LinesPerSecond)
		}
	})
}
