package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"taskbus/agent/balance"
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
	Seen(time.Time, balance.View)
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

	registry *registry // nil: there is none to read
	reading  string    // outcome of the last reading that was told to the log; as claims

	open *claim // mu; nil: none
}

// claim is one that waits for its answer.
type claim struct {
	id     string
	answer chan *messages.TaskGranted // capacity 1, for one
}

// newPulling is nil when there is no configuration to pull by.
func newPulling(cfg Config) (*pulling, error) {
	c := cfg.Pull
	if c == nil {
		return nil, nil
	}
	standard := balance.Default()
	p := &pulling{
		base: milliseconds(cmp.Or(c.LoadBalancing.BaseDiscoveryIntervalMS,
			standard.LoadBalancing.BaseDiscoveryIntervalMS)),
		timeout: milliseconds(cmp.Or(c.Registry.ConnectionTimeoutMS, standard.Registry.ConnectionTimeoutMS)),
		ids:     rand.Text(),
	}
	var err error
	if c.LoadBalancing.Enabled { // or nothing that it tells would be used
		p.registry, err = newRegistry(c.Registry, cfg.ID, p.timeout, cfg.dialRegistry)
		if err != nil {
			return nil, err
		}
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
	equal, err := balance.NewEqual(*c, cfg.ID, 0)
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
			select {
			case <-l.heard:
				w.pull(ctx, l)
			case <-ctx.Done():
			}
		})
	}
	return stop, ended
}

// puller makes the claims of one session.
type puller struct {
	*worker
	link    *link
	balance balancer
	lookout *lookout
	fleet   *balance.View // nil: nothing is known
	silent  bool          // the latest claim has had no answer
}

// pull makes one claim after another. It waits before the first: a coordinator that has
// not heard of the agent yet could but refuse, and after a fault of the broker not all
// agents should ask at once.
func (w *worker) pull(ctx context.Context, l *link) {
	p := &puller{worker: w, link: l, balance: w.pulling.anew(), lookout: newLookout(w.pulling.registry)}
	defer p.lookout.reads.Wait() // they end with ctx
	from := time.Now()
	for {
		now := time.Now()
		state := p.local(now)
		interval := p.balance.Interval(now, state)
		p.metrics.paused(interval, p.pulling.base)
		p.judged(state, interval)
		pause := time.Until(from.Add(interval))
		if p.lookout.open { // a registry that is quick is heard before the next claim
			pause = max(pause, balance.MinInterval)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		p.look()
		from = time.Now()
		local := p.local(from)
		p.metrics.cycle(local, p.fleet)
		items := p.balance.Claim(from, local)
		if items == 0 {
			continue
		}
		granted, asked := p.claim(ctx, l, items, local)
		for granted != nil && granted.ClaimID == messages.AnyClaim { // the coordinator has begun anew
			granted, asked = p.claim(ctx, l, items, local)
		}
		switch {
		case !asked:
			return
		case granted == nil:
			p.unanswered(ctx)
		default:
			p.answered(granted)
			if granted.Granted > 0 {
				from = time.Now() // until the next claim what was granted has arrived
			}
		}
	}
}

// judged has the log know of a computation: BALANCING's line.
func (p *puller) judged(local balance.Local, interval time.Duration) {
	attributes := []slog.Attr{slog.Duration("interval", interval), slog.Int("pending", local.Pending)}
	if p.fleet != nil {
		load, target := loadFactors(local, p.fleet)
		attributes = append(attributes, slog.Float64("local", load), slog.Float64("target", target))
	}
	p.log.LogAttrs(context.Background(), slog.LevelDebug, "load balanced", attributes...)
}

func (p *puller) answered(granted *messages.TaskGranted) {
	v := viewOf(granted.Fleet)
	p.silent, p.fleet, p.pulling.reading = false, &v, ""
	p.balance.Granted(time.Now(), granted.Granted, v)
	outcome := claimGranted
	if granted.Granted == 0 {
		outcome = claimEmpty
	}
	p.metrics.claim(outcome, granted.Granted)
	p.metrics.drain(granted.Fleet.TargetDrainSeconds)
}

// unanswered goes on without an answer, and begins to read the registry, if there is one:
// at most once for each claim, and so for each interval.
func (p *puller) unanswered(ctx context.Context) {
	p.look()
	p.balance.Unanswered(time.Now())
	p.metrics.claim(claimUnanswered, 0)
	if !p.silent {
		p.log.Warn("a claim was not answered in time; is there a coordinator? Claims go on",
			slog.Duration("timeout", p.pulling.timeout))
	}
	p.silent = true
	p.lookout.begin(ctx)
	p.link.bindNow(ctx) // perhaps the answer had no way to us
}

// look takes what the registry has said meanwhile. A claim that has been answered since
// has brought a younger picture, and the log need not hear of the registry.
func (p *puller) look() {
	r, ended := p.lookout.take()
	if !ended {
		return
	}
	p.metrics.registryRead(r.outcome)
	if r.err == nil {
		v := r.others.View(p.local(time.Now()))
		p.balance.Seen(r.begun, v)
		if p.silent {
			p.fleet = &v
		}
	}
	if !p.silent || r.outcome == p.pulling.reading {
		return
	}
	p.pulling.reading = r.outcome
	registry := slog.String("registry", p.pulling.registry.host)
	if r.err != nil {
		p.log.Warn(
			"the registry does not tell of the fleet either: see registry.url, and whether a coordinator listens there",
			registry, slog.Any("error", r.err))
		return
	}
	p.log.Info("the registry tells of the fleet, as long as claims are not answered", registry,
		slog.Int("other_agents", r.others.Agents))
}
