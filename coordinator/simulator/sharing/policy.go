package sharing

import "taskbus/coordinator/fairshare/billing"

// order is how the tenant is found that goes next.
type order uint8

const (
	byArrival order = iota
	byTurns
	byShares
)

// policy is which tenant goes next, and what a call counts from its dispatch until its end.
type policy struct {
	name, label string
	order       order
	// estimate is that cost, of a call of which the input is known; only by shares.
	estimate func(r *run, t *tenant, input int64) int64
}

// policies are all, in the order of the output.
var policies = []policy{
	{name: "fcfs", label: "first come, first served", order: byArrival},
	{name: "round_robin", label: "request round-robin", order: byTurns},
	{"at_finish", "charge only at finish", byShares, func(*run, *tenant, int64) int64 {
		return 1
	}},
	{"reserve_max", "reserve max_output_tokens", byShares, func(r *run, _ *tenant, input int64) int64 {
		return cost(input, int64(r.provider.MaxOutput))
	}},
	{"reserve_input", "reserve input only", byShares, func(_ *run, _ *tenant, input int64) int64 {
		return cost(input, 0)
	}},
	{"reserve_mean", "reserve input + mean output", byShares, func(_ *run, t *tenant, input int64) int64 {
		return cost(input, t.outputs/max(t.settled, 1))
	}},
	{"taskbus", "reserve input + learnt mean (Taskbus)", byShares, func(r *run, t *tenant, input int64) int64 {
		return cost(input, r.estimator.Estimate(t.name, "", input, int64(r.provider.MaxOutput)).Expect)
	}},
}

// cost of a call, at most what one may count.
func cost(input, output int64) int64 { return min(input+2*output, billing.MostCost) }

// turn is the tenant that goes next; one at least waits.
func (r *run) turn() *tenant {
	switch r.policy.order {
	case byArrival:
		var first *tenant
		for _, t := range r.tenants {
			if t.waits() && (first == nil || t.calls[t.begun].At < first.calls[first.begun].At) {
				first = t
			}
		}
		return first
	case byTurns:
		for {
			t := r.tenants[r.next]
			r.next = (r.next + 1) % len(r.tenants)
			if t.waits() {
				return t
			}
		}
	default:
		head, _ := r.backlog.First(0)
		return r.byLeaf[head.Leaf]
	}
}
