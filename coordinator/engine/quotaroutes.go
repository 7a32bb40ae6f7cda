package engine

import (
	"cmp"
	"time"

	"taskbus/coordinator"
)

// explainRoutes is ExplainQuota of a call that may go to several models: it is judged as if it were
// asked for, and nothing of that is kept.
func (e *Engine) explainRoutes(now time.Time, question *QuotaQuestion) (a QuotaAnswer) {
	l := e.quotas.ledger
	c := coordinator.Call{
		Op: coordinator.CallCheck, Agent: question.Agent, Group: question.Group, Operation: question.Type, Usage: question.Usage, Seats: 1,
		NoBorrowing: question.NoBorrowing, Priority: coordinator.PriorityNormal, Routes: question.Routes,
	}
	routes := e.expand(c.Routes)
	for _, s := range routes {
		one := sentTo(&c, s)
		charge, _ := e.callCharge(&one)
		path := l.PathOf(&charge)
		defer l.KeepKnown(&path)()
	}
	var judged coordinator.CallAnswer
	to := e.chooseRoute(now, routes, e.callsCheck(now, &c), nil, &judged.Routes)
	charge, path, v := e.checkAlong(now, &c, routes[to])
	group := cmp.Or(question.Group, charge.Group)
	a = QuotaAnswer{
		Known: group == "" || e.quotas.shares.Name(e.quotas.shares.Leaf(group)) == group, Group: group, Provider: charge.Provider, Model: charge.Model,
		Amounts: charge.Amounts, Nodes: l.Chain(&path), Explanation: l.Explain(now, &path, &charge),
		Routes: judged.Routes, Weights: l.RouteWeights(),
	}
	if v.OK {
		return a
	}
	if a.Lack = describeLack(&v); a.Explanation.Verdict.OK { // there is enough, and it is others' turn
		a.Lack += "; tasks wait for it, and go first"
	}
	a.Explanation.Verdict = v
	return a
}
