package replay

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// CallAnswer is what was asked about a call, and what it is answered when it is asked once more: as it
// was, as long as the records are those of the journal.
type CallAnswer struct {
	At     time.Time
	Call   coordinator.Call
	Answer coordinator.CallAnswer
}

// Calls verifies the recording and gives what was answered about the calls that are asked for, up to the
// first difference. policies must give what was recorded.
func (r *Recording) Calls(policies Policies, wanted func(*coordinator.Call) bool) ([]CallAnswer, *Verification, error) {
	var found []CallAnswer
	v, err := r.verify(policies, func(in *journal.Input, effects []coordinator.Effect) {
		asked, is := in.Event.(coordinator.CallAsked)
		if !is || !slices.ContainsFunc(asked.Calls, func(c coordinator.Call) bool { return wanted(&c) }) {
			return
		}
		for _, f := range effects {
			answered, is := f.(*coordinator.CallAnswered)
			if !is || answered.Token != asked.Token {
				continue
			}
			for i := range asked.Calls {
				if wanted(&asked.Calls[i]) && i < len(answered.Answers) {
					found = append(found, CallAnswer{in.At, asked.Calls[i], answered.Answers[i]})
				}
			}
		}
	})
	return found, v, err
}
