package pulling

import (
	"context"
	"fmt"
	"math"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator"
	"taskbus/coordinator/pull"
	"taskbus/coordinator/simulator"
)

// controller is what agent/balance has two of.
type controller interface {
	Claim(now time.Time, l balance.Local) int
	Granted(now time.Time, items int, v balance.View)
	Interval(now time.Time, l balance.Local) time.Duration
}

// giver is a controller that gives items back.
type giver interface {
	Surplus(now time.Time, l balance.Local) int
}

// never is later than everything.
const never = time.Duration(math.MaxInt64)

// agent is one simulated agent. Times are since the beginning.
type agent struct {
	controller
	*simulator.Puller
	id      coordinator.AgentID
	pending int           // items held, the one that is worked on included
	begun   uint64        // items begun so far
	done    time.Duration // when its item will be; never without one
	claims  time.Duration // when it claims next; never when it is dead
	seen    time.Duration // its latest claim
	dead    bool
}

func (a *agent) local() balance.Local {
	return balance.Local{Pending: a.pending, Free: a.Slots - a.pending, Capacity: a.Capacity}
}

// world is one run: one load, one controller, one seed.
type world struct {
	scenario *simulator.Scenario
	load     *simulator.PullLoad
	settings pull.Settings
	seed     uint64

	now       time.Duration
	agents    []agent
	unclaimed int
	arrived   uint64
	arrives   time.Duration // the next item; never under a constant load
	dies      time.Duration
	tally     tally
}

// What a draw is for.
const (
	drawPhase uint64 = iota + 1
	drawWork
	drawArrival
)

// exponential is a time of that mean, in seconds; at least a tick of the clock.
func exponential(mean, u float64) time.Duration {
	d := simulator.Distribution{Shape: simulator.Exponential, Mean: mean}
	return max(1, time.Duration(d.Quantile(u)*float64(time.Second)))
}

func newWorld(
	s *simulator.Scenario, load *simulator.PullLoad, c *simulator.PullController, seed uint64,
) (*world, error) {
	w := &world{
		scenario: s, load: load, seed: seed,
		settings:  pull.Settings{Interval: c.Base, Literal: !c.FairPart},
		unclaimed: load.Items, arrives: never, dies: never,
		agents: make([]agent, len(s.Pulling.Agents)),
		tally:  newTally(s),
	}
	if load.Rate > 0 {
		w.nextArrival()
	}
	if load.Death.Agent != "" {
		w.dies = load.Death.At
	}
	for i := range w.agents {
		p := &s.Pulling.Agents[i]
		control, err := newController(c, p.Name, seed)
		if err != nil {
			return nil, fmt.Errorf("scenario %s, controller %s: %w", s.Name, c.Label, err)
		}
		phase := simulator.Draw(seed, drawPhase, uint64(i), 0)
		w.agents[i] = agent{
			controller: control, Puller: p, id: coordinator.AgentID(p.Name),
			done: never, claims: time.Duration(phase * float64(c.Base)),
		}
	}
	return w, nil
}

// newController is that of one agent.
func newController(c *simulator.PullController, id string, seed uint64) (controller, error) {
	config := balance.Default()
	b := &config.LoadBalancing
	b.MaxClaimItems, b.BaseDiscoveryIntervalMS = c.MaxClaimItems, int(c.Base.Milliseconds())
	switch c.Mode {
	case simulator.PullFixed:
		return balance.NewLiteral(config) // which is not enabled
	case simulator.PullEqual:
		b.Enabled = true
		return balance.NewEqual(config, id, seed)
	default:
		b.Enabled, b.Mode = true, string(c.Mode)
		return balance.NewLiteral(config)
	}
}

// checkEvery is after how many events a run looks whether it is to end early.
const checkEvery = 4096

// run plays to the end of the scenario, or to that of the context.
func (w *world) run(ctx context.Context) error {
	for n := 0; w.step(); n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// step lets the next thing happen; false: it was the end. Of things at the same moment
// the first of this order happens first.
func (w *world) step() bool {
	next, what := w.scenario.Duration, func() {}
	end := true
	sooner := func(at time.Duration, then func()) {
		if at < next {
			next, what, end = at, then, false
		}
	}
	sooner(w.dies, w.die)
	sooner(w.arrives, w.arrive)
	first, claims := -1, false
	for i := range w.agents {
		a := &w.agents[i]
		if a.done < next {
			next, first, claims = a.done, i, false
		}
		if a.claims < next {
			next, first, claims = a.claims, i, true
		}
	}
	w.tally.pass(w.now, next, w.agents, w.unclaimed)
	w.now = next
	switch {
	case first < 0:
		what()
		return !end
	case claims:
		w.claim(first)
	default:
		w.finish(first)
	}
	return true
}

// moment is the clock as the controllers and the plan see it.
func (w *world) moment(at time.Duration) time.Time { return time.Unix(0, 0).Add(at) }

func (w *world) arrive() {
	w.unclaimed++
	w.nextArrival()
}

func (w *world) nextArrival() {
	w.arrives = w.now + exponential(1/w.load.Rate, simulator.Draw(w.seed, drawArrival, w.arrived, 0))
	w.arrived++
}

// finish ends the item that agent i works on.
func (w *world) finish(i int) {
	w.agents[i].pending--
	w.begin(i)
	w.tally.finished(w.now)
	if w.load.Items > 0 {
		w.unclaimed++
	}
}

// begin has agent i work on what it holds, if it holds anything.
func (w *world) begin(i int) {
	a := &w.agents[i]
	a.done = never
	if a.pending > 0 {
		a.done = w.now + exponential(1/a.Capacity, simulator.Draw(w.seed, drawWork, uint64(i), a.begun))
		a.begun++
	}
}

// die ends the agent of the load, which is there: Read has seen to it.
func (w *world) die() {
	w.dies = never
	for i := range w.agents {
		if a := &w.agents[i]; a.Name == w.load.Death.Agent {
			w.unclaimed += a.pending
			a.pending, a.dead, a.done, a.claims = 0, true, never, never
		}
	}
}

// plan is the leader's, as of now.
func (w *world) plan() *pull.Plan {
	f := pull.Fleet{Agents: make([]pull.Agent, len(w.agents)), Unclaimed: w.unclaimed}
	for i := range w.agents {
		a := &w.agents[i]
		f.Agents[i] = pull.Agent{ID: a.id, Capacity: a.Capacity, Pending: a.pending, Free: a.Slots - a.pending,
			Seen: w.moment(a.seen)}
	}
	return pull.NewPlan(w.moment(w.now), f, w.settings)
}

// claim has agent i ask, get its answer, and give back what is too much.
func (w *world) claim(i int) {
	a, now := &w.agents[i], w.moment(w.now)
	if n := a.Claim(now, a.local()); n > 0 {
		a.seen = w.now
		plan := w.plan()
		g := plan.Grant(pull.Claim{Agent: a.id, MaxItems: n})
		idle := a.pending == 0
		a.pending += g.Items
		w.unclaimed -= g.Items
		if idle {
			w.begin(i)
		}
		a.Granted(now, g.Items, balance.View{
			Agents: plan.Agents, Pending: plan.Pending(), Unclaimed: plan.Unclaimed(), Capacity: plan.Capacity,
			FairShare: g.FairShare,
		})
		w.tally.claimed(w.now, i, a.pending)
	}
	if g, gives := a.controller.(giver); gives {
		back := max(0, min(g.Surplus(now, a.local()), a.pending-1)) // not the one that is worked on
		a.pending -= back
		w.unclaimed += back
	}
	a.claims = w.now + a.Interval(now, a.local())
}
