package sharing

import (
	"context"
	"math"
	"time"

	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/estimates"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/simulator"
)

// Call is one of a tenant: when it comes, and what it takes, in tokens.
type Call struct {
	At            time.Duration
	Input, Output int64
}

// tenant is one of those that share, in one run.
type tenant struct {
	name   string
	leaf   int
	weight int64
	calls  []Call
	// come and begun are how many have arrived, and been dispatched.
	come, begun int
	// served is what was dispatched, at what it costs in truth; dearest the most that a call
	// cost or was charged; mostOpen how many were open at a time.
	served, dearest, open, mostOpen int64
	// settled calls have put out so many tokens.
	settled, outputs int64
	waited           []float64 // seconds, call by call
}

func (t *tenant) waits() bool { return t.begun < t.come }

// openCall is one that the provider works on.
type openCall struct {
	tenant  *tenant
	call    *Call
	charged int64
}

// run is one: one policy, one list of weights, one seed.
type run struct {
	provider *simulator.Sharing
	policy   *policy
	// arriving: calls come when they were recorded. Without it all wait from the beginning,
	// and the run is over when the first tenant has no more.
	arriving bool

	now       time.Duration
	tenants   []*tenant
	byLeaf    map[int]*tenant
	next      int // number of the one that is next, of those that take turns
	open      simulator.Timeline[openCall]
	shares    *fairqueue.Shares
	backlog   *fairqueue.Backlog[int]
	estimator *estimates.Estimator
	evenness  evenness
}

// never is later than everything.
const never = time.Duration(math.MaxInt64)

func newRun(s *simulator.Sharing, p *policy, weights []int64, calls [][]Call, arriving bool) (*run, error) {
	r := &run{
		provider: s, policy: p, arriving: arriving,
		byLeaf: make(map[int]*tenant), shares: fairqueue.NewShares(), estimator: estimates.New(),
	}
	r.shares.DebtCap, r.shares.LagCap = billing.CostCap, billing.CostCap // as the engine has it
	var groups []fairqueue.Node
	for i := range s.Tenants {
		groups = append(groups, fairqueue.Node{Name: s.Tenants[i].Name, Parent: -1, Weight: weights[i]})
	}
	if err := r.shares.Install(groups); err != nil {
		return nil, err
	}
	r.backlog = fairqueue.NewBacklog(r.shares, func(a, b int) bool { return a < b }, func(int, int) {})
	for i := range s.Tenants {
		t := &tenant{name: s.Tenants[i].Name, leaf: r.shares.Leaf(s.Tenants[i].Name), weight: weights[i], calls: calls[i]}
		r.tenants, r.byLeaf[t.leaf] = append(r.tenants, t), t
	}
	r.evenness = newEvenness(len(r.tenants))
	return r, nil
}

// play it to its end.
func (r *run) play(ctx context.Context) error {
	const between = 4096 // looks at the context
	for n := 0; ; n++ {
		if n%between == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		waiting := r.arrive()
		switch {
		case waiting && r.open.Len() < r.provider.Slots:
			t := r.turn()
			r.dispatch(t)
			if !r.arriving && t.begun == len(t.calls) {
				return nil
			}
		case !r.advance():
			return nil
		}
	}
}

// comes is when the tenant's next call does.
func (r *run) comes(t *tenant) time.Duration {
	switch {
	case t.come == len(t.calls):
		return never
	case !r.arriving:
		return 0
	default:
		return t.calls[t.come].At
	}
}

// arrive has the calls wait of which the time has come, and reports whether any does.
func (r *run) arrive() (waiting bool) {
	for _, t := range r.tenants {
		for r.comes(t) <= r.now {
			if r.policy.order == byShares {
				r.backlog.Push(t.leaf, 0, t.come)
			}
			t.come++
		}
		waiting = waiting || t.waits()
	}
	return waiting
}

// advance to the next end of a call or arrival; false: there is none.
func (r *run) advance() bool {
	next := never
	for _, t := range r.tenants {
		next = min(next, r.comes(t))
	}
	if r.open.Len() > 0 && r.open.First() <= int64(next) {
		at, o := r.open.Next()
		r.now = time.Duration(at)
		r.finish(o)
		return true
	}
	if next == never {
		return false
	}
	r.now = next
	return true
}

// dispatch the tenant's next call.
func (r *run) dispatch(t *tenant) {
	c := &t.calls[t.begun]
	o := openCall{tenant: t, call: c}
	if r.policy.order == byShares {
		o.charged = max(r.policy.estimate(r, t, c.Input), 1)
		r.shares.Charge(t.leaf, o.charged)
		r.backlog.Remove(t.leaf, 0, 0)
	}
	ends := r.now + time.Duration(c.Input)*r.provider.PerInput + time.Duration(c.Output)*r.provider.PerOutput
	r.open.Add(int64(ends), o)
	t.begun++
	t.open++
	t.mostOpen = max(t.mostOpen, t.open)
	t.served += cost(c.Input, c.Output)
	t.dearest = max(t.dearest, cost(c.Input, c.Output), o.charged)
	if r.arriving {
		t.waited = append(t.waited, (r.now - c.At).Seconds())
	} else {
		r.evenness.look(r.now, r.tenants)
	}
}

// finish a call: what it took is known, and its tenant's turn is put right.
func (r *run) finish(o openCall) {
	t := o.tenant
	t.open--
	t.settled++
	t.outputs += o.call.Output
	if r.policy.order == byShares {
		r.shares.Correct(t.leaf, o.charged, cost(o.call.Input, o.call.Output))
		r.estimator.Observe(t.name, "", o.call.Input, o.call.Output)
	}
}
