package view

import (
	"taskbus/coordinator"
	"time"
)

// Quotas is the answer of /v1/quota. Amounts of cost_usd are US dollars, of everything else
// whole numbers.
type Quotas struct {
	// Configured is false where there is no quotas.yaml; the rest is then empty.
	Configured bool `json:"configured"`
	// Nodes of the trees, every parent before its children, at most as many as were asked
	// for; TotalNodes is how many there are.
	Nodes      []QuotaNode `json:"nodes"`
	TotalNodes int         `json:"total_nodes"`
	// Next is the id to ask for as `after` for the nodes behind these; empty: these are the last.
	Next string `json:"next,omitempty"`
	// Groups by whose weights waiting tasks take turns, sorted by name. Tasks of groups that
	// quotas.yaml does not list are `other`'s.
	Groups []QuotaTurns `json:"groups"`
	// Unpriced are models without a price that were named where money is limited, since this
	// coordinator began to lead, the latest first; at most 32. It is on the first page alone.
	Unpriced []UnpricedModel `json:"unpriced,omitempty"`
	// CostPerSecond is what has been dispatched lately, in units of cost.
	CostPerSecond float64 `json:"cost_per_second"`
}

// UnpricedModel is a model without a price, where Node limits money.
type UnpricedModel struct {
	// Provider and Model; both empty: none was named.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Group that has named it last; empty: none.
	Group string `json:"group,omitempty"`
	Node  string `json:"node"`
	// Refused and Admitted calls and tasks of it.
	Refused  uint64    `json:"refused"`
	Admitted uint64    `json:"admitted"`
	LastSeen time.Time `json:"last_seen"`
}

// Name is the model for people.
func (m *UnpricedModel) Name() string {
	switch {
	case m.Provider == "" && m.Model == "":
		return "an unnamed model"
	case m.Model == "":
		return m.Provider
	case m.Provider == "":
		return m.Model
	}
	return m.Provider + "/" + m.Model
}

// QuotaTurns is how a group stands in the order of waiting tasks.
type QuotaTurns struct {
	Group string `json:"group"`
	// Waiting tasks, and how many of them wait for quota.
	Waiting         int `json:"waiting"`
	WaitingForQuota int `json:"waiting_for_quota"`
	// Share is which part of the cost dispatched in the last minute or two was the group's,
	// 0 to 1; TargetShare which part its weight gives it among the groups that wait or had a
	// part.
	Share       float64 `json:"share"`
	TargetShare float64 `json:"target_share"`
}

// QuotaNode is one node of a tree.
type QuotaNode struct {
	ID   string `json:"node"`
	Kind string `json:"kind"` // pool, model, group, agent
	Name string `json:"name"`
	// Parent is the id of the node above; empty: it is the root of its tree.
	Parent string `json:"parent,omitempty"`
	Weight int64  `json:"weight"`
	// Budgets and Rates by dimension; Concurrency is nil without a limit.
	Budgets     []QuotaBudget     `json:"budgets"`
	Rates       []QuotaRate       `json:"rates"`
	Concurrency *QuotaConcurrency `json:"concurrency,omitempty"`
	// Provider is how a provider's pool, or model, stands by what calls have told of its answers;
	// nil while they have told nothing.
	Provider *ProviderHealth `json:"provider_health,omitempty"`
}

// ProviderHealth is how a provider's pool, or model, stands.
type ProviderHealth struct {
	// BlockedUntil it is left alone, because it has refused calls.
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
	// RatePercent of its rates that is used: less than 100 after it has refused calls.
	RatePercent float64 `json:"rate_percent"`
	// Calls whose answers were told of late, at most 16; SuccessPercent of them, and their mean
	// latency.
	Calls          int64   `json:"calls"`
	SuccessPercent float64 `json:"success_percent"`
	LatencyMS      float64 `json:"latency_ms"`
}

// QuotaBudget is how much may be used in a period.
type QuotaBudget struct {
	Dimension string `json:"dimension"`
	// Limit is what it has of its own; Cap what it may use in all: Limit and Borrowed, less
	// Lent. Used and Reserved never come to more than that by what is admitted.
	Limit    float64 `json:"limit"`
	Cap      float64 `json:"cap"`
	Used     float64 `json:"used"`
	Reserved float64 `json:"reserved"`
	// Remaining of the cap.
	Remaining float64 `json:"remaining"`
	Borrowed  float64 `json:"borrowed"`
	Lent      float64 `json:"lent"`
	// Debt is what it is overdrawn by, and what it gives up for the period before.
	Debt float64 `json:"debt"`
	// Period by name, such as 2026-11; ResetTime is when the next begins.
	Period     string    `json:"period"`
	PeriodFrom time.Time `json:"period_start"`
	ResetTime  time.Time `json:"reset_time"`
}

// QuotaRate is how much may be used in a short time.
type QuotaRate struct {
	Dimension string `json:"dimension"`
	// Amount that is assured for every PerSeconds; 0: nothing is. Burst of it may be taken
	// at once, of which Remaining are there now.
	Amount     float64 `json:"amount"`
	PerSeconds float64 `json:"per_seconds"`
	Burst      float64 `json:"burst"`
	Remaining  float64 `json:"remaining"`
	// Ceiling is the most for every PerSeconds while others leave theirs; 0: there is none of
	// its own.
	Ceiling float64 `json:"ceiling,omitempty"`
	// Debt is what was used beyond it: so much must flow in before anything passes by it.
	Debt float64 `json:"debt"`
}

// QuotaConcurrency is how much may run at one time.
type QuotaConcurrency struct {
	Limit     int64 `json:"limit"`
	Running   int64 `json:"running"`
	Available int64 `json:"available"`
}

// QuotaGroup is the answer of /v1/quota/groups/{id}: FAIR-SHARE's fields first, which are of
// the budget of total tokens (of the first budget where there is none of these, see
// Dimension) in the pool of the groups.
type QuotaGroup struct {
	ID        string     `json:"group_id"`
	Weight    int64      `json:"weight"`
	Dimension string     `json:"dimension,omitempty"`
	Total     *float64   `json:"total_quota"` // null: no limit
	Used      *float64   `json:"used_quota"`
	Reserved  *float64   `json:"reserved_quota"`
	Remaining *float64   `json:"remaining_quota"`
	ResetTime *time.Time `json:"reset_time"`
	// Turns of its waiting tasks; nil for a group that only has groups below it.
	Turns *QuotaTurns `json:"turns,omitempty"`
	// Nodes are all that stand for the group or an agent of it, in every tree.
	Nodes []QuotaNode `json:"nodes"`
}

// QuotaAgent is the answer of /v1/quota/agents/{id}: FAIR-SHARE's fields first, as of
// QuotaGroup.
type QuotaAgent struct {
	ID        string          `json:"agent_id"`
	Weight    int64           `json:"weight"`
	Dimension string          `json:"dimension,omitempty"`
	Allocated *float64        `json:"allocated_quota"`
	Used      *float64        `json:"used_quota"`
	Reserved  *float64        `json:"reserved_quota"`
	Remaining *float64        `json:"remaining_quota"`
	Group     *QuotaGroupInfo `json:"group_info"`
	// Bucket is the rate of requests; null where there is none.
	Bucket *QuotaBucket `json:"token_bucket"`
	// Nodes that stand for the agent, in every tree.
	Nodes []QuotaNode `json:"nodes"`
}

// QuotaGroupInfo is the budget of an agent's group.
type QuotaGroupInfo struct {
	ID        string   `json:"id"`
	Total     *float64 `json:"total"`
	Used      *float64 `json:"used"`
	Remaining *float64 `json:"remaining"`
}

// QuotaBucket is a rate as a token bucket.
type QuotaBucket struct {
	Capacity float64 `json:"capacity"`
	// FillRate is in tokens a second.
	FillRate float64 `json:"fill_rate"`
	Current  float64 `json:"current_tokens"`
}

// QuotaProvider is the answer of /v1/quota/providers/{id}: all nodes of its tree; of a provider with
// keys those of all of them.
type QuotaProvider struct {
	ID    string      `json:"provider"`
	Nodes []QuotaNode `json:"nodes"`
}

// QuotaSelection is what is asked of Source.Quotas: the nodes that stand for one node, group
// (with its agents), agent (with its groups) or provider (with all of its tree); empty:
// everything, the first Limit nodes.
type QuotaSelection struct {
	Node, Group, Agent, Provider string
	Limit                        int
	// After, where everything is asked for, is the node behind which it begins; empty: the first.
	After string
}

// QuotaQuestion is what /v1/quota/explain is asked about: what a call, or task, takes. What
// is 0 is estimated.
type QuotaQuestion struct {
	Group, Agent, Provider, Model, TaskType string
	Requests, InputTokens, OutputTokens     float64
	CostUSD                                 float64
	NoBorrowing                             bool
	// Alternatives that a call may go to, instead of Provider and Model; empty: a task is asked about.
	Alternatives []coordinator.Service
}

// QuotaAnswer is the answer of /v1/quota/explain.
type QuotaAnswer struct {
	Admitted bool   `json:"admitted"`
	Reason   string `json:"reason"` // one sentence for people
	Group    string `json:"group,omitempty"`
	// GroupKnown is false for a group that quotas.yaml does not list: the pools alone limit
	// it, or unknown_callers refuses it.
	GroupKnown bool   `json:"group_known"`
	Agent      string `json:"agent,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	// Amounts that would be set aside, by dimension: what was said, and estimates.
	Amounts map[string]float64 `json:"amounts"`
	// Node, Dimension and Limit (budget, rate, seats or price) that refuse it; of several that which
	// lasts longest. Permanent: it asks for more than is ever allowed. RetryAt is else when it
	// may be asked again; absent: when something is given back.
	Node      string    `json:"node,omitempty"`
	Dimension string    `json:"dimension,omitempty"`
	Limit     string    `json:"limit,omitempty"`
	Permanent bool      `json:"permanent,omitempty"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	// Nodes it would be charged to, Limits all that it meets there.
	Nodes  []string     `json:"nodes"`
	Limits []QuotaLimit `json:"limits"`
	// Routes are the alternatives as they were judged, those with several keys once for each; Routing
	// are the weights of their terms. What else is said is of the one that is chosen; of none, of the
	// one that may be asked again first.
	Routes  []QuotaRoute    `json:"routes,omitempty"`
	Routing *CallRouteTerms `json:"routing,omitempty"`
}

// QuotaLimit is one limit that a call meets.
type QuotaLimit struct {
	Node      string  `json:"node"`
	Dimension string  `json:"dimension"`
	Limit     string  `json:"limit"` // budget, rate, seats
	Asked     float64 `json:"asked"`
	// Left of it; Borrowable of others besides, now.
	Left       float64 `json:"left"`
	Borrowable float64 `json:"borrowable"`
	// Refuses: there is no room for what is asked. Binds: it is the one that Reason names.
	Refuses bool `json:"refuses"`
	Binds   bool `json:"binds"`
	// Renews is when more of it may be there by itself.
	Renews time.Time `json:"renews,omitzero"`
}

// Queued is where a task stands that waits for an agent or for quota.
type Queued struct {
	// Text says how many tasks go before it, Start when it starts at the latest, or why that is not known:
	// for people.
	Text  string `json:"text"`
	Start string `json:"start"`
	Group string `json:"group,omitempty"`
	// Lane in which it waits; empty: it is not in its lane.
	Lane string `json:"lane,omitempty"`
	// Ahead tasks go before it: of its group and priority where there are quotas, else of all that
	// wait for the same agents, by the turns of priorities. AheadAtLeast: there may be more. Of a
	// task in its lane: at most so many.
	Ahead        int  `json:"ahead"`
	AheadAtLeast bool `json:"ahead_at_least,omitempty"`
	// Waiting is of how many, itself among them. Others wait of other groups at its priority,
	// Higher at higher priorities, Lower at lower ones.
	Waiting int `json:"waiting,omitempty"`
	Others  int `json:"others,omitempty"`
	Higher  int `json:"higher_priority,omitempty"`
	Lower   int `json:"lower_priority,omitempty"`
	// Quota that it waits for; absent: for none.
	Quota *QuotaLack `json:"quota,omitempty"`
	// CostBefore is the cost that is dispatched before it starts, at most; CostLikely at
	// most, if tasks cost what is thought; both while no quota keeps it. QuotaDelay is for how
	// many seconds quota may keep it besides. StartsWithin and StartsLikely are both together in
	// seconds, at the rate of the last minute or two; all are absent where they are not
	// known or there is no bound. Without quotas StartsLikely alone is told: an estimate.
	CostBefore   int64   `json:"cost_before,omitempty"`
	CostLikely   int64   `json:"cost_likely,omitempty"`
	QuotaDelay   float64 `json:"quota_delay_seconds,omitempty"`
	StartsWithin float64 `json:"starts_within_seconds,omitempty"`
	StartsLikely float64 `json:"starts_likely_within_seconds,omitempty"`
	// Unbounded is the rule because of which there is no latest time.
	Unbounded string `json:"unbounded,omitempty"`
}

// QuotaLack is a limit that a task waits for.
type QuotaLack struct {
	Node      string `json:"node"`
	Dimension string `json:"dimension"`
	Limit     string `json:"limit"` // budget, rate, seats
	// RetryAt is when there may be enough; absent: when something that has it ends.
	RetryAt time.Time `json:"retry_at,omitzero"`
}
