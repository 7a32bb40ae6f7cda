package service

import (
	"slices"
	"sync"
)

// told is how far results have been dealt with: everything in task.result before
// its offset has been applied, and the ends that follow from it are announced. It
// stands in the header of every message in the journal, and whoever leads next goes
// on reading there.
type told struct {
	mu   sync.Mutex
	next int64 // behind the last that was applied; -1: none yet
	// open are the offsets of results whose ends are not announced yet, in order.
	open []int64
}

func newTold(from int64) *told { return &told{next: from} }

// applied notes that the result at this offset has been applied.
func (t *told) applied(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = max(t.next, offset+1)
}

// announcing notes that the end which follows from the result at this offset is to be
// announced.
func (t *told) announcing(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, offset)
}

// announced notes that it has been.
func (t *told) announced(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch i, found := slices.BinarySearch(t.open, offset); {
	case !found:
	case i == 0: // as nearly always, and there may be thousands
		t.open = t.open[1:]
	default:
		t.open = slices.Delete(t.open, i, i+1)
	}
}

// forget begins anew: where reading has to go on is not known any more.
func (t *told) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next, t.open = -1, nil
}

// offset is where reading has to go on.
func (t *told) offset() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) > 0 {
		return t.open[0]
	}
	return t.next
}
