package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"taskbus/coordinator/gateway"
	"taskbus/messages"
)

// defaultMaxTask bounds the task of /whatif, in bytes, where Options say nothing:
// the default of max_message_bytes.
const defaultMaxTask = 1 << 20

// explainTimeout bounds an explanation, which has its turn after others.
const explainTimeout = 5 * time.Second

// TaskExplanation is the answer of /tasks/{id}/explain.
type TaskExplanation struct {
	ID      string `json:"task_id"`
	Type    string `json:"task_type"`
	TraceID string `json:"correlation_id"`
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
	Routes     []QuotaRoute            `json:"routes,omitempty"`
	Routing    *gateway.CallRouteTerms `json:"routing,omitempty"`
	Nearest    string                  `json:"nearest,omitempty"`
	NearestWhy string                  `json:"nearest_why,omitempty"`
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

// BadTask is what keeps the body of /whatif from being a task.
type BadTask struct {
	// Text says what is wrong, for people; it quotes no payload.
	Text string
}

func (b *BadTask) Error() string { return b.Text }

func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	id, ok := taskID(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	x, known := a.src.Explain(ctx, id)
	if !known {
		unknownTask(w, id)
		return
	}
	x.Attempts = present(x.Attempts)
	answer(w, http.StatusOK, x)
}

// whatIf answers POST /whatif. It changes nothing, so that it needs no token; but a page in a browser has
// no business to make the coordinator work.
func (a *api) whatIf(w http.ResponseWriter, r *http.Request) {
	if err := a.permission.browsers.Check(r); err != nil {
		crossOrigin(w)
		return
	}
	if !unasked(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.maxTask))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "Body too large",
			fmt.Sprintf("The task has more than %d bytes (max_message_bytes).", tooLarge.Limit))
		return
	case err != nil:
		problem(w, http.StatusBadRequest, "Body not readable", "The body did not arrive as a whole; send the request again.")
		return
	}
	a.gates.reads.few(func(w http.ResponseWriter, r *http.Request) { a.prospect(w, r, body) })(w, r)
}

// prospect answers how a task would be decided.
func (a *api) prospect(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	p, err := a.src.WhatIf(ctx, body)
	var bad *BadTask
	switch {
	case errors.As(err, &bad):
		problem(w, http.StatusBadRequest, "Not a task",
			"The body must be a task.assign message (message_type, task_id and payload may be missing). "+
				messages.Clean(bad.Text, messages.MaxText))
	case err != nil:
		notAvailable(w, "Answer not available", "Asking how the task would be decided", err)
	default:
		answer(w, http.StatusOK, p)
	}
}

// notAvailable answers a question that the service cannot answer now.
func notAvailable(w http.ResponseWriter, title, doing string, err error) {
	problem(w, http.StatusServiceUnavailable, title,
		doing+": "+messages.Clean(err.Error(), messages.MaxText)+". Try again; /livez and /readyz answer without it.")
}
