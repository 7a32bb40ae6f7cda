package journaling

import (
	"slices"
	"sync"
)

// Cursor is the position up to which results have been handled: everything in task.result before its
// Offset has been applied, and the ends that follow from it are announced. It is in the header of every
// message in the journal, and the next leader goes on reading there.
type Cursor struct {
	mu   sync.Mutex
	next int64 // behind the last that was applied; -1: none yet
	// open are the offsets of results that have an end not announced yet, in order.
	open []int64
}

// NewCursor returns one from which reading goes on at that offset; -1: it is not known.
func NewCursor(from int64) *Cursor { return &Cursor{next: from} }

// Applied notes that the result at this offset has been applied.
func (c *Cursor) Applied(offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, offset+1)
}

// Announcing notes that the end which follows from the result at this offset is to be
// announced.
func (c *Cursor) Announcing(offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, offset)
}

// Announced notes that it has been.
func (c *Cursor) Announced(offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch i, found := slices.BinarySearch(c.open, offset); {
	case !found:
	case i == 0: // as nearly always, and there may be thousands
		c.open = c.open[1:]
	default:
		c.open = slices.Delete(c.open, i, i+1)
	}
}

// Forget begins anew: where reading has to go on is not known any more.
func (c *Cursor) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.open = -1, nil
}

// Offset returns where reading has to go on.
func (c *Cursor) Offset() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) > 0 {
		return c.open[0]
	}
	return c.next
}
