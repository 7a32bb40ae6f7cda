package amqpbus

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestProberWhileAnotherDials: a request waits for the connection that another opens for no longer than its context.
func TestProberWhileAnotherDials(t *testing.T) {
	dials := make(chan struct{})
	p := newProber(func(ctx context.Context) (*link, error) {
		close(dials)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.first(ctx, "a", nil)
		ended <- err
	}()
	<-dials
	brief, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if _, err := p.first(brief, "b", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that its time is over", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
