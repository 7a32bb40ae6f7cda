package llmcalls

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// Route is one of several models that a call, or a task, may go to.
type Route struct {
	Service coordinator.Service
	// Charge, Path and Verdict are what it would be charged there, where, and whether there is room for it.
	Charge  fairshare.Charge
	Path    fairshare.Path
	Verdict fairshare.Verdict
	// Beside is why what goes with it cannot go to the same provider now or, Never, at all; nil: it could.
	Beside *coordinator.QuotaLack
	Never  bool
}

// Choose finds the route that a call, or a task, takes: the best by its score of those that have quota
// for it now, the earlier one of equals; else the first of those that it may ask again. Scores compare
// what is left, prices, latency and success of these few with each other. Where nothing is known of a
// pool yet it counts as answering as fast as the fastest, and always: else it would never be tried.
func Choose(now time.Time, l *fairshare.Ledger, routes []Route) (best int, scores []coordinator.RouteScore) {
	scores = make([]coordinator.RouteScore, len(routes))
	facts := make([]routeFacts, len(routes))
	for i := range routes {
		facts[i] = lookAlong(now, l, &routes[i], &scores[i])
	}
	score(facts, scores, l.RouteWeights())
	for i := range scores {
		if better(&scores[i], &scores[best], facts[i].never, facts[best].never) {
			best = i
		}
	}
	scores[best].Chosen = scores[best].Lacks == nil
	return best, scores
}

// routeFacts are what a route is judged by.
type routeFacts struct {
	left          float64 // 0 to 1
	cost, latency int64   // micro-USD, ns; 0: not known
	success       float64
	never         bool // there is no room for it, and never will be
}

// lookAlong finds the facts of one route.
func lookAlong(now time.Time, l *fairshare.Ledger, to *Route, r *coordinator.RouteScore) routeFacts {
	r.Service, r.Pool = to.Service, l.PoolOf(&to.Charge)
	f := routeFacts{left: 1, cost: to.Charge.Amounts[coordinator.DimCost], success: 1}
	if r.Lacks, f.never = to.Beside, to.Never; !to.Verdict.OK {
		r.Lacks, f.never = to.Verdict.Lack(), to.Verdict.Permanent
	}
	for _, limit := range l.Left(now, &to.Path, &to.Charge.Amounts, &to.Verdict) {
		f.left = min(f.left, float64(limit.Left)/float64(max(1, limit.Most)))
	}
	h := l.HealthOf(&to.Charge)
	if f.left *= float64(h.PerMille) / 1000; h.Calls > 0 {
		f.success, f.latency = float64(h.Success)/1e6, int64(h.Latency)
	}
	return f
}

// better reports whether one route goes before an earlier one. never: it lacks what it will never have.
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

// score compares routes.
func score(facts []routeFacts, routes []coordinator.RouteScore, w coordinator.RouteTerms) {
	cheapest, fastest := int64(0), int64(0)
	for _, f := range facts {
		cheapest, fastest = leastKnown(cheapest, f.cost), leastKnown(fastest, f.latency)
	}
	all := w.Remaining + w.Price + w.Latency + w.Success
	for i, f := range facts {
		t := &routes[i].Terms
		t.Remaining, t.Success = min(1, f.left), f.success
		t.Price, t.Latency = compared(cheapest, f.cost), compared(fastest, f.latency)
		if all > 0 {
			routes[i].Score = (w.Remaining*t.Remaining + w.Price*t.Price + w.Latency*t.Latency + w.Success*t.Success) / all
		}
	}
}

// leastKnown returns the smaller of two numbers above 0.
func leastKnown(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// compared returns how x compares with the least one; 1: it is that, or not known.
func compared(least, x int64) float64 {
	if x <= 0 {
		return 1
	}
	return float64(least) / float64(x)
}

// Expand puts the keys of a provider, each a pool of its own, in the place of its name.
func Expand(l *fairshare.Ledger, routes []coordinator.Service) (all []coordinator.Service) {
	for _, s := range routes {
		keys := l.Keys(s.Provider)
		if len(keys) == 0 {
			all = append(all, s)
		}
		for _, key := range keys {
			all = append(all, coordinator.Service{Provider: key, Model: s.Model})
		}
	}
	return all
}

// route finds where the i-th call goes that is asked about; false: it has no choice. Parts that are
// asked about together are parts of one call, which is made with one key: they go where the first of
// them went that is for this provider.
func (x *Leases) route(
	now time.Time, calls []coordinator.Call, answers []coordinator.CallAnswer, i int,
) (to coordinator.Service, chosen bool) {
	c := &calls[i]
	named, services := x.servicesOf(c)
	if len(services) == 0 {
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
		if Asks(o.Op) && a.Pool == "" && x.serviceOf(o).Provider == named.Provider {
			beside = append(beside, o)
		}
	}
	routes := x.along(now, c, services, true)
	for k := range routes {
		if r := &routes[k]; r.Verdict.OK {
			r.Beside, r.Never = x.besideLacks(now, beside, r.Service.Provider)
		}
	}
	var best int
	best, answers[i].Routes = Choose(now, x.ledger, routes)
	return services[best], true
}

// along returns the routes of a call to these models. Nothing is set aside.
func (x *Leases) along(
	now time.Time, c *coordinator.Call, services []coordinator.Service, keep bool,
) []Route {
	routes := make([]Route, len(services))
	for i, s := range services {
		x.checkAlong(now, c, s, &routes[i], keep)
	}
	return routes
}

// checkAlong finds what a call would be charged if it went there, and whether there is room for it.
func (x *Leases) checkAlong(
	now time.Time, c *coordinator.Call, s coordinator.Service, r *Route, keep bool,
) {
	one := sentTo(c, s)
	r.Service = s
	r.Charge, _ = x.callCharge(&one)
	one.Op = coordinator.CallCheck // what it would be charged has been found out
	r.Path = x.ledger.PathOf(&r.Charge)
	r.Verdict = x.askLedger(now, &one, &r.Charge, &r.Path, keep)
}

// besideLacks returns why the parts of a call cannot go to that provider now, or never; nil: they could.
func (x *Leases) besideLacks(now time.Time, parts []*coordinator.Call, provider string) (*coordinator.QuotaLack, bool) {
	for _, o := range parts {
		var r Route
		s := coordinator.Service{Provider: provider, Model: x.serviceOf(o).Model}
		if x.checkAlong(now, o, s, &r, true); !r.Verdict.OK {
			return r.Verdict.Lack(), r.Verdict.Permanent
		}
	}
	return nil, false
}

// serviceOf returns the provider and model that a call names, or that its group's calls go to.
func (x *Leases) serviceOf(c *coordinator.Call) coordinator.Service {
	group, _ := x.ledger.GroupOfCall(c)
	return x.ledger.ServiceOf(group, &c.Usage)
}

// servicesOf returns the models that a call may go to, each in one pool: those of its list, or the model
// that it names with each of the keys that its provider has; nil: there is one alone.
func (x *Leases) servicesOf(c *coordinator.Call) (named coordinator.Service, services []coordinator.Service) {
	switch l := x.ledger; {
	case !l.Installed():
		return named, nil
	case len(c.Routes) > 0:
		return named, Expand(l, c.Routes)
	case !l.AnyKeys():
		return named, nil
	default:
		if named = x.serviceOf(c); len(l.Keys(named.Provider)) < 2 {
			return named, nil
		}
		return named, Expand(l, []coordinator.Service{named})
	}
}

// sentTo returns a call that goes to that model.
func sentTo(c *coordinator.Call, s coordinator.Service) coordinator.Call {
	one := *c
	one.Usage.Provider, one.Usage.Model = s.Provider, s.Model
	return one
}

// Judged is how a call stands with the models that it may go to.
type Judged struct {
	Route  // the one that it would take
	Scores []coordinator.RouteScore
	// Explanation of that route by the ledger alone, whatever waits.
	Explanation fairshare.Explanation
}

// Judge finds where a call that may go to several models would go now. Nothing of it is kept.
func (x *Leases) Judge(now time.Time, c *coordinator.Call) Judged {
	l, services := x.ledger, Expand(x.ledger, c.Routes)
	routes := x.along(now, c, services, false)
	best, scores := Choose(now, l, routes)
	r := routes[best]
	return Judged{Route: r, Scores: scores, Explanation: l.Explain(now, &r.Path, &r.Charge)}
}
