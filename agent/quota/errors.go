package quota

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// What is told about a reservation that is not there. After an attempt whose answer was lost
// either may mean that it has been done.
var (
	// ErrUnknown: there is no such reservation of this agent (any more).
	ErrUnknown = errors.New("no such reservation (any more)")
	// ErrEnded: the reservation had been settled or released, or has expired, before.
	ErrEnded = errors.New("the reservation has ended before")
	// ErrTaken: the id stands for another call, or was used with other amounts or names before; nothing has
	// changed. It is an ErrEnded as well: nothing can be made under this id.
	ErrTaken = fmt.Errorf("the id stands for another call: %w", ErrEnded)
	// ErrNotBelieved: an agent's own word of what a call has used is not believed so far beyond what was
	// reserved (docs/reference/calls.md, "Trust limits"); nothing is charged, and the reservation stands.
	ErrNotBelieved = errors.New("so much is not believed of an agent's own word")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the quota client is closed")
)

// Refused says that a limit has no room for a call.
type Refused struct {
	// RetryAfter is how long to wait at least before asking again: by the chance of the call a little
	// longer than until RetryAt, so that refused clients do not come together. 0: it was not said.
	RetryAfter time.Duration
	// RetryAt is when there may be room, by the coordinator's clock; zero: when something ends.
	RetryAt time.Time
	// Policies by which it is refused, as RateLimit-Policy names them.
	Policies []string
	// Node, Dimension and Limit (budget, rate, seats, provider) that refuse.
	Node, Dimension, Limit string
	// Permanent: no limit ever has room for so much at once; do not ask again.
	Permanent bool
	// Detail is a sentence for people.
	Detail string

	body []byte // the coordinator's answer, application/problem+json
}

func (r *Refused) Error() string { return "quota refused: " + r.Detail }

// status is that of the answer.
func (r *Refused) status() int {
	if r.Permanent {
		return http.StatusUnprocessableEntity
	}
	return http.StatusTooManyRequests
}

// Unavailable says that no coordinator has answered. What was asked may have been done.
type Unavailable struct {
	// Op that was asked: reserve, settle, ...
	Op string
	// RetryAfter is when it makes sense to ask again.
	RetryAfter time.Duration
	// Err is what the last one that was tried has said.
	Err error
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("quota %s: no coordinator answers: %v", u.Op, u.Err)
}

func (u *Unavailable) Unwrap() error { return u.Err }

// Problem is an answer of the coordinator that asking again does not change: bad input, a wrong
// token, another's group.
type Problem struct {
	Op            string
	Status        int
	Title, Detail string
}

func (p *Problem) Error() string {
	return fmt.Sprintf("quota %s: %s (%d): %s", p.Op, p.Title, p.Status, p.Detail)
}
