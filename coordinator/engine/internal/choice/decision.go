package choice

import "taskbus/coordinator"

// Kept is a decision with the room for its candidates and refusals.
type Kept struct {
	coordinator.Decision
	candidates [coordinator.MaxCandidates]coordinator.Candidate
	refusals   [coordinator.MaxNamed]coordinator.Refusal
}

// Keep copies a decision, so that it outlives the next.
func (d *Kept) Keep(from *coordinator.Decision) {
	d.Decision = *from
	d.Candidates = d.candidates[:copy(d.candidates[:], from.Candidates)]
	d.Refusals = d.refusals[:copy(d.refusals[:], from.Refusals)]
}

// dispatch is a dispatch with its decision in one allocation. Choose writes the
// latter in place.
type dispatch struct {
	coordinator.Dispatch
	decision Kept
}

// Dispatch returns the dispatch that is to carry the decision, of which nothing else is set: that into which it was
// written, if it is the latest of Choose, or a new one with a copy.
func (q *Question) Dispatch(d *coordinator.Decision) *coordinator.Dispatch {
	made := q.next
	if made != nil && d == &made.decision.Decision {
		q.next = nil
	} else {
		made = &dispatch{}
		made.decision.Keep(d)
	}
	made.Decision = &made.decision.Decision
	return &made.Dispatch
}
