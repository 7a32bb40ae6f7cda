package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"taskbus/messages"
)

// The causes for which the ctx of a handler ends; context.Cause(ctx) is one of
// them, in the sense of errors.Is.
var (
	// ErrCancelled: the task was withdrawn.
	ErrCancelled = errors.New("the task was withdrawn")
	// ErrDeadline: its time is up.
	ErrDeadline = errors.New("the task's time is up")
	// ErrStopping: the agent has to stop, and its drain time-out is over.
	ErrStopping = errors.New("the agent is stopping")
)

// Reject makes an error by which a handler refuses a task: it has not begun, must
// not do it, and another agent should. Where there is no other it is asked again after a while, within
// max_retry_attempts. The reason is for people. It does not count as a failure of the task.
func Reject(reason string) error {
	if reason == "" {
		reason = "the agent refuses this task"
	}
	return &giveBack{reason: reason}
}

// Retry makes an error by which a handler gives up a task that it had begun: it is tried
// again, by another agent where there is one, else by this one after a while. It counts as a failure
// of the task on this agent; a task that fails so on several agents is parked as poisoned. What
// no try can mend is any other error.
func Retry(err error) error {
	return RetryAfter(err, 0)
}

// RetryAfter is Retry for a fault that passes in about that time, as a provider's rate limit
// with its Retry-After: another agent may have the task at once, this one not before that
// (as far as the coordinator can hold the task: 10 minutes). 0 is not to say; a day is the most.
func RetryAfter(err error, after time.Duration) error {
	g := &giveBack{reason: "the agent could not go on", attempted: true, cause: err,
		after: min(max(after, 0), 24*time.Hour)}
	if err != nil {
		g.reason = err.Error()
	}
	return g
}

// giveBack is an error that gives the task back.
type giveBack struct {
	reason    string
	attempted bool
	cause     error
	after     time.Duration
}

func (g *giveBack) Error() string { return g.reason }
func (g *giveBack) Unwrap() error { return g.cause }

// verdict is what a result says of a task's end.
type verdict struct {
	outcome   messages.Outcome
	attempted bool
	after     time.Duration // for which the agent asks not to be given the task again
	text      string        // the error for people; empty when there was none
	panicked  bool          // the text tells of a panic, in words that are not for the log
	usage     *Usage
	output    json.RawMessage // as it is sent; nil when there is none
	ref       *OutputRef
	took      time.Duration // 0: nothing was begun
}

// heard is what a handler's error comes to.
type heard struct {
	done            bool // there was none
	back, attempted bool // the task goes back; after it was begun
	panicked        bool
	silent          bool // the handler has not returned
	text            string
	after           time.Duration
	output          json.RawMessage
}

// silent is what a handler says that has not returned.
var silent = heard{text: "the handler has not returned", silent: true}

// hear reads an error. Its methods are the handler's code: they can do whatever a
// handler can, and are called where that is expected, and once.
func hear(err error) heard {
	if err == nil {
		return heard{done: true}
	}
	h := heard{text: messages.Clean(err.Error(), messages.MaxText)}
	if h.text == "" {
		h.text = "the handler gave an error without a text"
	}
	var back *giveBack
	if errors.As(err, &back) {
		h.back, h.attempted, h.after = true, back.attempted, back.after
	}
	return h
}

// hearBoth reads an error and encodes an output, of which the methods are the handler's code as well.
func hearBoth(output any, err error) heard {
	h := hear(err)
	if output == nil {
		return h
	}
	if h.output, err = json.Marshal(output); err != nil && h.done {
		return heard{text: messages.Clean("the output cannot be encoded: "+err.Error(), messages.MaxText)}
	}
	return h
}

// judge turns what a handler said into a verdict. cause is why its ctx had ended by
// then, nil when it had not. Work that was done in spite of that has succeeded; else
// the cause outweighs the handler's own words, which are usually nothing but its
// consequence.
func judge(said Result, words heard, cause error, took time.Duration) verdict {
	v := verdict{outcome: messages.Succeeded, usage: tidy(said.Usage), output: words.output, ref: said.OutputRef,
		took: took}
	switch {
	case words.done:
	case errors.Is(cause, ErrCancelled):
		v.outcome, v.text = messages.Cancelled, causeOf(words, cause)
	case errors.Is(cause, ErrDeadline):
		v.outcome, v.text = messages.Failed, fmt.Sprintf("ran out of time after %s: %s", took.Round(time.Millisecond),
			words.text)
		v.panicked = words.panicked
	case errors.Is(cause, ErrStopping):
		v.outcome, v.text = messages.Rejected, causeOf(words, cause)
	case words.back:
		v.outcome, v.attempted, v.text, v.after = messages.Rejected, words.attempted, words.text, words.after
		v.panicked = words.panicked
	default:
		v.outcome, v.text = messages.Failed, words.text
	}
	if v.outcome == messages.Rejected { // it is another agent's to say
		v.output, v.ref = nil, nil
	}
	return v
}

// causeOf is the text of a verdict that follows from the cause alone. It says so when
// the handler has not returned: the work may then still go on. That comes first,
// because the reason of a withdrawal may be as long as a text can be.
func causeOf(words heard, cause error) string {
	if words.silent {
		return silent.text + ": " + cause.Error()
	}
	return cause.Error()
}

// rejection is the verdict on a dispatch that was not begun.
func rejection(reason string) verdict {
	return verdict{outcome: messages.Rejected, text: reason}
}

// withdrawn is the cause, and the text, of a withdrawal.
func withdrawn(reason string) error {
	if reason == "" {
		return ErrCancelled
	}
	return fmt.Errorf("%w: %s", ErrCancelled, reason)
}

// Bounds of usage in task.result.
const (
	maxAmount    = 1e15
	minAmount    = 1e-300 // what is less has an exponent that decoders refuse
	maxUsageName = 128    // bytes; the schema counts characters
)

// tidy makes usage fit its schema: a result that breaks it would be refused, and
// the task would never end.
func tidy(u *Usage) *Usage {
	if u == nil {
		return nil
	}
	t := *u
	for _, amount := range []*float64{&t.Requests, &t.InputTokens, &t.OutputTokens, &t.CostUSD} {
		if math.IsNaN(*amount) || *amount < minAmount {
			*amount = 0
		}
		*amount = min(*amount, maxAmount)
	}
	t.Provider, t.Model = messages.Clean(t.Provider, maxUsageName), messages.Clean(t.Model, maxUsageName)
	return &t
}
