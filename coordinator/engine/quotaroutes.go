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
	x := e.calls.Judge(now, &c)
	group := cmp.Or(question.Group, x.Charge.Group)
	a = QuotaAnswer{
		Known: group == "" || e.quotas.shares.Name(e.quotas.shares.Leaf(group)) == group, Group: group,
		Provider: x.Charge.Provider, Model: x.Charge.Model, Amounts: x.Charge.Amounts,
		Nodes: l.Chain(&x.Path), Explanation: x.Explanation, Routes: x.Scores, Weights: l.RouteWeights(),
	}
	if x.Verdict.OK {
		return a
	}
	if a.Lack = x.Verdict.Describe(); a.Explanation.Verdict.OK { // there is enough, and it is others' turn
		a.Lack += "; tasks wait for it, and go first"
	}
	a.Explanation.Verdict = x.Verdict
	return a
}
