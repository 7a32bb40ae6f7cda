package callgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/calls"
	"taskbus/coordinator/onloss"
	"taskbus/coordinator/service/internal/telemetry"
)

// ForwardTimeout bounds how long requests wait here for a leader that has just died.
const ForwardTimeout = 2 * time.Second

// Leader is the coordinator that can be asked about calls at one moment.
type Leader struct {
	Session uint64 // of this coordinator, if it leads
	Not     error  // why it does not lead; nil: it does
	// Elsewhere is the address of another one that leads, Token what it is shown; empty: it cannot be asked.
	Elsewhere, Token string
}

// Engine is the way to the engine of this coordinator.
type Engine struct {
	// Post gives it an event of a session, and never blocks.
	Post    func(session uint64, events ...coordinator.Event)
	Stopped <-chan struct{} // closed when it takes no events any more
}

// Gate answers questions about calls outside of tasks. It is safe for concurrent use.
type Gate struct {
	engine  Engine
	now     func() time.Time
	peers   *http.Client
	log     *telemetry.Log
	lines   lines
	metrics metrics
	waiting waiting
	alone   alone

	mu  sync.Mutex // held for own
	own *onloss.Calls
}

// New returns a gate. peers asks other coordinators.
func New(e Engine, peers *http.Client, log *telemetry.Log, now func() time.Time) *Gate {
	g := &Gate{engine: e, now: now, peers: peers, log: log, lines: newLines(log), own: onloss.New()}
	g.waiting.asked = make(map[uint64]*asker)
	g.metrics = newMetrics(g.Owed)
	return g
}

// Collectors are the metrics of calls, to be registered.
func (g *Gate) Collectors() []prometheus.Collector { return g.metrics.all }

// Under takes over the pools of other quotas, nil for none.
func (g *Gate) Under(q *coordinator.Quotas) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.Under(g.now(), q)
}

// Owed returns how many calls were admitted here and are not charged yet.
func (g *Gate) Owed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.Owed()
}

// Ask asks the leader about calls (see httpapi.Source): this coordinator, or the one for which it stands by. While
// neither answers, what quotas.yaml lets each coordinator admit by itself is admitted, and charged when there is a
// leader again.
func (g *Gate) Ask(ctx context.Context, l Leader, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	begun := g.now()
	answers, err := g.askLeader(ctx, l, asked)
	if err == nil {
		answers = g.answered(asked, answers)
		g.metrics.note(g.now().Sub(begun), asked, answers)
		return answers, nil
	}
	if errors.Is(err, gateway.ErrCallsBusy) || errors.Is(err, context.Canceled) {
		return nil, err
	}
	own, admitted, ok := g.admit(asked)
	if first := g.alone.unanswered(g.now(), admitted); first {
		g.lines.admittedAlone(err, l.Elsewhere)
	}
	if ok {
		g.metrics.own.Add(float64(admitted))
		g.metrics.note(g.now().Sub(begun), asked, own)
		return own, nil
	}
	g.metrics.unasked.Inc()
	g.lines.unasked.At(zerolog.WarnLevel).Err(err).
		Msg("a question for LLM quota was not answered: no leader could be asked")
	return nil, err
}

// answered puts in what a leader does not know: how calls ended that were admitted here.
func (g *Gate) answered(asked []coordinator.Call, answers []coordinator.CallAnswer) []coordinator.CallAnswer {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.Answered(g.now(), asked, answers)
}

func (g *Gate) admit(asked []coordinator.Call) ([]coordinator.CallAnswer, int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.Admit(g.now(), asked)
}

// askLeader asks this coordinator if it leads, else the leader that the journal names.
func (g *Gate) askLeader(ctx context.Context, l Leader, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	answers, err := g.AskHere(ctx, l, asked)
	if errors.Is(err, gateway.ErrNotLeading) && l.Elsewhere != "" && l.Token != "" {
		if answers, err = calls.Forward(ctx, g.peers, l.Elsewhere, l.Token, asked); err != nil {
			return nil, fmt.Errorf("ask for quota: %w", err)
		}
	}
	if err == nil {
		if ended, since, admitted := g.alone.answered(); ended && admitted > 0 {
			g.lines.aloneEnded(since, admitted)
		}
	}
	return answers, err
}

// AskHere asks the engine about calls (see httpapi.Source). Only a coordinator that leads answers.
func (g *Gate) AskHere(ctx context.Context, l Leader, asked []coordinator.Call) ([]coordinator.CallAnswer, error) {
	if l.Not != nil {
		return nil, fmt.Errorf("ask for quota: %w: %w", gateway.ErrNotLeading, l.Not)
	}
	token, a, err := g.waiting.add(l.Session)
	if err != nil {
		return nil, err
	}
	g.engine.Post(l.Session, coordinator.CallAsked{Token: token, Calls: asked})
	select {
	case answers := <-a.answered:
		g.waiting.spare.Put(a)
		if answers == nil {
			return nil, fmt.Errorf("ask for quota: %w", ErrSessionEnded)
		}
		return answers, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-g.engine.Stopped:
		err = ErrStopped
	}
	g.waiting.take(token) // should the answer be on its way, it is dropped
	return nil, fmt.Errorf("ask for quota: %w", err)
}

// Answer passes on what the engine answers.
func (g *Gate) Answer(f *coordinator.CallAnswered) {
	if a := g.waiting.take(f.Token); a != nil {
		a.answered <- f.Answers
	}
}

// End ends the questions of a session, and of those before it, without an answer; none is admitted any more.
func (g *Gate) End(session uint64) { g.waiting.end(session) }
