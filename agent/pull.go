package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// longPoll is how long the claim of an agent that has nothing to do may wait with the
// coordinator for work. What such an agent wants does not change meanwhile; one that
// works is answered at once, because its wishes age.
const longPoll = balance.MaxInterval

// balancer decides for how many tasks to ask, and when: one of package balance.
type balancer interface {
	Claim(time.Time, balance.Local) int
	Granted(now time.Time, items int, v balance.View)
	Unanswered(time.Time)
	Interval(time.Time, balance.Local) time.Duration
}

// pulling is what an agent that claims its tasks keeps beyond sessions. mu is the
// worker's.
type pulling struct {
	anew     func() balancer
	base     time.Duration // the base interval
	longPoll time.Duration // 0: no claim waits
	timeout  time.Duration // for an answer, beyond what the claim may wait

	ids    string // what the ids of claims begin with: another for each process
	claims int    // so far; of the goroutine that claims

	estimator *balance.Estimator // mu
	open      *claim             // mu; nil: none
}

// claim is one that waits for its answer.
type claim struct {
	id     string
	answer chan *messages.TaskGranted // capacity 1, for one
}

// newPulling is nil when there is no configuration to pull by.
func newPulling(c *balance.Config, id string) (*pulling, error) {
	if c == nil {
		return nil, nil
	}
	estimator, err := balance.NewEstimator(*c)
	if err != nil {
		return nil, err
	}
	standard := balance.Default()
	p := &pulling{
		base:      milliseconds(cmp.Or(c.LoadBalancing.BaseDiscoveryIntervalMS, standard.LoadBalancing.BaseDiscoveryIntervalMS)),
		timeout:   milliseconds(cmp.Or(c.Registry.ConnectionTimeoutMS, standard.Registry.ConnectionTimeoutMS)),
		ids:       rand.Text(),
		estimator: estimator,
	}
	if cmp.Or(c.LoadBalancing.Mode, standard.LoadBalancing.Mode) != balance.ModeEqual {
		literal, err := balance.NewLiteral(*c)
		if err != nil {
			return nil, err
		}
		p.anew = func() balancer { b := *literal; return &b }
		return p, nil
	}
	// The jitter differs by id: that keeps agents apart, and a test can foretell it.
	equal, err := balance.NewEqual(*c, id, 0)
	if err != nil {
		return nil, err
	}
	p.anew = func() balancer { b := *equal; return &b }
	if c.LoadBalancing.Enabled {
		p.longPoll = longPoll
	}
	return p, nil
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// startPulling claims tasks in a goroutine of group, if the agent is one that does,
// until stop is called; done is closed when it has stopped. To be called when the agent's
// queue is consumed.
func (w *worker) startPulling(ctx context.Context, group *sync.WaitGroup, l *link) (stop func(), done <-chan struct{}) {
	ctx, stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	switch {
	case w.pulling == nil:
		close(ended)
	case l.control == "":
		close(ended)
		w.log.Warn("no tasks are claimed: without its control queue the agent hears no answer")
	default:
		group.Go(func() {
			defer close(ended)
			w.pull(ctx, l)
		})
	}
	return stop, ended
}

// pull makes one claim after another. It waits before the first: a coordinator that has
// not heard of the agent yet could but refuse, and after a fault of the broker not all
// agents should ask at once.
func (w *worker) pull(ctx context.Context, l *link) {
	b := w.pulling.anew()
	var fleet *messages.GrantFleet
	silent := false
	from := time.Now()
	for {
		now := time.Now()
		interval := b.Interval(now, w.local(now))
		w.metrics.paused(interval, w.pulling.base)
		select {
		case <-time.After(time.Until(from.Add(interval))):
		case <-ctx.Done():
			return
		}
		from = time.Now()
		local := w.local(from)
		w.metrics.cycle(local, fleet)
		items := b.Claim(from, local)
		if items == 0 {
			continue
		}
		granted, asked := w.claim(ctx, l, items, local)
		now = time.Now()
		switch {
		case !asked:
			return
		case granted == nil:
			b.Unanswered(now)
			w.metrics.claim(claimUnanswered, 0)
			if !silent {
				w.log.Warn("a claim was not answered in time; is there a coordinator? Claims go on", slog.Duration("timeout", w.pulling.timeout))
			}
			silent = true
		case granted.Granted == 0:
			silent, fleet = false, &granted.Fleet
			b.Granted(now, 0, viewOf(granted.Fleet))
			w.metrics.claim(claimEmpty, 0)
		default:
			silent, fleet = false, &granted.Fleet
			b.Granted(now, granted.Granted, viewOf(granted.Fleet))
			w.metrics.claim(claimGranted, granted.Granted)
			from = now // until the next claim what was granted has arrived
		}
	}
}

// claim makes one claim and waits for its answer, nil when there is none in time. It is
// not asked when the agent leaves, or the session has ended.
func (w *worker) claim(ctx context.Context, l *link, items int, local balance.Local) (granted *messages.TaskGranted, asked bool) {
	p := w.pulling
	p.claims++
	c := &claim{id: fmt.Sprintf("%s-%d", p.ids, p.claims), answer: make(chan *messages.TaskGranted, 1)}
	m := messages.TaskClaim{
		AgentID: messages.AgentID(w.cfg.ID), ClaimID: c.id, MaxItems: items, PendingItems: local.Pending,
	}
	var wait time.Duration
	if local.Pending == 0 {
		wait = p.longPoll
		m.WaitSeconds = wait.Seconds()
	}
	if !local.WarmUp {
		m.CapacityItemsPerSecond = local.Capacity
	}
	w.mu.Lock()
	if w.draining {
		w.mu.Unlock()
		return nil, false
	}
	p.open = c
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		p.open = nil
	}()
	// A claim that nobody reads in time must not be granted after the next.
	err := w.request(l, bus.Properties{Type: "task.claim", MessageID: c.id, Timestamp: time.Now(), Expiration: p.timeout}, messages.AppendTaskClaim(nil, &m))
	if err != nil {
		w.log.Debug("a claim was not sent", slog.Any("error", err))
		return nil, !errors.Is(err, bus.ErrClosed)
	}
	late := time.NewTimer(wait + p.timeout)
	defer late.Stop()
	select {
	case granted = <-c.answer:
		return granted, true
	case <-late.C:
		return nil, true
	case <-ctx.Done():
		return nil, false
	}
}

// granted takes the answer to a claim. One that comes too late says nothing about the
// claim that is open now; its tasks come all the same.
func (w *worker) granted(m *messages.TaskGranted) {
	if w.pulling == nil {
		return
	}
	w.mu.Lock()
	c := w.pulling.open
	waited := c != nil && c.id == m.ClaimID
	if waited {
		w.pulling.open = nil
	}
	w.mu.Unlock()
	if !waited {
		w.log.Debug("an answer to a claim that is not open", slog.String("claim_id", messages.Clean(m.ClaimID, messages.MaxText)))
		return
	}
	c.answer <- m // has room: one answer is let through
}

func viewOf(f messages.GrantFleet) balance.View {
	return balance.View{Agents: f.Agents, Pending: f.PendingItems, Unclaimed: f.UnclaimedItems, Capacity: f.CapacityItemsPerSecond, FairShare: f.FairShareItems}
}

// local is the agent's own state, for the balancer.
func (w *worker) local(now time.Time) balance.Local {
	w.mu.Lock()
	defer w.mu.Unlock()
	active, e := w.active(), w.pulling.estimator
	return balance.Local{Pending: active, Free: max(0, w.cfg.Slots-active), Capacity: e.Capacity(now), WarmUp: e.WarmUp()}
}

// occupied tells the estimator how many slots are taken. mu is held.
func (w *worker) occupied(now time.Time) {
	if w.pulling != nil {
		w.pulling.estimator.InHand(now, len(w.running))
	}
}

// measure learns from a task that has been done. mu is held, and the task is still
// among the running ones.
func (w *worker) measure(d *dispatch, now time.Time) {
	if w.cfg.Bidder != nil {
		m, _ := w.means.get(d.task.Type)
		w.means.add(d.task.Type, m.with(d.verdict.took))
	}
	if w.pulling != nil {
		w.pulling.estimator.Done(now)
	}
}
