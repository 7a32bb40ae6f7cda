package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"taskbus/coordinator/bus"
)

// The fences are waited for fenceTimeout, and as long again while results are read, at
// most fencePatience; then the past counts as read.
const (
	fenceTimeout  = 5 * time.Second
	fencePatience = time.Minute
)

// fence is a mark that we put at the end of a stream: what is read before it is
// the stream's past, what is read after it is news.
type fence struct {
	stream   string
	id       string
	read     chan struct{} // closed when it was read back
	caughtUp atomic.Bool   // what comes from here on is news
}

func newFence(stream string) *fence {
	return &fence{stream: stream, id: randomID(), read: make(chan struct{})}
}

// takes reports whether the delivery is a fence, ours or another coordinator's. It
// belongs to the goroutine that reads the stream.
func (f *fence) takes(d *bus.Delivery) bool {
	if d.Type != typeFence {
		return false
	}
	if d.MessageID == f.id && !f.wasRead() {
		f.caughtUp.Store(true)
		close(f.read)
	}
	return true
}

// wasRead reports whether all of the past has been read, not merely given up.
func (f *fence) wasRead() bool {
	select {
	case <-f.read:
		return true
	default:
		return false
	}
}

// readPast subscribes to a stream and puts the fence at its end.
func (r *session) readPast(ctx context.Context, f *fence, prefetch int, from bus.Position,
	handle func(bus.Delivery)) error {
	err := r.bus.Subscribe(ctx, bus.Subscription{Queue: f.stream, Prefetch: prefetch, From: from, Handle: handle})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", f.stream, err)
	}
	if err := r.bus.Publish(r.mark(f.stream, f.id)); err != nil {
		return fmt.Errorf("publish a mark to %s: %w", f.stream, err)
	}
	return nil
}

// awaitFence waits until the past of a stream has been read, so that the first task
// meets a known fleet, and a task that has ended is known to have. read is false when
// it was given up.
func (r *session) awaitFence(ctx context.Context, f *fence) (read bool, err error) {
	begun, last := r.s.now(), r.pastRead.Load()
	timeout := time.NewTimer(fenceTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-f.read:
			return true, nil
		case <-timeout.C:
			n := r.pastRead.Load()
			if n == last || r.s.now().Sub(begun) >= fencePatience {
				r.giveUp(f)
				return f.wasRead(), nil
			}
			last = n
			timeout.Reset(fenceTimeout)
		case <-r.bus.Done():
			return false, errors.Join(errors.New("the session ended while the agents' past was read"), r.bus.Err())
		case err := <-r.faulted:
			return false, err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// giveUp goes on without the fence: another consumer reads the queue, too (queues: classic), or reading is
// slow.
func (r *session) giveUp(f *fence) {
	if f.wasRead() {
		return
	}
	r.s.log.Warn().Str("stream", f.stream).Dur("after", fenceTimeout).
		Msg("the mark in the stream was not read back; going on with what is known of the agents")
	f.caughtUp.Store(true)
}

// mark returns a message of our own in a stream.
func (r *session) mark(stream, id string) bus.Publication {
	return bus.Publication{
		Token: tokenIgnored, Key: stream,
		Properties: bus.Properties{
			ContentType: contentJSON, Type: typeFence, AppID: appID, MessageID: id,
			Timestamp: r.s.now(),
		},
		Body: []byte(`{"message_type":"coordinator.fence"}`),
	}
}
