package callgate

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/service/internal/telemetry"
)

// A question is answered by the engine of a session that leads and has not ended, and by nothing else.
func TestWhatAnswersAQuestion(t *testing.T) {
	granted := func(g *Gate, token uint64) {
		g.Answer(&coordinator.CallAnswered{Token: token, Answers: []coordinator.CallAnswer{{Group: "poor"}}})
	}
	for name, c := range map[string]struct {
		leader Leader
		engine func(g *Gate, token uint64) // what it does when it is asked
		want   error
	}{
		"the engine":                   {Leader{Session: 2}, granted, nil},
		"its session ends":             {Leader{Session: 2}, func(g *Gate, _ uint64) { g.End(2) }, ErrSessionEnded},
		"a later session ends, too":    {Leader{Session: 2}, func(g *Gate, _ uint64) { g.End(3) }, ErrSessionEnded},
		"the session before ends late": {Leader{Session: 2}, func(g *Gate, n uint64) { g.End(1); granted(g, n) }, nil},
		"the session has ended":        {Leader{Session: 1}, granted, gateway.ErrNotLeading},
		"it does not lead":             {Leader{Not: errors.New("standby")}, granted, gateway.ErrNotLeading},
		"another leads, and has no token": {Leader{Not: errors.New("standby"), Elsewhere: "http://x"}, granted,
			gateway.ErrNotLeading},
		"an answer to another is not ours": {Leader{Session: 2}, func(g *Gate, n uint64) { granted(g, n+1); g.End(2) },
			ErrSessionEnded},
	} {
		t.Run(name, func(t *testing.T) {
			var g *Gate
			g = New(Engine{Stopped: make(chan struct{}), Post: func(_ uint64, events ...coordinator.Event) {
				c.engine(g, events[0].(coordinator.CallAsked).Token)
			}}, http.DefaultClient, telemetry.New(zerolog.Nop(), time.Now), time.Now)
			g.End(1)
			a, err := g.Ask(t.Context(), c.leader, []coordinator.Call{{Op: coordinator.CallCheck}})
			if !errors.Is(err, c.want) || err == nil && a[0].Group != "poor" {
				t.Errorf("%+v, %v; want %v", a, err, c.want)
			}
			if n := len(g.waiting.asked); n != 0 {
				t.Errorf("%d questions wait still", n)
			}
		})
	}
}

// More questions than may wait are refused, until one has its answer.
func TestQuestionsThatWaitAreBounded(t *testing.T) {
	w := waiting{asked: make(map[uint64]*asker)}
	for range maxWaiting {
		if _, _, err := w.add(1); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.add(1); !errors.Is(err, gateway.ErrCallsBusy) {
		t.Errorf("one more: %v", err)
	}
	w.take(7)
	if _, _, err := w.add(1); err != nil {
		t.Errorf("after an answer: %v", err)
	}
}

// A flood of calls without a leader is a few lines.
func TestUnansweredQuestionsAreLogged(t *testing.T) {
	var written bytes.Buffer
	g := New(Engine{}, http.DefaultClient, telemetry.New(zerolog.New(&written), time.Now), time.Now)
	for range 100 {
		_, _ = g.Ask(t.Context(), Leader{Not: errors.New("standby")}, []coordinator.Call{{Op: coordinator.CallReserve}})
	}
	if n := strings.Count(written.String(), "no leader could be asked"); n == 0 || n > 2*telemetry.LinesPerSecond {
		t.Errorf("%d lines", n)
	}
	if c, said := g.Check(); !said || !strings.Contains(c.Detail, "0 were admitted by on_loss") {
		t.Errorf("%+v, %v", c, said)
	}
}
