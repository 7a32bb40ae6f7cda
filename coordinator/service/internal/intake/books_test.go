package intake

import (
	"sync"
	"testing"

	"taskbus/coordinator/invariant"
)

// TestBooksAreExactAtAnyMoment: any look while many goroutines take, conclude and settle, finds both sides
// equal.
func TestBooksAreExactAtAnyMoment(t *testing.T) {
	var b Books
	h := NewDeliveries(&b)
	const workers, each = 4, 5000
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				d := &Delivery{Returned: i%2 == 0}
				if !h.Add(d) {
					continue // the session has ended: it is abandoned
				}
				switch (w + i) % 4 {
				case 0: // the broker's confirm, then the engine's word
					h.Conclude(d.Handle, Dispatched)
					h.Take(d.Handle, None)
				case 1:
					h.Take(d.Handle, Failed)
				case 2:
					h.Take(d.Handle, Dropped)
				default: // held until the session ends
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for looks := 0; ; looks++ {
		if looks == 100 {
			h.Close()
		}
		if found := b.Audit(); found != nil {
			t.Fatalf("look %d: %+v", looks, found)
		}
		select {
		case <-done:
			h.Close() // once more changes nothing
			if found, end := b.Audit(), b.Read(); found != nil || end.Held != 0 || end.Received+end.Returned != workers*each {
				t.Errorf("in the end %s: %+v", end, found)
			}
			return
		default:
		}
	}
}

// One outcome too many makes the two sides differ, and is found with every audit.
func TestBooksThatDoNotBalance(t *testing.T) {
	var b Books
	NewDeliveries(&b).Add(&Delivery{})
	if found := b.Audit(); found != nil {
		t.Fatalf("one delivery, which is held: %+v", found)
	}
	b.Outcomes[Failed]++
	for range 2 {
		if found := b.Audit(); len(found) != 1 || found[0].Invariant != invariant.Conservation {
			t.Errorf("%+v", found)
		}
	}
}
