package balance_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator"
	"taskbus/coordinator/pull"
)

// A fleet on a virtual clock: the agents' controllers and the leader's plan together.

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type controller interface {
	Claim(time.Time, balance.Local) int
	Granted(time.Time, int, balance.View)
	Interval(time.Time, balance.Local) time.Duration
}

type agent struct {
	controller
	id       coordinator.AgentID
	capacity float64
	pending  int
	dead     bool
	claims   time.Time // when next
	done     time.Time // when its item is; meaningless without one
	idle     time.Duration
}

func (a *agent) local() balance.Local {
	return balance.Local{Pending: a.pending, Free: 1000, Capacity: a.capacity}
}

type fleet struct {
	agents    []*agent
	unclaimed int
	literal   bool
}

// newFleet is BALANCING's: 16, 8 and 4 items/s, and 49 items.
func newFleet(t *testing.T, config balance.Config, seed uint64) *fleet {
	t.Helper()
	f := &fleet{unclaimed: 49, literal: config.LoadBalancing.Mode != balance.ModeEqual || !config.LoadBalancing.Enabled}
	for i, capacity := range []float64{16, 8, 4} {
		a := &agent{id: coordinator.AgentID(fmt.Sprintf("a%d", i+1)), capacity: capacity}
		var err error
		if config.LoadBalancing.Mode == balance.ModeEqual {
			a.controller, err = balance.NewEqual(config, string(a.id), seed)
		} else {
			a.controller, err = balance.NewLiteral(config)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.agents = append(f.agents, a)
	}
	return f
}

// plan is the leader's.
func (f *fleet) plan(now time.Time) *pull.Plan {
	shared := pull.Fleet{Unclaimed: f.unclaimed}
	for _, a := range f.agents {
		if !a.dead {
			shared.Agents = append(shared.Agents, pull.Agent{ID: a.id, Capacity: a.capacity, Pending: a.pending, Free: 1000})
		}
	}
	return pull.NewPlan(now, shared, pull.Settings{Literal: f.literal})
}

// claim has one agent claim, and says how many items it got.
func (f *fleet) claim(now time.Time, a *agent) int {
	n := a.Claim(now, a.local())
	if n == 0 {
		return 0
	}
	plan := f.plan(now)
	g := plan.Grant(pull.Claim{Agent: a.id, MaxItems: n})
	a.pending += g.Items
	f.unclaimed -= g.Items
	a.Granted(now, g.Items, balance.View{
		Agents: plan.Agents, Pending: plan.Pending(), Unclaimed: plan.Unclaimed(), Capacity: plan.Capacity,
		FairShare: g.FairShare,
	})
	return g.Items
}

func (f *fleet) held() []int {
	var held []int
	for _, a := range f.agents {
		held = append(held, a.pending)
	}
	return held
}

func configured(mode string, on bool, most int) balance.Config {
	c := balance.Default()
	c.LoadBalancing.Mode, c.LoadBalancing.Enabled, c.LoadBalancing.MaxClaimItems = mode, on, most
	return c
}

// TestConvergence is BALANCING's: within five cycles of one second every agent has a load
// factor of 1.75. Each cycle an agent does what it can in a second, what was done is
// replaced (49 items always), and all claim. Then agent 3 dies, and its 7 go to the others.
func TestConvergence(t *testing.T) {
	f := newFleet(t, configured(balance.ModeEqual, true, 100), 1)
	now := start
	cycle := func() {
		for _, a := range f.agents {
			did := min(a.pending, int(a.capacity))
			a.pending -= did
			f.unclaimed += did
		}
		for _, a := range f.agents {
			if !a.dead {
				f.claim(now, a)
			}
		}
		now = now.Add(time.Second)
	}
	converged := 0
	for n := 1; n <= 5; n++ {
		cycle()
		t.Logf("cycle %d: %v, unclaimed %d", n, f.held(), f.unclaimed)
		if converged == 0 && slices.Equal(f.held(), []int{28, 14, 7}) {
			converged = n
		}
	}
	if converged == 0 || !slices.Equal(f.held(), []int{28, 14, 7}) {
		t.Fatalf("holds %v after five cycles, want 28, 14, 7", f.held())
	}
	for _, a := range f.agents { // 28/16 = 14/8 = 7/4 = 1.75
		if factor := float64(a.pending) / a.capacity; factor != 1.75 {
			t.Errorf("%s: load factor %v, want 1.75", a.id, factor)
		}
	}
	if target := f.plan(now).Target; target != 1750*time.Millisecond {
		t.Errorf("T* %v, want 1.75s", target)
	}

	third := f.agents[2]
	third.dead = true
	f.unclaimed, third.pending = f.unclaimed+third.pending, 0
	for range 5 {
		cycle()
	}
	// 49·16/24 = 32.67 and 49·8/24 = 16.33: 33 and 16. 33/49 = 0.673, 16/24 = 0.667.
	if !slices.Equal(f.held(), []int{33, 16, 0}) {
		t.Errorf("holds %v without the third, want 33, 16, 0", f.held())
	}
	if share := float64(f.agents[0].pending) / 49; math.Abs(share-0.67) > 0.005 {
		t.Errorf("agent 1 has %v of it, want 0.67", share)
	}
}

type outcome struct {
	throughput float64 // items/s
	idle       float64 // of agent 1, 0 to 1
	drains     []float64
}

// play lets the fleet work for 300 s on 49 items: one that is done is replaced at once.
// Every item takes an exponential time. phases are the agents' first claims, in seconds;
// nil leaves them to chance, within one. Figures are of the last 270 s.
func play(f *fleet, seed uint64, phases []float64) outcome {
	const whole, skip = 300 * time.Second, 30 * time.Second
	dice := rand.New(rand.NewPCG(seed, 0))
	work := func(a *agent) time.Duration {
		return time.Duration(dice.ExpFloat64() / a.capacity * float64(time.Second))
	}
	for i, a := range f.agents {
		phase := dice.Float64()
		if phases != nil {
			phase = phases[i]
		}
		a.claims = start.Add(time.Duration(phase * float64(time.Second)))
	}
	now, done := start, 0
	held := make([]float64, len(f.agents)) // item seconds
	for now.Before(start.Add(whole)) {
		next, who, claims := start.Add(whole), (*agent)(nil), false
		for _, a := range f.agents {
			if a.claims.Before(next) {
				next, who, claims = a.claims, a, true
			}
			if a.pending > 0 && a.done.Before(next) {
				next, who, claims = a.done, a, false
			}
		}
		if now.Sub(start) >= skip {
			for i, a := range f.agents {
				held[i] += float64(a.pending) * next.Sub(now).Seconds()
				if a.pending == 0 {
					a.idle += next.Sub(now)
				}
			}
		}
		now = next
		switch {
		case who == nil:
		case claims:
			was := who.pending
			if f.claim(now, who); was == 0 && who.pending > 0 {
				who.done = now.Add(work(who))
			}
			who.claims = now.Add(who.Interval(now, who.local()))
		default:
			who.pending--
			f.unclaimed++
			who.done = now.Add(work(who))
			if now.Sub(start) >= skip {
				done++
			}
		}
	}
	seconds := (whole - skip).Seconds()
	o := outcome{throughput: float64(done) / seconds, idle: f.agents[0].idle.Seconds() / seconds}
	for i, a := range f.agents {
		o.drains = append(o.drains, held[i]/seconds/a.capacity)
	}
	return o
}

// TestComparison: with 49 items and 28/s of capacity, for 300 s. How many items a claim
// takes is not in BALANCING: 8 for the controllers that leave it fixed. Agent 3 takes as
// many per claim as agent 1 and does a quarter, and most items end up with it. How many
// the others find then depends, with fixed polling, on when in its second each asks: 6/s
// to 20/s. BALANCING's formulas have agent 3 ask five times as often as before, which
// settles it: the whole fleet works at little more than its pace of 4/s.
func TestComparison(t *testing.T) {
	type band struct{ least, most float64 }
	first3 := []float64{0.05, 0.10, 0}
	tests := []struct {
		name       string
		config     balance.Config
		phases     []float64
		throughput band // items/s
		idle       band // of agent 1
		drain3     band // s, of what agent 3 holds, mean
	}{
		{"fixed", configured(balance.ModeLiteral, false, 8), nil, band{9, 15}, band{0.65, 0.90}, band{9.5, 11.5}},
		// The design's own simulation has 5.9/s, 90 % idle and 11.8 s.
		{"fixed, agent 3 first", configured(balance.ModeLiteral, false, 8), first3, band{4, 7}, band{0.85, 1},
			band{11, 12.5}},
		// 4.6/s, 98 %, 12.1 s there.
		{"pseudocode", configured(balance.ModeLiteral, true, 8), nil, band{4.2, 5.2}, band{0.96, 1}, band{11.5, 12.25}},
		// 4.7/s, 98 %, 12.1 s.
		{"step 3", configured(balance.ModeLiteralShare, true, 8), nil, band{4.2, 5.2}, band{0.96, 1}, band{11.5, 12.25}},
		// 27.7/s, 0.3 %, 1.28 s with a poll every second; hits shorten the interval here,
		// so that the mean is nearer to T* = 1.75 s.
		{"equal", configured(balance.ModeEqual, true, 100), nil, band{27.5, 28.5}, band{0, 0.01}, band{1.25, 1.75}},
	}
	within := func(name, what string, got float64, b band) {
		t.Helper()
		if got < b.least || got > b.most {
			t.Errorf("%s: %s %v, want %v to %v", name, what, got, b.least, b.most)
		}
	}
	results := map[string]outcome{}
	for _, tt := range tests {
		var mean outcome
		const seeds = 20
		for seed := range uint64(seeds) {
			o := play(newFleet(t, tt.config, seed), seed, tt.phases)
			mean.throughput += o.throughput / seeds
			mean.idle += o.idle / seeds
			if mean.drains == nil {
				mean.drains = make([]float64, len(o.drains))
			}
			for i := range o.drains {
				mean.drains[i] += o.drains[i] / seeds
			}
		}
		t.Logf("%-20s %5.2f/s, agent 1 idle %5.1f %%, drains %.2f s", tt.name, mean.throughput, 100*mean.idle, mean.drains)
		within(tt.name, "throughput", mean.throughput, tt.throughput)
		within(tt.name, "idle part of agent 1", mean.idle, tt.idle)
		within(tt.name, "drain time of agent 3", mean.drains[2], tt.drain3)
		results[tt.name] = mean
	}
	if results["equal"].throughput < 2*results["fixed"].throughput ||
		results["equal"].throughput < 5*results["pseudocode"].throughput {
		t.Error("equal drain times are not twice as fast as fixed polling, and five times as the pseudocode")
	}
	for _, worse := range []string{"pseudocode", "step 3"} {
		if results[worse].throughput >= results["fixed"].throughput || results[worse].idle <= results["fixed"].idle {
			t.Errorf("%s is not worse than fixed polling", worse)
		}
	}
}
