package service

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare"
)

// The labels of quotas are bounded: maxQuotaNodes nodes have series, those nearest to the
// roots (whatever is below them is counted in them), and maxQuotaGroups groups, the rest
// together as `other`, which also stands for the groups that quotas.yaml does not list.
const (
	maxQuotaNodes  = 1000
	maxQuotaGroups = 200
)

// The metrics of quotas. Costs are in US dollars.
var (
	descQuotaUsed = quotaDesc("quota_used",
		"Used of a budget in its period; of concurrency, what runs.")
	descQuotaReserved = quotaDesc("quota_reserved", "Set aside of a budget for what runs.")
	descQuotaLimit    = quotaDesc("quota_limit",
		"What may be used of a budget: its own and borrowed, less lent; of concurrency, its own.")
	descQuotaBorrowed = quotaDesc("quota_borrowed", "What a budget has borrowed in its period.")
	descQuotaLent     = quotaDesc("quota_lent", "What a budget has lent in its period.")
	descQuotaDebt     = quotaDesc("quota_debt",
		"What a budget is overdrawn by, and what it gives up for the period before.")
	descQuotaBucket = quotaDesc("quota_bucket_remaining", "What may be taken of a rate now.")
	descQuotaOwed   = quotaDesc("quota_bucket_debt",
		"Used beyond a rate: so much must flow in before anything passes.")

	descQuotaWaiting = desc("quota_waiting", "Tasks of a group that wait for an agent or for quota.", "group")
	descQuotaParked  = desc("quota_waiting_for_quota", "Of them for quota.", "group")
	descQuotaShare   = desc("quota_share",
		"The group's part of the cost dispatched in the last minute or two.", "group")
	descQuotaTarget = desc("quota_target_share",
		"What its weight gives it among the groups that wait or had a part.", "group")
	descQuotaRefusals = desc("quota_refusals_total",
		"Tasks refused by a limit (budget, rate, seats), with each try.", "limit", "dimension")
	descQuotaError = desc("quota_estimate_error",
		"Tokens set aside over tokens used, less 1, of the last minute or two.")
	descQuotaControls = desc("quota_controls",
		"Changes to quotas.yaml: standing, or suspended because they do not fit the file.", "state")
	descQuotaDropped = desc("quota_series_dropped",
		"Nodes without series beyond 1000: first agents', then groups', then models'.")
)

func quotaDesc(name, help string) *prometheus.Desc {
	return desc(name, help, "node", "dimension")
}

// quotaCollector reads the quotas at each scrape.
type quotaCollector struct{ s *Service }

func (c *quotaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descQuotaUsed, descQuotaReserved, descQuotaLimit, descQuotaBorrowed, descQuotaLent, descQuotaDebt, descQuotaBucket,
		descQuotaOwed,
		descQuotaWaiting, descQuotaParked, descQuotaShare, descQuotaTarget, descQuotaRefusals, descQuotaError,
		descQuotaDropped, descQuotaControls,
		descPoolBlocked, descPoolRate, descPoolLatency, descPoolSuccess,
	} {
		ch <- d
	}
}

func (c *quotaCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var snap engine.QuotaSnapshot
	var at time.Time
	if err := c.s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
		snap, at = quotasForMetrics(now, e),
			now
	}); err != nil || !snap.Installed {
		return // the process is stopping: a gap says so; or there are no quotas
	}
	emit := gaugesTo(ch, descQuotaRefusals)
	collectQuotas(&snap, emit)
	for i := range snap.Nodes {
		collectPool(&snap.Nodes[i], at, emit)
	}
	now := c.s.controlled()
	emit(descQuotaControls, float64(len(now.standing)-len(now.suspended)), "standing")
	emit(descQuotaControls, float64(len(now.suspended)), "suspended")
}

// quotasForMetrics returns all nodes or, where these are too many, those of the kinds that are
// nearest to the roots.
func quotasForMetrics(now time.Time, e *engine.Engine) engine.QuotaSnapshot {
	for kind, all := coordinator.QuotaAgent, 0; ; kind-- {
		snap := e.Quotas(now, maxQuotaNodes, func(n *coordinator.QuotaNode, _ string) bool { return n.Kind <= kind })
		all = max(all, snap.All)
		if snap.All <= maxQuotaNodes || kind == coordinator.QuotaPool {
			snap.All = all
			return snap
		}
	}
}

func collectQuotas(snap *engine.QuotaSnapshot, emit gauges) {
	emit(descQuotaDropped, float64(snap.All-len(snap.Nodes)))
	for i := range snap.Nodes {
		collectQuotaNode(&snap.Nodes[i], emit)
	}
	collectQuotaGroups(snap.Groups, emit)
	for limit := fairshare.LimitBudget; limit <= fairshare.LimitSeats; limit++ {
		for d, n := range snap.Refused[limit] {
			if n > 0 {
				emit(descQuotaRefusals, float64(n), limit.String(), coordinator.Dimension(d).String())
			}
		}
	}
	if snap.Used > 0 {
		emit(descQuotaError, float64(snap.Reserved)/float64(snap.Used)-1)
	}
}

func collectQuotaNode(n *fairshare.NodeView, emit gauges) {
	for _, b := range n.Budgets {
		labels := []string{n.ID, b.Dimension.String()}
		emit(descQuotaUsed, b.Dimension.Shown(b.Used), labels...)
		emit(descQuotaReserved, b.Dimension.Shown(b.Reserved), labels...)
		emit(descQuotaLimit, b.Dimension.Shown(b.Cap), labels...)
		emit(descQuotaBorrowed, b.Dimension.Shown(b.Borrowed), labels...)
		emit(descQuotaLent, b.Dimension.Shown(b.Lent), labels...)
		emit(descQuotaDebt, b.Dimension.Shown(b.Debt), labels...)
	}
	for _, r := range n.Rates {
		emit(descQuotaBucket, r.Dimension.Shown(r.Remaining), n.ID, r.Dimension.String())
		emit(descQuotaOwed, r.Dimension.Shown(r.Debt), n.ID, r.Dimension.String())
	}
	if c := n.Seats; c != nil {
		labels := []string{n.ID, coordinator.DimConcurrency.String()}
		emit(descQuotaUsed, float64(c.Running), labels...)
		emit(descQuotaLimit, float64(c.Nominal), labels...)
	}
}

// collectQuotaGroups gives the first groups by their names, and the rest as one.
func collectQuotaGroups(groups []engine.QuotaGroup, emit gauges) {
	var other engine.QuotaGroup
	one := func(g *engine.QuotaGroup) {
		emit(descQuotaWaiting, float64(g.Waiting), g.Name)
		emit(descQuotaParked, float64(g.Parked), g.Name)
		emit(descQuotaShare, g.Share, g.Name)
		emit(descQuotaTarget, g.Target, g.Name)
	}
	given := 0
	for i := range groups {
		g := &groups[i]
		if g.Name != fairshare.OtherGroup && given < maxQuotaGroups {
			given++
			one(g)
			continue
		}
		other.Waiting, other.Parked = other.Waiting+g.Waiting, other.Parked+g.Parked
		other.Share, other.Target = other.Share+g.Share, other.Target+g.Target
	}
	other.Name = fairshare.OtherGroup
	one(&other)
}
