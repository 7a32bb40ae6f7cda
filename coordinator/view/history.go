package view

import "time"

// HistoryRow is what was used, by tenant, agent and model. What is empty is none in particular.
type HistoryRow struct {
	// Day is 2026-11-22, by month 2026-11, in the time zone of quotas.yaml; empty of totals.
	Day      string `json:"day,omitempty"`
	Group    string `json:"group"`
	Agent    string `json:"agent"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	// Source is task or call; empty where it is not known any more.
	Source string `json:"source"`
	HistoryCounts
}

// HistoryCounts is how much was used.
type HistoryCounts struct {
	Requests     int64   `json:"requests"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	TotalTokens  int64   `json:"total_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	// Calls are the reservations that have ended: Settled at what was used, of which Late had expired
	// before, Released unused, Expired because no end was reported in time.
	Calls    int64 `json:"calls"`
	Settled  int64 `json:"settled"`
	Released int64 `json:"released"`
	Expired  int64 `json:"expired"`
	Late     int64 `json:"late"`
}

// HistoryList is the answer of /v1/quota/history.
type HistoryList struct {
	By   string       `json:"by"`
	Rows []HistoryRow `json:"rows"`
	// More: these are the latest; there are more than the limit.
	More       bool       `json:"more"`
	Projection Projection `json:"projection"`
}

// The states of a history that others wait for; Projection.State lists all.
const (
	HistoryWaiting    = "waiting"
	HistoryFailing    = "failing"
	HistoryRebuilding = "rebuilding"
)

// Projection is how the history is, and up to where the journal is in it.
type Projection struct {
	// State is off, waiting, following, beside (another coordinator writes to the same database),
	// rebuilding, failing or stopped; Detail says why.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
	// Place is the database, without a secret.
	Place string `json:"place,omitempty"`
	// Since is from when on it is complete, but for the gaps; UpTo when the last message of the
	// journal that is in it was written, at Offset. Rebuilds is how often it was made anew.
	Since    time.Time    `json:"since,omitzero"`
	UpTo     time.Time    `json:"up_to,omitzero"`
	Offset   int64        `json:"offset"`
	Rebuilds int64        `json:"rebuilds"`
	Gaps     []HistoryGap `json:"gaps"`
}

// HistoryGap is a part of the journal that is not in the history.
type HistoryGap struct {
	From   time.Time `json:"from,omitzero"`
	To     time.Time `json:"to,omitzero"`
	Offset int64     `json:"offset"`
	// Lost reservations were open before it and had ended behind it.
	Lost   int64  `json:"lost"`
	Reason string `json:"reason"`
}

// Rebuilt is the answer of POST /v1/quota/history/rebuild.
type Rebuilt struct {
	// State is done, or rebuilding: it goes on, and what follows is not known yet.
	State string `json:"state"`
	// Since is from when on the journal reaches. FromDay is the first day that was made anew,
	// empty: all were. Kept: older days stay as they were, for the journal does not hold them.
	Since   time.Time `json:"since,omitzero"`
	FromDay string    `json:"from_day,omitempty"`
	Kept    bool      `json:"kept"`
	Rows    int       `json:"rows"`
	Offset  int64     `json:"offset"`
	Detail  string    `json:"detail"`
}
