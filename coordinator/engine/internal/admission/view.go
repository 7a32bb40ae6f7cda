package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/flow"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/llmcalls"
)

// Snapshot is what readers want to see of quotas. It shares nothing with the engine.
type Snapshot struct {
	// Installed is false where there are no quotas; the rest is then empty.
	Installed bool
	// Nodes that were asked for, parents before children, and how many there are of these
	// in All.
	Nodes []fairshare.NodeView
	All   int
	// Groups by the shares of which tasks take turns, sorted by name; fairqueue.OtherGroup among
	// them.
	Groups []Group
	// Rate is the cost that was dispatched in a second, of late (see fairshare.Ledger.Weigh).
	Rate float64
	// Reserved and Used tokens of the tasks with usage reported of late.
	Reserved, Used int64
	Refused        Refusals
}

// Group is one group as far as turns are concerned.
type Group struct {
	Name string
	// Waiting tasks, and how many of them for quota.
	Waiting, Parked int
	// Share is which part of the cost of the last minute or two was the group's, 0 to 1.
	// Target is which part its weight gives it among the groups that wait or had a part.
	Share, Target float64
}

// groups returns the groups by the shares of which tasks take turns.
func (q *Quotas) groups(lately *flow.Flow, waiting Waiting) (all []Group) {
	waits, parked := waiting.ByLeaf(q.Shares.Leaves())
	part := func(leaf int) float64 { return lately.Part(q.Shares.Name(leaf)) }
	targets := q.Shares.Parts(func(leaf int) bool { return waits[leaf] > 0 || part(leaf) > 0 })
	for leaf := range q.Shares.Leaves() {
		if q.Shares.IsLeaf(leaf) {
			all = append(all, Group{
				Name: q.Shares.Name(leaf), Waiting: waits[leaf], Parked: parked[leaf], Share: part(leaf), Target: targets[leaf],
			})
		}
	}
	slices.SortFunc(all, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Question is a task, or call, that is asked about.
type Question struct {
	Group string
	// Agent that would have it; empty: one without quota of its own.
	Agent coordinator.AgentID
	Type  string
	// Usage as a producer states it; what it does not state is estimated.
	Usage       coordinator.Usage
	NoBorrowing bool
	// Routes are the models that a call may go to, instead of the one that Usage names: then it is a
	// call's question, as one with priority 1 asks it through a gateway, and not a task's.
	Routes []coordinator.Service
}

// Answer is what would become of it now.
type Answer struct {
	// Known is false for a group that there is not: it is charged to the pools alone, or refused if Unlisted
	// says why.
	Known           bool
	Unlisted        string
	Group           string // that a call would be charged to
	Provider, Model string // that it would be charged to; empty: none
	Amounts         coordinator.Amounts
	// Nodes that it would be charged to, of each tree from the leaf to the root.
	Nodes       []string
	Explanation fairshare.Explanation
	Lack        string // for readers; empty: there is quota
	// Routes as they were judged, by these weights. What else is said is of the one that it would go
	// to, or may be asked again first.
	Routes  []coordinator.RouteScore
	Weights coordinator.RouteTerms
}

// explain is Reader.Explain, as of at.
func (q *Quotas) explain(at time.Time, calls *llmcalls.Leases, question *Question) (a Answer) {
	if len(question.Routes) > 0 {
		a = q.explainRoutes(at, calls, question)
		a.Unlisted = q.Ledger.UnlistedTask(question.Group)
		return a
	}
	c, _ := q.Ledger.Demand(question.Group, question.Type, &question.Usage, false, q.Estimator)
	c.Agent, c.NoBorrowing = question.Agent, question.NoBorrowing
	p := q.Ledger.PathOf(&c)
	a = Answer{
		Known: q.knows(question.Group), Provider: c.Provider, Model: c.Model, Amounts: c.Amounts,
		Nodes: q.Ledger.Chain(&p), Explanation: q.Ledger.Explain(at, &p, &c),
		Unlisted: q.Ledger.UnlistedTask(question.Group),
	}
	if v := &a.Explanation.Verdict; !v.OK {
		a.Lack = v.Describe()
	}
	return a
}

// knows reports whether there is a group of that name; "" is none, and known.
func (q *Quotas) knows(group string) bool {
	return group == "" || q.Shares.Name(q.Shares.Leaf(group)) == group
}

// explainRoutes is explain of a call that may go to several models: it is judged as if it were asked for, and
// nothing of that is kept.
func (q *Quotas) explainRoutes(at time.Time, calls *llmcalls.Leases, question *Question) (a Answer) {
	c := coordinator.Call{
		Op: coordinator.CallCheck, Agent: question.Agent, Group: question.Group, Operation: question.Type,
		Usage: question.Usage, Seats: 1,
		NoBorrowing: question.NoBorrowing, Priority: coordinator.PriorityNormal, Routes: question.Routes,
	}
	x := calls.Judge(at, &c)
	group := cmp.Or(question.Group, x.Charge.Group)
	a = Answer{
		Known: q.knows(group), Group: group,
		Provider: x.Charge.Provider, Model: x.Charge.Model, Amounts: x.Charge.Amounts,
		Nodes: q.Ledger.Chain(&x.Path), Explanation: x.Explanation, Routes: x.Scores, Weights: q.Ledger.RouteWeights(),
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
