package gateway

import (
	"context"
	"errors"
)

// ErrCallsBusy says that too many questions about calls wait for their answers already.
var ErrCallsBusy = errors.New("too many calls wait for their answers")

// ErrNotLeading says that a coordinator was asked, as the leader, that does not lead (any more).
var ErrNotLeading = errors.New("it does not lead")

// WhyUnanswered says to the caller why there is no answer, by an error of AskCalls. It names
// no address and no fault of the network: these are for the log, and no agent's business.
func WhyUnanswered(err error) string {
	switch {
	case errors.Is(err, ErrCallsBusy):
		return "Too many calls wait for their answers"
	case errors.Is(err, ErrNotLeading):
		return "No coordinator leads at the moment"
	case errors.Is(err, context.DeadlineExceeded):
		return "The coordinator that leads has not answered in time"
	default:
		return "The coordinator that leads cannot be asked at the moment"
	}
}
