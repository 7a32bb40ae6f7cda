package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
)

// The labels of quotas are bounded: MaxQuotaNodes nodes have series, those nearest to the
// roots (whatever is below them is counted in them), and maxQuotaGroups groups, the rest
// together as `other`, which also stands for the groups that quotas.yaml does not list.
const (
	MaxQuotaNodes  = 1000
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

// QuotaDescs describe what [Quotas.Collect] gives.
var QuotaDescs = []*prometheus.Desc{
	descQuotaUsed, descQuotaReserved, descQuotaLimit, descQuotaBorrowed, descQuotaLent, descQuotaDebt, descQuotaBucket,
	descQuotaOwed,
	descQuotaWaiting, descQuotaParked, descQuotaShare, descQuotaTarget, descQuotaRefusals, descQuotaError,
	descQuotaDropped, descQuotaControls,
	descPoolBlocked, descPoolRate, descPoolLatency, descPoolSuccess,
}

// Quotas are how quotas stand.
type Quotas struct {
	engine.QuotaSnapshot
	At                  time.Time // of the snapshot
	Standing, Suspended int       // controls
}

// Collect gives them to a scrape.
func (q *Quotas) Collect(ch chan<- prometheus.Metric) {
	emit := emitTo(ch, descQuotaRefusals)
	emit(descQuotaDropped, float64(q.All-len(q.Nodes)))
	for i := range q.Nodes {
		collectQuotaNode(&q.Nodes[i], emit)
		collectPool(&q.Nodes[i], q.At, emit)
	}
	collectQuotaGroups(q.Groups, emit)
	for limit := fairshare.LimitBudget; limit <= fairshare.LimitSeats; limit++ {
		for d, n := range q.Refused[limit] {
			if n > 0 {
				emit(descQuotaRefusals, float64(n), limit.String(), coordinator.Dimension(d).String())
			}
		}
	}
	if q.Used > 0 {
		emit(descQuotaError, float64(q.Reserved)/float64(q.Used)-1)
	}
	emit(descQuotaControls, float64(q.Standing), "standing")
	emit(descQuotaControls, float64(q.Suspended), "suspended")
}

func collectQuotaNode(n *fairshare.NodeView, emit emitter) {
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
func collectQuotaGroups(groups []engine.QuotaGroup, emit emitter) {
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
		if g.Name != fairqueue.OtherGroup && given < maxQuotaGroups {
			given++
			one(g)
			continue
		}
		other.Waiting, other.Parked = other.Waiting+g.Waiting, other.Parked+g.Parked
		other.Share, other.Target = other.Share+g.Share, other.Target+g.Target
	}
	other.Name = fairqueue.OtherGroup
	one(&other)
}
