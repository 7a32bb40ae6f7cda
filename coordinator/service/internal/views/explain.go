package views

import (
	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Explanation returns a decision for people.
func Explanation(d *coordinator.Decision) *view.Explanation {
	x := &view.Explanation{
		Text: d.Text(), Strategy: d.Strategy, Preferred: d.Preferred, Explored: d.Explored, Fleet: d.Fleet,
		Eligible: d.Eligible, WithoutQuota: d.WithoutQuota,
	}
	if l := d.Lacks; l != nil {
		x.Quota = &view.QuotaLack{Node: l.Node, Dimension: l.Dimension.String(), Limit: l.Limit, RetryAt: l.RetryAt}
	}
	if m := d.Models; m != nil {
		x.Routes, x.Routing = view.QuotaRoutesOf(m.Routes, m.Weights), new(view.CallRouteTerms(m.Weights))
	}
	for i := range d.Candidates {
		x.Candidates = append(x.Candidates, candidate(d, &d.Candidates[i]))
	}
	for why, n := range d.Refused {
		if n > 0 {
			if x.Refused == nil {
				x.Refused = make(map[string]int)
			}
			x.Refused[coordinator.Ineligibility(why).String()] = n
		}
	}
	var named [coordinator.NumIneligibilities]int
	for _, r := range d.Refusals { // the nearest first
		if named[r.Why]++; named[r.Why] > coordinator.MaxNamed {
			continue // Refused has how many: a fleet that is full is said in a word
		}
		x.Refusals = append(x.Refusals, view.Refusal{Agent: string(r.Agent), Why: r.Why.String(),
			FreeIn: r.FreeIn.Seconds()})
	}
	for _, m := range d.Missing {
		if x.Missing == nil {
			x.Missing = make(map[string]int)
		}
		x.Missing[m.Capability] = m.Agents
	}
	if n := d.Nearest; n != nil {
		x.Nearest, x.NearestWhy, x.NearestFreeIn = string(n.Agent), n.Why.String(), n.FreeIn.Seconds()
	}
	return x
}

func candidate(d *coordinator.Decision, c *coordinator.Candidate) view.Candidate {
	v := view.Candidate{Agent: string(c.Agent), Load: c.Load, Free: c.Free}
	if d.Scored {
		score := view.Number(-c.Key.First)
		v.Score = &score
	}
	for i, name := range d.Terms {
		v.Terms = append(v.Terms, view.Term{Name: name, Value: view.Number(c.Terms[i])})
	}
	return v
}
