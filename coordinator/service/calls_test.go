package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
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
	b := r.quotas(httpapi.QuotaSelection{})["pool/poor"].Budgets[0]
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
				r.pass(lossTTL + 2*tellEvery)
				r.used(c.charged, 0)
				if n := r.service.lost.waiting(); n != 0 {
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
		h := r.quotas(httpapi.QuotaSelection{})["openai"].Provider
		if h == nil || h.RatePercent != 70 || h.Calls != 1 || h.SuccessPercent != 100 || h.LatencyMS != 200 ||
			h.BlockedUntil.Sub(at) < 20*time.Second {
			t.Errorf("%+v", h)
		}
	})
}
