package reading

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// Quotas returns what is used of the LLM quotas (see httpapi.Source). One that stands by reports
// what the journal has said so far.
func (r *Reader) Quotas(ctx context.Context, of view.QuotaSelection) (view.Quotas, error) {
	if of == (view.QuotaSelection{Limit: of.Limit, After: of.After}) {
		return r.quotaPages(ctx, of)
	}
	var snap engine.QuotaSnapshot
	var ids []string
	err := r.Query(ctx, func(now time.Time, e *engine.Engine) {
		ids = quotaIDs(now, e, of)
		if of.Group != "" { // and how its turns stand
			snap = e.Quotas(now).Snapshot(0, func(*coordinator.QuotaNode, string) bool { return false })
		}
		snap.Installed, snap.All = e.Quotas(now).Installed(), len(ids)
	})
	for ids = ids[:min(len(ids), of.Limit)]; err == nil && len(ids) > 0; {
		some := ids[:min(len(ids), quotaPage)]
		ids = ids[len(some):]
		err = r.Query(ctx, func(now time.Time, e *engine.Engine) {
			snap.Nodes = append(snap.Nodes, e.Quotas(now).Nodes(some)...)
		})
	}
	switch {
	case err != nil:
		return view.Quotas{}, fmt.Errorf("ask the engine for the quotas: %w", err)
	case !snap.Installed:
		return view.Quotas{}, httpapi.ErrNoQuotas
	}
	return quotasOf(&snap), nil
}

// quotaIDs names the nodes that are asked for, and those that go with them: the agents of a group, the
// groups of an agent.
func quotaIDs(now time.Time, e *engine.Engine, of view.QuotaSelection) []string {
	switch {
	case of.Node != "":
		return []string{of.Node}
	case of.Provider != "":
		return e.Quotas(now).IDs(func(_ *coordinator.QuotaNode, pool string) bool {
			return coordinator.StandsFor(of.Provider,
				pool)
		})
	}
	found := make(map[string]bool)
	e.Quotas(now).IDs(func(n *coordinator.QuotaNode, _ string) bool {
		switch {
		case of.Group != "" && n.Kind == coordinator.QuotaGroup && n.Name == of.Group:
			found[n.ID] = true
		case of.Agent != "" && n.Kind == coordinator.QuotaAgent && n.Name == of.Agent:
			found[n.ID], found[above(n)] = true, true
		}
		return false
	})
	return e.Quotas(now).IDs(func(n *coordinator.QuotaNode, _ string) bool {
		return found[n.ID] || of.Group != "" && n.Kind == coordinator.QuotaAgent && found[above(n)]
	})
}

// above returns the ID of the node above that of an agent. The name of an agent has no slash.
func above(n *coordinator.QuotaNode) string { return n.ID[:max(0, strings.LastIndexByte(n.ID, '/'))] }

// quotaPage is how many nodes are read in one turn of the loop: about a millisecond.
const quotaPage = 500

// quotaPages reads the nodes page by page: between two of them the loop does other work, so that the
// numbers of a large answer are of moments that follow each other.
func (r *Reader) quotaPages(ctx context.Context, of view.QuotaSelection) (view.Quotas, error) {
	var all view.Quotas
	for after := of.After; ; {
		var page engine.QuotaSnapshot
		var more, known bool
		most := min(quotaPage, of.Limit-len(all.Nodes))
		err := r.Query(ctx, func(now time.Time, e *engine.Engine) { page, more, known = e.Quotas(now).Page(after, most) })
		switch {
		case err != nil:
			return view.Quotas{}, fmt.Errorf("ask the engine for the quotas: %w", err)
		case !page.Installed:
			return view.Quotas{}, httpapi.ErrNoQuotas
		case !known && after != of.After:
			return view.Quotas{}, errQuotasChanged
		case !known:
			return view.Quotas{}, fmt.Errorf("%w: %s", httpapi.ErrNoQuota, after)
		}
		q := quotasOf(&page)
		if after == of.After {
			all = q
		} else {
			all.Nodes = append(all.Nodes, q.Nodes...)
		}
		if !more {
			return all, nil
		}
		if after = q.Nodes[len(q.Nodes)-1].ID; len(all.Nodes) == of.Limit {
			all.Next = after
			return all, nil
		}
	}
}

// nodesAtOnce is how many nodes one turn of the loop copies for [Reader.Budgets]: some milliseconds.
const nodesAtOnce = 5000

// errQuotasChanged: some nodes were copied before, and some after.
var errQuotasChanged = errors.New("the quotas have changed meanwhile")

// Budgets returns all nodes of the quota trees, parents first; none where there are no quotas. The loop
// copies them a few thousand at a time, so that tasks do not wait for it.
func (r *Reader) Budgets(ctx context.Context) (all []view.QuotaNode, err error) {
	for from, nodes := 0, -1; ; from += nodesAtOnce {
		var snap engine.QuotaSnapshot
		n := 0
		err := r.Query(ctx, func(now time.Time, e *engine.Engine) {
			snap = e.Quotas(now).Snapshot(nodesAtOnce, func(*coordinator.QuotaNode, string) bool {
				n++
				return n > from
			})
		})
		if err != nil {
			return nil, fmt.Errorf("ask the engine for the quotas: %w", err)
		}
		if nodes >= 0 && n != nodes {
			return nil, errQuotasChanged
		}
		nodes = n
		all = append(all, quotasOf(&snap).Nodes...)
		if from+nodesAtOnce >= n {
			return all, nil
		}
	}
}

func quotasOf(snap *engine.QuotaSnapshot) view.Quotas {
	q := view.Quotas{Configured: true, TotalNodes: snap.All, CostPerSecond: views.Finite(snap.Rate)}
	for i := range snap.Nodes {
		q.Nodes = append(q.Nodes, quotaNode(&snap.Nodes[i]))
	}
	for _, g := range snap.Groups {
		q.Groups = append(q.Groups, view.QuotaTurns{
			Group: g.Name, Waiting: g.Waiting, WaitingForQuota: g.Parked, Share: views.Finite(g.Share),
			TargetShare: views.Finite(g.Target),
		})
	}
	return q
}

func quotaNode(v *fairshare.NodeView) view.QuotaNode {
	n := view.QuotaNode{ID: v.ID, Kind: v.Kind.String(), Name: v.Name, Parent: v.Parent, Weight: v.Weight,
		Budgets: []view.QuotaBudget{}, Rates: []view.QuotaRate{}}
	for _, b := range v.Budgets {
		in := func(amount int64) float64 { return b.Dimension.Shown(amount) }
		n.Budgets = append(n.Budgets, view.QuotaBudget{
			Dimension: b.Dimension.String(), Limit: in(b.Nominal), Cap: in(b.Cap), Used: in(b.Used), Reserved: in(b.Reserved),
			Remaining: in(max(0, b.Cap-b.Used-b.Reserved)), Borrowed: in(b.Borrowed), Lent: in(b.Lent), Debt: in(b.Debt),
			Period: b.Period, PeriodFrom: b.Start, ResetTime: b.End,
		})
	}
	for _, r := range v.Rates {
		n.Rates = append(n.Rates, view.QuotaRate{
			Dimension: r.Dimension.String(), Amount: r.Dimension.Shown(r.Amount), PerSeconds: r.Per.Seconds(),
			Burst:     r.Dimension.Shown(r.Burst),
			Remaining: r.Dimension.Shown(r.Remaining), Ceiling: r.Dimension.Shown(r.Ceiling),
			Debt: r.Dimension.Shown(r.Debt),
		})
	}
	if c := v.Seats; c != nil {
		n.Concurrency = &view.QuotaConcurrency{Limit: c.Nominal, Running: c.Running, Available: c.Available}
	}
	if h := v.Health; h != nil {
		n.Provider = &view.ProviderHealth{
			BlockedUntil: h.BlockedUntil, RatePercent: float64(h.PerMille) / 10,
			Calls: h.Calls, SuccessPercent: float64(h.Success) / 1e4, LatencyMS: float64(h.Latency) / float64(time.Millisecond),
		}
	}
	return n
}

// ExplainQuota says whether there is quota for something now (see httpapi.Source).
func (r *Reader) ExplainQuota(ctx context.Context, q view.QuotaQuestion) (view.QuotaAnswer, error) {
	question := engine.QuotaQuestion{
		Group: q.Group, Agent: coordinator.AgentID(q.Agent), Type: q.TaskType, NoBorrowing: q.NoBorrowing,
		Usage: coordinator.Usage{Requests: q.Requests, InputTokens: q.InputTokens, OutputTokens: q.OutputTokens,
			CostUSD: q.CostUSD, Provider: q.Provider, Model: q.Model},
		Routes: q.Alternatives,
	}
	var a engine.QuotaAnswer
	var ok bool
	err := r.Query(ctx, func(now time.Time, e *engine.Engine) { a, ok = e.Quotas(now).Explain(&question) })
	switch {
	case err != nil:
		return view.QuotaAnswer{}, fmt.Errorf("ask the engine about quotas: %w", err)
	case !ok:
		return view.QuotaAnswer{}, httpapi.ErrNoQuotas
	}
	return quotaAnswer(&q, &a), nil
}

func quotaAnswer(q *view.QuotaQuestion, a *engine.QuotaAnswer) view.QuotaAnswer {
	v := &a.Explanation.Verdict
	x := view.QuotaAnswer{
		Admitted: v.OK && a.Unlisted == "", Permanent: a.Unlisted != "", Reason: quotaReason(a), Group: q.Group,
		GroupKnown: a.Known, Agent: q.Agent, Provider: a.Provider, Model: a.Model,
		Amounts: make(map[string]float64), Nodes: a.Nodes,
	}
	for d, amount := range a.Amounts {
		x.Amounts[coordinator.Dimension(d).String()] = coordinator.Dimension(d).Shown(amount)
	}
	if !v.OK {
		x.Node, x.Dimension, x.Limit = v.Node, v.Dimension.String(), v.Limit.String()
		x.Permanent, x.RetryAt = x.Permanent || v.Permanent, v.RetryAt
	}
	for _, l := range a.Explanation.Limits {
		x.Limits = append(x.Limits, view.QuotaLimit{
			Node: l.Node, Dimension: l.Dimension.String(), Limit: l.Limit.String(), Asked: l.Dimension.Shown(l.Asked),
			Left: l.Dimension.Shown(l.Left), Borrowable: l.Dimension.Shown(l.Borrowable), Refuses: l.Refuses, Binds: l.Binds,
			Renews: l.Renews,
		})
	}
	if len(a.Routes) > 0 {
		x.Group, x.Routes, x.Routing = a.Group, view.QuotaRoutesOf(a.Routes, a.Weights),
			new(view.CallRouteTerms(a.Weights))
	}
	return x
}

// quotaReason says in a sentence whether there is quota.
func quotaReason(a *engine.QuotaAnswer) string {
	switch {
	case a.Unlisted != "":
		return a.Unlisted
	case a.Lack != "" && len(a.Routes) > 1 && a.Explanation.Verdict.Permanent:
		return "none of the alternatives ever has room for it: " + a.Lack
	case a.Lack != "" && len(a.Routes) > 1:
		return "none of the alternatives has quota now; of the first to have some again " + a.Lack
	case a.Lack != "":
		return a.Lack
	case len(a.Nodes) == 0:
		return "no quota concerns it"
	case a.Explanation.Verdict.Borrowed:
		return "there is quota, some of it borrowed from shares that others leave unused"
	default:
		return "there is quota"
	}
}

// TopQuotas returns all nodes or, where these are more than most, those of the kinds that are nearest to the roots; and
// as of when.
func (r *Reader) TopQuotas(ctx context.Context, most int) (q engine.QuotaSnapshot, at time.Time, err error) {
	err = r.Query(ctx, func(now time.Time, e *engine.Engine) { q, at = topQuotas(now, e, most), now })
	return q, at, err
}

func topQuotas(now time.Time, e *engine.Engine, most int) engine.QuotaSnapshot {
	for kind, all := coordinator.QuotaAgent, 0; ; kind-- {
		snap := e.Quotas(now).Snapshot(most, func(n *coordinator.QuotaNode, _ string) bool { return n.Kind <= kind })
		all = max(all, snap.All)
		if snap.All <= most || kind == coordinator.QuotaPool {
			snap.All = all
			return snap
		}
	}
}
