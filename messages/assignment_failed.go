package messages

import (
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// AssignmentFailed is an assignment.failed message as a producer reads it.
type AssignmentFailed struct {
	TaskID coordinator.TaskID `json:"task_id"`
	Reason string             `json:"reason"`
	Carried
	RetryPossible   bool   `json:"retry_possible"`
	SuggestedAction string `json:"suggested_action"`
	// ReasonCode is the String of a [coordinator.Reason].
	ReasonCode string `json:"reason_code"`
	// Attempts is how many dispatches of the task were made.
	Attempts int `json:"attempts"`
	// Candidates is nil when the failure is not for want of an agent.
	Candidates *Candidates `json:"candidates,omitempty"`
	// RetryAt is from when on the task may succeed; zero when it is not known.
	RetryAt  time.Time `json:"retry_at,omitzero"`
	FailedAt time.Time `json:"failed_at"`
}

// Candidates says why no agent could have the task.
type Candidates struct {
	// Fleet is how many agents are known.
	Fleet int `json:"fleet"`
	// Refused counts agents by the String of a [coordinator.Ineligibility].
	Refused map[string]int `json:"refused"`
	// MissingCapabilities counts the agents that lack each.
	MissingCapabilities map[string]int `json:"missing_capabilities,omitempty"`
	// Nearest is nil when no agent has the capabilities.
	Nearest *Nearest `json:"nearest,omitempty"`
}

// Nearest is the refused agent that came closest.
type Nearest struct {
	AgentID coordinator.AgentID `json:"agent_id"`
	Why     string              `json:"why"`
	// FreeInSeconds is when a slot of a full agent is expected to be free; 0 when
	// it is not known.
	FreeInSeconds float64 `json:"free_in_seconds,omitempty"`
}

// AppendAssignmentFailed appends the assignment.failed message for f.
func AppendAssignmentFailed(dst []byte, f *coordinator.Fail) []byte {
	reason := f.Failure.Reason
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.AssignmentFailed)
	dst = appendField(dst, "task_id", f.Task.ID)
	dst = appendField(dst, "reason", Clean(f.Failure.Full(), MaxText))
	dst = appendCarried(dst, &f.Task.Carried)
	dst = append(appendName(dst, "retry_possible"), boolean(reason.RetryPossible())...)
	dst = appendField(dst, "suggested_action", reason.SuggestedAction())
	dst = appendField(dst, "reason_code", reason.String())
	dst = appendInt(dst, "attempts", f.Failure.Attempts)
	if f.Decision != nil {
		dst = appendCandidates(dst, f.Decision)
	}
	if at := f.Failure.RetryAt; !at.IsZero() {
		dst = appendTime(dst, "retry_at", at)
	}
	dst = appendTime(dst, "failed_at", f.Failure.FailedAt)
	return append(dst, '}')
}

func appendCandidates(dst []byte, d *coordinator.Decision) []byte {
	dst = append(appendName(dst, "candidates"), '{')
	dst = appendInt(dst, "fleet", d.Fleet)
	dst = append(appendName(dst, "refused"), '{')
	for why, n := range d.Refused {
		if n > 0 {
			dst = appendInt(dst, coordinator.Ineligibility(why).String(), n)
		}
	}
	dst = append(dst, '}')
	if len(d.Missing) > 0 {
		dst = append(appendName(dst, "missing_capabilities"), '{')
		for i, m := range d.Missing {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, m.Capability), ':')
			dst = appendNumber(dst, m.Agents)
		}
		dst = append(dst, '}')
	}
	if d.Nearest != nil {
		dst = append(appendName(dst, "nearest"), '{')
		dst = appendField(dst, "agent_id", d.Nearest.Agent)
		dst = appendField(dst, "why", d.Nearest.Why.String())
		if in := d.Nearest.FreeIn.Round(time.Millisecond); in > 0 {
			dst = appendSeconds(dst, "free_in_seconds", in)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func boolean(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// DecodeAssignmentFailed reads an assignment.failed.
func (d *Decoder) DecodeAssignmentFailed(body []byte) (*AssignmentFailed, *Refusal) {
	return slow[AssignmentFailed](d, schemas.AssignmentFailed, body)
}
