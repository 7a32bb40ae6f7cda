package view

import (
	"encoding/json"
	"math"
	"time"

	"taskbus/coordinator"
)

// TaskExplanation is the answer of /tasks/{id}/explain.
type TaskExplanation struct {
	ID   string `json:"task_id"`
	Type string `json:"task_type"`
	coordinator.Carried
	State   string `json:"state"`
	Agent   string `json:"agent_id,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// ReasonCode, Reason and Error as in Task.
	ReasonCode string `json:"reason_code,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Error      string `json:"error,omitempty"`
	// DecidedAt is when the decision was made that Explanation explains; absent for a
	// task that waits, of which Explanation says what keeps it waiting now.
	DecidedAt time.Time `json:"decided_at,omitzero"`
	// Explanation is null when none was kept, as for a message that was never
	// decided on.
	Explanation *Explanation `json:"explanation"`
	// Queued is where it stands while it waits for an agent or quota.
	Queued *Queued `json:"queued,omitempty"`
	// Attempts are the dispatches so far, the first one first.
	Attempts []Attempt `json:"attempts"`
	// Now is how the task would be decided at this moment, if it were not decided already; absent for one
	// that waits, and when that is not known.
	Now *Prospect `json:"now,omitempty"`
	// NowUnknown is why it is not known how the task would be decided now, or what keeps it waiting; empty
	// when it is known.
	NowUnknown string `json:"now_unknown,omitempty"`
}

// Attempt is one dispatch of a task.
type Attempt struct {
	// Number counts from 1; absent when it is not known any more.
	Number     int       `json:"attempt,omitempty"`
	Agent      string    `json:"agent_id"`
	DispatchID string    `json:"dispatch_id,omitempty"`
	At         time.Time `json:"at,omitzero"`
	// Outcome is one of AttemptOutcomes; empty when it is not known (yet).
	Outcome string `json:"outcome,omitempty"`
	// Detail is the agent's own word; may be empty.
	Detail string `json:"detail,omitempty"`
}

// AttemptOutcomes lists the words of Attempt.Outcome: the agent's own (succeeded,
// failed, rejected, cancelled), the broker's (expired, delivery_limit,
// queue_missing, queue_full, unconfirmed), and the coordinator's (taken_back, lost,
// timed_out, withdrawn, returned). The caller owns the list.
func AttemptOutcomes() []string {
	return []string{
		"succeeded", "failed", "rejected", "cancelled", "expired", "delivery_limit",
		"queue_missing", "queue_full", "unconfirmed", "taken_back", "lost", "timed_out", "withdrawn", "returned",
	}
}

// Prospect is how a task would be decided at this moment, and the answer of /whatif.
type Prospect struct {
	ID   string `json:"task_id"`
	Type string `json:"task_type"`
	// Agent that would get it; empty when none could. Where agents would be asked for bids first: that
	// would get it if no agent bids. Where it would wait for quota (ReasonCode is quota_exhausted, and
	// Explanation.Quota says for which): that would get it with quota, as things are.
	Agent string `json:"agent_id,omitempty"`
	// OfferedTo is how many agents would be asked for bids before, at most for
	// BidWindowMS; 0 for none.
	OfferedTo   int     `json:"offered_to,omitempty"`
	BidWindowMS float64 `json:"bid_window_ms,omitempty"`
	// ReasonCode and Reason for which it would wait, or fail.
	ReasonCode      string       `json:"reason_code,omitempty"`
	Reason          string       `json:"reason,omitempty"`
	SuggestedAction string       `json:"suggested_action,omitempty"`
	Explanation     *Explanation `json:"explanation"`
	// Unknown are fields of the question that no task has, each with the name that may have been meant.
	Unknown []string `json:"unknown_fields,omitempty"`
}

// Explanation renders a coordinator.Decision.
type Explanation struct {
	Text string `json:"text"`
	// Quota that it lacks, of a decision that is asked for; absent: it lacks none.
	Quota     *QuotaLack `json:"quota,omitempty"`
	Strategy  string     `json:"strategy,omitempty"`
	Preferred bool       `json:"preferred"`
	// Explored: success rates were drawn from what is known of them.
	Explored bool `json:"explored,omitempty"`
	Fleet    int  `json:"fleet"`
	Eligible int  `json:"eligible"`
	// Candidates are eligible agents, best first: the best three of a decision that
	// was made, up to 200 of one that is asked for.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Refused counts the others by cause, Refusals names them, the nearest first: 8 of each
	// cause of a decision that is asked for, and 8 of one that was made.
	Refused  map[string]int `json:"refused,omitempty"`
	Refusals []Refusal      `json:"refusals,omitempty"`
	Missing  map[string]int `json:"missing_capabilities,omitempty"`
	// WithoutQuota are those that the decision left out for want of quota of their own.
	WithoutQuota int `json:"without_quota,omitempty"`
	// Routes are the models that the task may go to as they were judged, those with several keys once for
	// each; Routing are the weights of their terms. Absent of one that has no choice, and where a
	// coordinator before this one has chosen. Of a task that waits behind another of its group they say
	// what that one waits for.
	Routes     []QuotaRoute    `json:"routes,omitempty"`
	Routing    *CallRouteTerms `json:"routing,omitempty"`
	Nearest    string          `json:"nearest,omitempty"`
	NearestWhy string          `json:"nearest_why,omitempty"`
	// NearestFreeIn is when a slot of the nearest is expected to be free, in seconds; absent when that is
	// not known.
	NearestFreeIn float64 `json:"nearest_free_in_seconds,omitempty"`
}

// Candidate is one eligible agent, best first.
type Candidate struct {
	Agent string  `json:"agent_id"`
	Load  float64 `json:"load"`
	Free  int     `json:"free_slots"`
	// Score is what the strategy made of it, the larger the better; absent of a
	// strategy that does not score.
	Score *Number `json:"score,omitempty"`
	// Terms are what the strategy looked at, named.
	Terms []Term `json:"terms"`
}

// Term is one named value that a strategy looked at.
type Term struct {
	Name  string `json:"name"`
	Value Number `json:"value"`
}

// Refusal is one agent that may not have the task.
type Refusal struct {
	Agent string `json:"agent_id"`
	// Why is the code of coordinator.Ineligibility.
	Why string `json:"why"`
	// FreeIn is when a slot of it is expected to be free, in seconds; absent when that is not known.
	FreeIn float64 `json:"free_in_seconds,omitempty"`
}

// Number is a float64 that may be NaN or infinite, which JSON does not know: it is
// null then, and null is read as NaN. A formula may give such values.
type Number float64

// MarshalJSON gives the number, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}
