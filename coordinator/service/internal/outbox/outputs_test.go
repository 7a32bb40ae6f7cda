package outbox

import (
	"testing"
	"testing/synctest"
)

// Of 100 bytes there is room for another output as long as less than 100 are held: after 60 and 60 not before one of
// them has gone.
func TestOutputsAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOutputs(100)
		o.Take(60)
		if !o.AwaitRoom(nil) {
			t.Fatal("no room beside 60 of 100")
		}
		o.Take(60)
		room := false
		go func() { room = o.AwaitRoom(nil) }()
		o.Release(0)
		o.Release(10) // 110
		synctest.Wait()
		if room {
			t.Fatal("there is room beside 110 of 100")
		}
		o.Release(20) // 90
		synctest.Wait()
		if !room {
			t.Error("no room beside 90 of 100")
		}
	})
}

// A session that ends is not waited for.
func TestOutputsAwaitTheEnd(t *testing.T) {
	o := NewOutputs(1)
	o.Take(1)
	done := make(chan struct{})
	close(done)
	if o.AwaitRoom(done) {
		t.Error("there is room beside 1 of 1")
	}
}
