package intake

import (
	"testing"

	"taskbus/coordinator"
)

const mib = 1 << 20

// 256 MiB hold 256 tasks of the largest size of 1 MiB, and far more than the
// window's 4,000 of a kilobyte.
func TestWindowBeginsSafeAndGrowsWithSmallTasks(t *testing.T) {
	w := NewWindow(4000, 256*mib, mib)
	if n := w.First(w.tasks); n != 256 {
		t.Fatalf("first prefetch %d, want 256 MiB / 1 MiB = 256", n)
	}
	w.sizes = []int{256}
	for range windowSamples {
		w.Observe(1000)
	}
	// 256 MiB / (2 × 1,000 B) = 134,217, more than the window: all of it is wanted.
	for _, want := range []int{2000, 4000 - 256 - 2000, 0} {
		if got := w.Adapt(0); got != want {
			t.Fatalf("adapt gave %d, want %d (consumers %v)", got, want, w.sizes)
		}
		if n := w.Total(); n != 4000 {
			t.Errorf("it will hold %d, want all of 4,000", n)
		}
	}
}

func TestWindowShrinksWhenTasksGrow(t *testing.T) {
	w := NewWindow(4000, 256*mib, mib)
	w.sizes = []int{256, 2000, 1744}
	for range 10 * windowSamples {
		w.Observe(mib)
	}
	// An average near 1 MiB expects the largest: 256 tasks, less than half of
	// 4,000, then of 2,256; the first consumer always stays.
	for _, want := range []int{-1, -1, 0} {
		if got := w.Adapt(0); got != want {
			t.Fatalf("adapt gave %d, want %d (consumers %v)", got, want, w.sizes)
		}
	}
}

func TestWindowShrinksAtOnceWhenTooMuchIsHeld(t *testing.T) {
	w := NewWindow(4000, 256*mib, mib)
	w.sizes = []int{256, 2000}
	for range windowSamples {
		w.Observe(1000)
	}
	if got := w.Adapt(256*mib + 1); got != -1 {
		t.Errorf("one byte over window_bytes: adapt gave %d, want -1", got)
	}
}

func TestSmallWindowIsOneConsumer(t *testing.T) {
	w := NewWindow(10, 256*mib, mib)
	if n := w.First(w.tasks); n != 10 {
		t.Fatalf("first prefetch %d, want the window of 10", n)
	}
	w.sizes = []int{10}
	w.Observe(1)
	if got := w.Adapt(0); got != 0 {
		t.Errorf("adapt gave %d, want 0", got)
	}
}

// The first consumer's prefetch may be so small that no more than that ever comes.
func TestWindowLooksWhenTheFirstIsFull(t *testing.T) {
	w := NewWindow(4000, 20*mib, mib)
	w.Open()
	for i := 1; i <= windowSamples; i++ {
		if got, want := w.learn(1000), i == 20 || i == windowSamples; got != want { // 20 MiB / 1 MiB
			t.Errorf("after %d deliveries: %v", i, got)
		}
	}
}

// Small tasks after large ones that are still held must not make the window grow
// and shrink in turns.
func TestWindowDoesNotSwing(t *testing.T) {
	w := NewWindow(4000, 256*mib, mib)
	w.Open()
	for range 20 * windowSamples {
		w.Observe(100)
	}
	swings := 0
	for range 1000 {
		if w.Adapt(250*mib) != 0 { // nearly all of the bytes are held
			swings++
		}
		if w.Adapt(257*mib) != 0 {
			swings++
		}
	}
	if swings > 1 {
		t.Errorf("%d changes, want none but ending what is too much", swings)
	}
}

// 64 lanes share half of 256 MiB: 2 MiB each, whatever the sizes are.
func TestLanesShareHalfOfTheBytes(t *testing.T) {
	w := NewWindow(4000, 256*mib, mib)
	if n := w.Lane("a", 64); n != 2 {
		t.Errorf("before anything is known: %d, want 2 MiB / 1 MiB = 2", n)
	}
	for range windowSamples {
		w.Observe(20_000)
	}
	if n := w.Lane("a", 64); n != 52 {
		t.Errorf("tasks of 20 kB: %d, want 2 MiB / (2 × 20,000 B) = 52", n)
	}
	for range 20 * windowSamples {
		w.Observe(1000)
	}
	if n := w.Lane("a", 64); n != 64 {
		t.Errorf("tasks of 1 kB: %d, want all of 64", n)
	}
	if n := w.Lane(coordinator.LaneHeld, 1500); n != 1500 {
		t.Errorf("of those that keep their place in the window: %d, want all of 1500", n)
	}
	small := NewWindow(10, mib, mib)
	if n := small.Lane("a", 64); n != 1 {
		t.Errorf("with window_bytes for one task: %d, want 1", n)
	}
}
