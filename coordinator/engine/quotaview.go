package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare"
)

// QuotaSnapshot is what readers want to see of quotas. It shares nothing with the engine.
type QuotaSnapshot struct {
	// Installed is false where there are no quotas; the rest is then empty.
	Installed bool
	// Nodes that were asked for, parents before children, and how many there are of these
	// in All.
	Nodes []fairshare.NodeView
	All   int
	// Groups by whose shares tasks take turns, sorted by name; fairshare.OtherGroup among
	// them.
	Groups []QuotaGroup
	// Rate is the cost that was dispatched in a second, of late (see fairshare.Ledger.Weigh).
	Rate float64
	// Reserved and Used tokens of the tasks whose usage was reported of late.
	Reserved, Used int64
	Refused        QuotaRefusals
}

// QuotaGroup is one group as far as turns are concerned.
type QuotaGroup struct {
	Name string
	// Waiting tasks, and how many of them for quota.
	Waiting, Parked int
	// Share is which part of the cost of the last minute or two was the group's, 0 to 1.
	// Target is which part its weight gives it among the groups that wait or had a part.
	Share, Target float64
}

// QuotasMissing reports whether there are no quotas although leaders before had some, of which something
// is still known.
func (e *Engine) QuotasMissing() bool {
	return !e.quotas.ledger.Installed() && e.quotas.ledger.Remembers()
}

// Quotas copies what readers want to see of quotas: at most most of the nodes that are
// wanted (nil: all). Nothing changes but the time. It takes O(nodes + groups + leaves that
// wait in all classes), whatever waits there. An engine that follows tells how it was when
// the latest record was made.
func (e *Engine) Quotas(now time.Time, most int,
	wanted func(n *coordinator.QuotaNode, provider string) bool) QuotaSnapshot {
	q := &e.quotas
	if !q.ledger.Installed() {
		return QuotaSnapshot{}
	}
	if wanted == nil {
		wanted = func(*coordinator.QuotaNode, string) bool { return true }
	}
	s := QuotaSnapshot{Installed: true, Rate: q.flow.rate(now), Groups: e.quotaGroups(), Refused: q.flow.refused}
	s.Reserved, s.Used = q.flow.reserved.sum(), q.flow.used.sum()
	s.Nodes, s.All = q.ledger.ViewOf(e.quotaTime(now), most, wanted)
	return s
}

// QuotaPage is Quotas for at most most of all nodes, from the one behind that of an ID on; only the first
// page, without one, has the rest. It takes O(most) else. more: there are nodes behind these; ok is
// false where there is no node of that ID.
func (e *Engine) QuotaPage(now time.Time, after string, most int) (s QuotaSnapshot, more, ok bool) {
	if !e.quotas.ledger.Installed() {
		return s, false, true
	}
	if after == "" {
		s = e.Quotas(now, 0, func(*coordinator.QuotaNode, string) bool { return false })
	}
	s.Installed = true
	s.Nodes, s.All, more, ok = e.quotas.ledger.Page(e.quotaTime(now), after, most)
	return s, more, ok
}

// HasQuotas reports whether there are any.
func (e *Engine) HasQuotas() bool { return e.quotas.ledger.Installed() }

// QuotaIDs names the nodes that are wanted, parents before children. It takes O(nodes), and copies none.
func (e *Engine) QuotaIDs(wanted func(n *coordinator.QuotaNode, provider string) bool) []string {
	return e.quotas.ledger.IDs(wanted)
}

// QuotaNodes copies the nodes of these IDs, as far as there are any. It takes O(IDs).
func (e *Engine) QuotaNodes(now time.Time, ids []string) (nodes []fairshare.NodeView) {
	at := e.quotaTime(now)
	for _, id := range ids {
		if n, ok := e.quotas.ledger.Node(at, id); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// quotaTime is when the ledger is to be read, or goes on under other quotas: one that follows must not get ahead of
// what it
// folds, or it would count it in another period than the leader does.
func (e *Engine) quotaTime(now time.Time) time.Time {
	if e.following && !e.quotas.ledger.Fresh() {
		return e.quotas.ledger.Now()
	}
	return now
}

// quotaGroups are the groups by whose shares tasks take turns.
func (e *Engine) quotaGroups() []QuotaGroup {
	q := &e.quotas
	waiting, parked := make([]int, q.shares.Leaves()), make([]int, q.shares.Leaves())
	for _, c := range e.pending.Active() {
		c.Waiting.Leaves(func(leaf, _, n int, isParked bool) {
			waiting[leaf] += n
			if isParked || c.Parked(-1) {
				parked[leaf] += n
			}
		})
	}
	parts := q.shares.Parts(func(leaf int) bool { return waiting[leaf] > 0 || q.flow.part(q.shares.Name(leaf)) > 0 })
	var groups []QuotaGroup
	for leaf := range q.shares.Leaves() {
		if q.shares.IsLeaf(leaf) {
			name := q.shares.Name(leaf)
			groups = append(groups, QuotaGroup{
				Name: name, Waiting: waiting[leaf], Parked: parked[leaf], Share: q.flow.part(name), Target: parts[leaf],
			})
		}
	}
	slices.SortFunc(groups, func(a, b QuotaGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// QuotaQuestion is a task, or call, that is asked about.
type QuotaQuestion struct {
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

// QuotaAnswer is what would become of it now.
type QuotaAnswer struct {
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
	Lack        string // for people; empty: there is quota
	// Routes as they were judged, by these weights. What else is said is of the one that it would go
	// to, or may be asked again first.
	Routes  []coordinator.RouteScore
	Weights coordinator.RouteTerms
}

// ExplainQuota is whether there is quota for something now, and what is left of every
// limit that it meets. Nothing is charged. ok is false where there are no quotas.
func (e *Engine) ExplainQuota(now time.Time, question *QuotaQuestion) (a QuotaAnswer, ok bool) {
	e.quotas.ledger.Looking(true)
	defer e.quotas.ledger.Looking(false)
	q := &e.quotas
	if !q.ledger.Installed() {
		return a, false
	}
	if len(question.Routes) > 0 {
		a = e.explainRoutes(e.quotaTime(now), question)
		a.Unlisted = q.ledger.UnlistedTask(question.Group)
		return a, true
	}
	c, _ := q.ledger.Demand(question.Group, question.Type, &question.Usage, false, q.estimator)
	c.Agent, c.NoBorrowing = question.Agent, question.NoBorrowing
	p := q.ledger.PathOf(&c)
	leaf := q.shares.Leaf(question.Group)
	a = QuotaAnswer{
		Known: question.Group == "" || q.shares.Name(leaf) == question.Group, Provider: c.Provider, Model: c.Model,
		Amounts: c.Amounts,
		Nodes:   q.ledger.Chain(&p), Explanation: q.ledger.Explain(e.quotaTime(now), &p, &c),
		Unlisted: q.ledger.UnlistedTask(question.Group),
	}
	if v := &a.Explanation.Verdict; !v.OK {
		a.Lack = v.Describe()
	}
	return a, true
}

// explainRoutes is ExplainQuota of a call that may go to several models: it is judged as if it were
// asked for, and nothing of that is kept.
func (e *Engine) explainRoutes(now time.Time, question *QuotaQuestion) (a QuotaAnswer) {
	l := e.quotas.ledger
	c := coordinator.Call{
		Op: coordinator.CallCheck, Agent: question.Agent, Group: question.Group, Operation: question.Type,
		Usage: question.Usage, Seats: 1,
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

// explainLack adds to how a task would be decided, or why it waits, what quota it lacks, with the
// reason for which it waits or fails then. open is the task if it is open, else nil; chosen who it
// would go to but for quota.
func (e *Engine) explainLack(now time.Time, t, open *openTask, chosen *agent,
	d *coordinator.Decision) (coordinator.Reason, string) {
	lacks, able := e.lackOf(e.quotaTime(now), t, open)
	switch {
	case lacks == nil && able != nil && !able.Has(chosen.Number) && !t.asks(): // it has none of its own, and others have
		if a, choice := e.chooseAmong(t, able); a != nil {
			d.Agent, d.Preferred, d.Explored = choice.Agent, choice.Preferred, choice.Explored
		}
		return coordinator.ReasonNone, ""
	case lacks == nil:
		return coordinator.ReasonNone, ""
	case lacks.Permanent:
		d.Agent = ""
		return coordinator.ReasonExceedsQuota, lacks.Describe()
	}
	d.Lacks = lacks.Lack()
	return coordinator.ReasonQuotaExhausted, d.Lacks.Text
}

// lackOf tells what quota keeps the task waiting, or would; nil: none does. able are then the
// agents that have enough of their own, nil: it makes no difference.
func (e *Engine) lackOf(now time.Time, t, open *openTask) (lacks *fairshare.Verdict, able agentset.Set) {
	if e.quotaDemand(t) == nil || open != nil && open.quota != nil && open.quota.open { // it has what it needs
		return nil, nil
	}
	if w := e.waitOf(open); w != nil {
		return &w.Lacks, nil
	}
	able, lacks, _ = e.checkQuota(now, t)
	switch behind := open == nil && e.waitsForQuota(t); {
	case behind && (able != nil || lacks == nil || !lacks.Permanent):
		return &e.waitAt(t.needs.class, e.leafOf(t)).Lacks, nil
	case able != nil:
		return nil, able
	}
	return lacks, nil
}
