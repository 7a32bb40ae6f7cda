package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Where nothing is known of a pool yet it counts as answering as fast as the fastest, and always:
// else it would never be tried.

// route finds where the i-th call goes that is asked about; false: it has no choice. Parts that are
// asked about together are parts of one call, which is made with one key: they go where the first of
// them went that is for this provider.
func (e *Engine) route(now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int) (to coordinator.Service, chosen bool) {
	c := &calls[i]
	named, routes := e.routesOf(c)
	if len(routes) == 0 {
		return to, false
	}
	var beside []*coordinator.Call
	for j := range calls {
		o, a := &calls[j], &answers[j]
		if j == i || c.Meant != coordinator.UsagePart || o.Meant != coordinator.UsagePart || len(c.Routes) > 0 {
			continue
		}
		if a.Pool != "" && coordinator.StandsFor(named.Provider, a.Provider) {
			return coordinator.Service{Provider: a.Provider, Model: named.Model}, true
		}
		if asks(o.Op) && a.Pool == "" && e.serviceOfCall(o).Provider == named.Provider {
			beside = append(beside, o)
		}
	}
	best := e.chooseRoute(now, routes, e.callsCheck(now, c), e.besideCheck(now, beside), &answers[i].Routes)
	return routes[best], true
}

// serviceOfCall is the provider and model that a call names, or that its group's calls go to.
func (e *Engine) serviceOfCall(c *coordinator.Call) coordinator.Service {
	group, _ := e.quotas.ledger.GroupOfCall(c)
	return e.quotas.ledger.ServiceOf(group, &c.Usage)
}

// routesOf are the models that a call may go to, each in one pool: those of its list, or the model
// that it names with each of the keys that its provider has; nil: there is one alone.
func (e *Engine) routesOf(c *coordinator.Call) (named coordinator.Service, routes []coordinator.Service) {
	switch l := e.quotas.ledger; {
	case !l.Installed():
		return named, nil
	case len(c.Routes) > 0:
		return named, e.expand(c.Routes)
	case !l.AnyKeys():
		return named, nil
	default:
		if named = e.serviceOfCall(c); len(l.Keys(named.Provider)) < 2 {
			return named, nil
		}
		return named, e.expand([]coordinator.Service{named})
	}
}

// routeCheck tells what would be charged if something went to a model, and whether there is room for it.
type routeCheck func(s coordinator.Service) (fairshare.Charge, fairshare.Path, fairshare.Verdict)

// chooseRoute finds to which of several models a call, or a task, goes: the best by its score of those
// that have quota for it now, the earlier one of equals; else the first of those that it may ask again.
// Scores compare what is left, prices, latency and success of these few with each other. beside is why
// what goes with it cannot go to the same provider; nil: nothing goes with it.
func (e *Engine) chooseRoute(now time.Time, routes []coordinator.Service, check routeCheck, beside besideCheck, scores *[]coordinator.RouteScore) (best int) {
	judged := make([]coordinator.RouteScore, len(routes))
	facts := make([]routeFacts, len(routes))
	for i, s := range routes {
		r := &judged[i]
		if facts[i] = e.lookAlong(now, s, check, r); r.Lacks == nil && beside != nil {
			r.Lacks, facts[i].never = beside(s.Provider)
		}
	}
	score(facts, judged, e.quotas.ledger.RouteWeights())
	for i := range judged {
		if better(&judged[i], &judged[best], facts[i].never, facts[best].never) {
			best = i
		}
	}
	judged[best].Chosen = judged[best].Lacks == nil
	*scores = judged
	return best
}

// besideCheck is why what is asked about together with a call cannot go to that provider now, or never;
// nil: it could.
type besideCheck func(provider string) (lacks *coordinator.QuotaLack, never bool)

// besideCheck is that of the parts of a call.
func (e *Engine) besideCheck(now time.Time, parts []*coordinator.Call) besideCheck {
	return func(provider string) (lacks *coordinator.QuotaLack, never bool) {
		for _, o := range parts {
			if lacks == nil {
				lacks, never = e.lacksAlong(now, o, provider)
			}
		}
		return lacks, never
	}
}

// callsCheck is routeCheck of a call.
func (e *Engine) callsCheck(now time.Time, c *coordinator.Call) routeCheck {
	return func(s coordinator.Service) (fairshare.Charge, fairshare.Path, fairshare.Verdict) {
		return e.checkAlong(now, c, s)
	}
}

// better tells whether one route goes before an earlier one. never: it lacks what it will never have.
func better(x, than *coordinator.RouteScore, never, thanNever bool) bool {
	switch {
	case (x.Lacks == nil) != (than.Lacks == nil):
		return x.Lacks == nil
	case x.Lacks == nil:
		return x.Score > than.Score
	case never || thanNever:
		return !never
	case than.Lacks.RetryAt.IsZero():
		return !x.Lacks.RetryAt.IsZero()
	default:
		return !x.Lacks.RetryAt.IsZero() && x.Lacks.RetryAt.Before(than.Lacks.RetryAt)
	}
}

// expand puts the keys of a provider, each a pool of its own, in the place of its name.
func (e *Engine) expand(routes []coordinator.Service) (all []coordinator.Service) {
	for _, s := range routes {
		keys := e.quotas.ledger.Keys(s.Provider)
		if len(keys) == 0 {
			all = append(all, s)
		}
		for _, key := range keys {
			all = append(all, coordinator.Service{Provider: key, Model: s.Model})
		}
	}
	return all
}

// routeFacts are what a route is judged by.
type routeFacts struct {
	left          float64 // 0 to 1
	cost, latency int64   // micro-USD, ns; 0: not known
	success       float64
	never         bool // there is no room for it, and never will be
}

// lookAlong judges one route, without setting anything aside.
func (e *Engine) lookAlong(now time.Time, s coordinator.Service, check routeCheck, r *coordinator.RouteScore) routeFacts {
	q := &e.quotas
	charge, path, v := check(s)
	r.Service, r.Pool = s, q.ledger.PoolOf(&charge)
	f := routeFacts{left: 1, cost: charge.Amounts[coordinator.DimCost], success: 1}
	if !v.OK {
		r.Lacks, f.never = lackFor(&v), v.Permanent
	}
	for _, l := range q.ledger.Left(now, &path, &charge.Amounts, &v) {
		f.left = min(f.left, float64(l.Left)/float64(max(1, l.Most)))
	}
	h := q.ledger.HealthOf(&charge)
	if f.left *= float64(h.PerMille) / 1000; h.Calls > 0 {
		f.success, f.latency = float64(h.Success)/1e6, int64(h.Latency)
	}
	return f
}

// checkAlong tells what a call would be charged if it went there, and whether there is room for it.
func (e *Engine) checkAlong(now time.Time, c *coordinator.Call, s coordinator.Service) (fairshare.Charge, fairshare.Path, fairshare.Verdict) {
	one := sentTo(c, s)
	charge, _ := e.callCharge(&one)
	one.Op = coordinator.CallCheck // what it would be charged has been found out
	path := e.quotas.ledger.PathOf(&charge)
	return charge, path, e.askLedger(now, &one, &charge, &path)
}

// lacksAlong is why a part of a call cannot go to the same provider now, or never; nil: it could.
func (e *Engine) lacksAlong(now time.Time, c *coordinator.Call, provider string) (lacks *coordinator.QuotaLack, never bool) {
	s := coordinator.Service{Provider: provider, Model: e.serviceOfCall(c).Model}
	if _, _, v := e.checkAlong(now, c, s); !v.OK {
		return lackFor(&v), v.Permanent
	}
	return nil, false
}

// sentTo is a call that goes to that model.
func sentTo(c *coordinator.Call, s coordinator.Service) coordinator.Call {
	one := *c
	one.Usage.Provider, one.Usage.Model = s.Provider, s.Model
	return one
}

// score compares routes.
func score(facts []routeFacts, routes []coordinator.RouteScore, w coordinator.RouteTerms) {
	cheapest, fastest := int64(0), int64(0)
	for _, f := range facts {
		cheapest, fastest = leastKnown(cheapest, f.cost), leastKnown(fastest, f.latency)
	}
	all := w.Remaining + w.Price + w.Latency + w.Success
	for i, f := range facts {
		t := &routes[i].Terms
		t.Remaining, t.Price, t.Latency, t.Success = min(1, f.left), compared(cheapest, f.cost), compared(fastest, f.latency), f.success
		if all > 0 {
			routes[i].Score = (w.Remaining*t.Remaining + w.Price*t.Price + w.Latency*t.Latency + w.Success*t.Success) / all
		}
	}
}

// leastKnown is the smaller of two numbers above 0.
func leastKnown(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// compared is how x compares with the least one; 1: it is that, or not known.
func compared(least, x int64) float64 {
	if x <= 0 {
		return 1
	}
	return float64(least) / float64(x)
}

// lackFor is a refusal for people.
func lackFor(v *fairshare.Verdict) *coordinator.QuotaLack {
	return &coordinator.QuotaLack{Node: v.Node, Dimension: v.Dimension, Limit: v.Limit.String(), RetryAt: v.RetryAt, Text: describeLack(v)}
}
