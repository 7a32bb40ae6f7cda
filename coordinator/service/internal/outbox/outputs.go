package outbox

import "sync/atomic"

// Outputs bounds the bytes of the outputs that have been read and are not with the broker yet.
type Outputs struct {
	most int64
	held atomic.Int64
	room chan struct{} // capacity 1: there may be less than most again
}

// NewOutputs returns one of so many bytes; one output may go beyond.
func NewOutputs(most int64) *Outputs { return &Outputs{most: most, room: make(chan struct{}, 1)} }

// Take counts an output of so many bytes.
func (o *Outputs) Take(bytes int) { o.held.Add(int64(bytes)) }

// Release takes one off: the broker has it, or it is not needed.
func (o *Outputs) Release(bytes int) {
	if bytes == 0 {
		return
	}
	o.held.Add(-int64(bytes))
	select {
	case o.room <- struct{}{}:
	default:
	}
}

// AwaitRoom returns when less than the most is held: true; or when done is closed: false. Only one goroutine may
// call it.
func (o *Outputs) AwaitRoom(done <-chan struct{}) bool {
	for o.held.Load() >= o.most {
		select {
		case <-o.room:
		case <-done:
			return false
		}
	}
	return true
}
