package httpapi

import (
	"context"
	"errors"
	"time"

	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// History is what the HTTP interface asks of the history of usage. Every method is safe for
// concurrent use.
type History interface {
	// Usage gives the rows of a question, in the order of their keys, and whether there are
	// more than its limit. An error means that it cannot be asked now;
	// ErrNoQuotas: there is none, because there are no quotas.
	Usage(ctx context.Context, q usage.Query) (rows []usage.Row, more bool, err error)
	// Projection is how it is, and up to where it has come.
	Projection(ctx context.Context) (view.Projection, error)
	// Zone is the quotas' time zone; nil: UTC.
	Zone() *time.Location
	// Rebuild makes it anew from the journal, and waits for that until ctx ends: ErrRebuilding
	// then. Any other error means that it is as it was.
	Rebuild(ctx context.Context) (view.Rebuilt, error)
}

// ErrRebuilding says that what was ordered goes on.
var ErrRebuilding = errors.New("the history is being made anew")
