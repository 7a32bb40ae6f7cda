package history

import (
	"context"
	"errors"

	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// ErrNotOpen says that there is no database to ask (yet).
var ErrNotOpen = errors.New("the history is not open")

func (h *History) asked() (*store.Store, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		if h.detail == "" {
			return nil, ErrNotOpen
		}
		return nil, errors.New(h.detail)
	}
	return h.store, nil
}

// Usage gives the rows of a question (see store.Store).
func (h *History) Usage(ctx context.Context, q usage.Query) ([]usage.Row, bool, error) {
	s, err := h.asked()
	if err != nil {
		return nil, false, err
	}
	return s.Usage(ctx, q)
}

// Status is how it is, and up to where it has come.
func (h *History) Status(ctx context.Context) (Status, error) {
	h.mu.Lock()
	status := Status{State: h.state, Detail: h.detail, Follows: h.follows}
	h.mu.Unlock()
	s, err := h.asked()
	if err != nil {
		return status, nil
	}
	status.Place = s.Name()
	if status.Mark, err = s.Mark(ctx); err != nil {
		return status, err
	}
	status.Gaps, err = s.Gaps(ctx)
	return status, err
}
