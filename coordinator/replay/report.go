package replay

import "time"

// Comparison is what one recording would have come to under another policy.
type Comparison struct {
	Recording string    `json:"recording"`
	Epoch     uint64    `json:"epoch"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	Seconds   float64   `json:"seconds"`
	// Decisions that the recording holds, all of which replay as they were.
	Decisions int `json:"decisions"`
	// Before are the policies that were recorded, After those they are compared with:
	// several after reloads.
	Before []PolicyName `json:"before"`
	After  []PolicyName `json:"after"`
	// All types together; quantiles are left out there.
	All   TypeComparison   `json:"all"`
	Types []TypeComparison `json:"types"`
	// EndingsBefore and EndingsAfter say what the model is founded on.
	EndingsBefore Endings  `json:"endings_before"`
	EndingsAfter  Endings  `json:"endings_after"`
	Notes         []string `json:"notes,omitempty"`
}

// PolicyName names a policy.
type PolicyName struct {
	Version  string `json:"version"`
	Strategy string `json:"strategy"`
}

// TypeComparison is one task type: as it truly was, and in the model before and after.
type TypeComparison struct {
	Type     string `json:"type"`
	Recorded Result `json:"recorded"`
	Before   Result `json:"before"`
	After    Result `json:"after"`
	// Shares of the dispatches in the model, the largest change first.
	Shares []Share `json:"shares,omitempty"`
}

// Result is what became of the tasks of one type that came during the recording.
type Result struct {
	Tasks     int `json:"tasks"`
	Succeeded int `json:"succeeded"`
	// Failed by their agents' word.
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	// Refused by the coordinator (assignment.failed), and why.
	Refused int           `json:"refused"`
	Reasons []ReasonCount `json:"reasons,omitempty"`
	// Open when the recording ended, or of an agent that reports no ends.
	Open int `json:"open"`
	// CameBack counts the dispatches that came back.
	CameBack int `json:"came_back"`
	// Seconds from a task's coming to its first dispatch, and to its success.
	WaitP50  float64 `json:"wait_p50_seconds"`
	WaitP99  float64 `json:"wait_p99_seconds"`
	TotalP50 float64 `json:"total_p50_seconds"`
	TotalP99 float64 `json:"total_p99_seconds"`
}

// ReasonCount counts the tasks that were refused for one reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Tasks  int    `json:"tasks"`
}

// Share is an agent's part, 0 to 1, of the dispatches of a type.
type Share struct {
	Agent  string  `json:"agent"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Endings says where the ends of the modelled dispatches come from, as shares of all.
type Endings struct {
	// AsRecorded: the agent truly had the task.
	AsRecorded float64 `json:"as_recorded"`
	// ItsOwn: another task of the type on the same agent.
	ItsOwn float64 `json:"its_own"`
	// OfOthers: a task of the type on another agent. OfAnyType: a task of another type.
	OfOthers  float64 `json:"of_others"`
	OfAnyType float64 `json:"of_any_type"`
}

// total adds the types up; quantiles cannot be added.
func total(types []TypeComparison) TypeComparison {
	all := TypeComparison{Type: "all"}
	for i := range types {
		all.Recorded.add(&types[i].Recorded)
		all.Before.add(&types[i].Before)
		all.After.add(&types[i].After)
	}
	return all
}

func (r *Result) add(o *Result) {
	r.Tasks += o.Tasks
	r.Succeeded += o.Succeeded
	r.Failed += o.Failed
	r.Cancelled += o.Cancelled
	r.Refused += o.Refused
	r.Open += o.Open
	r.CameBack += o.CameBack
}
