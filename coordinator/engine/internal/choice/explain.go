package choice

import (
	"cmp"
	"slices"

	"taskbus/coordinator"
)

// Explanation is a full pass over the fleet: why each agent may not have the task. It is only made for refusals and for
// requests. The caller judges the agents, in the order of their numbers.
type Explanation struct {
	q        *Question
	d        *coordinator.Decision
	required []string
	detailed bool
	nearest  coordinator.Refusal
	eligible []int // of one that is detailed
	keys     map[int]coordinator.Key
}

// Explain begins an explanation of the question; required are the capabilities that the task requires, and a detailed
// one lists the agents, bounded. The question must stay as it is.
func (q *Question) Explain(required []string, detailed bool) Explanation {
	x := Explanation{q: q, required: required, detailed: detailed,
		d: &coordinator.Decision{Strategy: q.Strategy.Name, Fleet: len(q.Fleet.Views)}}
	if detailed {
		x.d.Terms, x.d.Scored, x.keys = q.Strategy.Terms, q.Strategy.Scored, make(map[int]coordinator.Key)
	}
	return x
}

// Add adds the next agent: why it may not have the task, or that it is eligible, which it is not if the strategy gives
// it no score.
func (x *Explanation) Add(i int, r coordinator.Refusal) {
	if r.Why == coordinator.Eligible {
		k := x.q.Key(i)
		if !k.Unscored() {
			x.d.Eligible++
			if x.detailed {
				x.eligible, x.keys[i] = append(x.eligible, i), k
			}
			return
		}
		if r.Why = coordinator.Unscored; x.d.UnscoredWhy == "" {
			x.d.UnscoredWhy = x.q.Why(i)
		}
	}
	x.d.Refused[r.Why]++
	if nearer(&r, &x.nearest) {
		x.nearest = r
	}
	if x.detailed {
		x.d.Refusals = append(x.d.Refusals, r)
	}
}

// Decision returns the explanation when all agents have been added.
func (x *Explanation) Decision() *coordinator.Decision {
	d := x.d
	if nearest := x.nearest; nearest.Agent != "" {
		d.Nearest = &nearest
	}
	d.Missing = x.mostMissing()
	if !x.detailed {
		return d
	}
	slices.SortFunc(x.eligible, func(i, j int) int {
		if x.q.Fleet.Better(i, x.keys[i], j, x.keys[j]) {
			return -1
		}
		return 1
	})
	x.eligible = x.eligible[:min(len(x.eligible), coordinator.MaxExplained)]
	d.Candidates = make([]coordinator.Candidate, len(x.eligible))
	for n, i := range x.eligible {
		x.q.Candidate(&d.Candidates[n], i, x.keys[i])
	}
	slices.SortStableFunc(d.Refusals, func(a, b coordinator.Refusal) int {
		switch {
		case nearer(&a, &b):
			return -1
		case nearer(&b, &a):
			return 1
		}
		return cmp.Compare(b.Why, a.Why)
	})
	d.Refusals = d.Refusals[:min(len(d.Refusals), coordinator.MaxExplained)]
	return d
}

// mostMissing lists how many agents lack each required capability. It is tested before all else, so that whatever lacks
// one is counted for that.
func (x *Explanation) mostMissing() []coordinator.MissingCapability {
	if x.d.Refused[coordinator.LacksCapability] == 0 {
		return []coordinator.MissingCapability{}
	}
	list := make([]coordinator.MissingCapability, 0, len(x.required))
	for _, c := range x.required {
		if n := len(x.q.Fleet.Views) - x.q.Fleet.Index.Offering[c].Len(); n > 0 {
			list = append(list, coordinator.MissingCapability{Capability: c, Agents: n})
		}
	}
	slices.SortFunc(list, func(a, b coordinator.MissingCapability) int {
		return cmp.Or(cmp.Compare(b.Agents, a.Agents), cmp.Compare(a.Capability, b.Capability))
	})
	return list
}

// nearer reports whether refusal a is closer to eligible than b. The later a
// criterion is tested, the closer the agent came; of two full agents the one that
// will have a slot sooner. One that cannot have the task at all is never "near".
func nearer(a, b *coordinator.Refusal) bool {
	if a.Why.Lasting() {
		return false
	}
	if a.Why != b.Why {
		return a.Why > b.Why
	}
	return a.FreeIn > 0 && (b.FreeIn == 0 || a.FreeIn < b.FreeIn)
}

// ruledOut are the reasons that leave a task none of the agents: a reason is asked of those that the ones before it
// leave.
var ruledOut = [...]coordinator.Reason{
	coordinator.ReasonNoEligibleAgents, coordinator.ReasonRetriesExhausted, coordinator.ReasonNoAgentsOnline,
}

// Reason returns why a task fails for which an explanation finds no agent, by its counts.
func Reason(d *coordinator.Decision) coordinator.Reason {
	left := d.Fleet
	for _, reason := range ruledOut {
		for why, n := range d.Refused {
			if is := coordinator.Ineligibility(why); is.Reason() == reason && (is.Lasting() || is.Away()) {
				left -= n
			}
		}
		if left == 0 {
			return reason
		}
	}
	for why, n := range d.Refused {
		if is := coordinator.Ineligibility(why); n == left && !is.Lasting() && !is.Away() {
			return is.Reason()
		}
	}
	if d.Refused[coordinator.Pulling] > 0 { // they have free slots
		return coordinator.ReasonNotClaimed
	}
	return coordinator.ReasonAllAgentsAtCapacity
}
