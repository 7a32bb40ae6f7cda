package reading

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/messages"
)

// Options are what a reader reads.
type Options struct {
	// Query asks the engine between two events. After an error the question was not asked, and never will be.
	Query func(ctx context.Context, question func(now time.Time, e *engine.Engine)) error
	// Snapshot returns the engine's state, to be read only.
	Snapshot func(context.Context) (coordinator.Snapshot, error)
	Recent   *recent.Tasks
	Decoder  *messages.Decoder
	Now      func() time.Time
}

// Reader answers questions. It is safe for concurrent use.
//
// Where a method is given a reason, that is why nothing is known of the fleet now; nil: it is known.
type Reader struct {
	Options
	judging chan struct{} // capacity 1: an explanation is being made
}

// New returns a reader.
func New(o Options) *Reader { return &Reader{Options: o, judging: make(chan struct{}, 1)} }

// inTurn has its turn after the questions before it, and then asks the engine: of questions that cost passes over the
// fleet, many must not crowd out the tasks.
func (r *Reader) inTurn(ctx context.Context, question func(now time.Time, e *engine.Engine)) error {
	select {
	case r.judging <- struct{}{}:
		defer func() { <-r.judging }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the questions before this one: %w", ctx.Err())
	}
	if err := r.Query(ctx, question); err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	return nil
}
