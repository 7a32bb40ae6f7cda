package intake

import (
	"sync/atomic"
	"time"

	"taskbus/coordinator/bus"
)

// TypeFence is the type of such messages.
const TypeFence = "coordinator.fence"

// Fence is a mark that we put at the end of a stream: what is read before it is
// the stream's past, what is read after it is news.
type Fence struct {
	Stream   string
	id       string
	Read     chan struct{} // closed when it was read back
	CaughtUp atomic.Bool   // what comes from here on is news
}

// NewFence returns one for the end of a stream. id is its name, which no other fence has.
func NewFence(stream, id string) *Fence {
	return &Fence{Stream: stream, id: id, Read: make(chan struct{})}
}

// Takes reports whether the delivery is a fence, ours or another coordinator's. It
// belongs to the goroutine that reads the stream.
func (f *Fence) Takes(d *bus.Delivery) bool {
	if d.Type != TypeFence {
		return false
	}
	if d.MessageID == f.id && !f.WasRead() {
		f.CaughtUp.Store(true)
		close(f.Read)
	}
	return true
}

// WasRead reports whether all that stood in the stream has been read, not merely given up.
func (f *Fence) WasRead() bool {
	select {
	case <-f.Read:
		return true
	default:
		return false
	}
}

// Mark returns the message that is the fence, to be put at the end of the stream at now, but for its token.
func (f *Fence) Mark(now time.Time) bus.Publication { return Mark(f.Stream, f.id, now) }

// Mark returns a message of our own in a stream, but for its token.
func Mark(stream, id string, now time.Time) bus.Publication {
	return bus.Publication{
		Key: stream,
		Properties: bus.Properties{
			ContentType: "application/json", Type: TypeFence, AppID: "taskbus", MessageID: id, Timestamp: now,
		},
		Body: []byte(`{"message_type":"coordinator.fence"}`),
	}
}
