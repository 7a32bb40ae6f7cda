package taking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"taskbus/coordinator/bus"
)

// broker keeps what is asked of it; queues have as many consumers as were begun.
type broker struct {
	done      chan struct{}
	asked     []string
	consumers map[string]int
	refusal   map[string]error // of Unsubscribe
}

func (b *broker) Subscribe(_ context.Context, sub bus.Subscription) error {
	b.asked = append(b.asked, fmt.Sprint("+", sub.Queue, " ", sub.Prefetch))
	b.consumers[sub.Queue]++
	return nil
}

func (b *broker) Unsubscribe(_ context.Context, queue string) (bool, error) {
	if err := b.refusal[queue]; err != nil {
		return false, err
	}
	if b.consumers[queue] == 0 {
		return false, nil
	}
	b.asked = append(b.asked, "-"+queue)
	b.consumers[queue]--
	return true, nil
}

func (b *broker) Done() <-chan struct{} { return b.done }

// window changes as the test says.
type window struct {
	look   chan struct{}
	change int
	total  int
}

func (w *window) Open() int             { w.total = 4; return w.total }
func (w *window) Look() <-chan struct{} { return w.look }
func (w *window) Total() int            { return w.total }
func (w *window) Adapt(int64) int {
	if w.change > 0 {
		w.total += w.change
	}
	return w.change
}

// A window gets and loses one consumer for each look, its width is told when it is another, and nothing changes once
// no tasks are taken any more.
func TestWindowIsAdapted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{done: make(chan struct{}), consumers: make(map[string]int)}
		c := New(Options{Bus: b, Fault: func(err error) { t.Error(err) }, Unended: func(string, error) {}})
		w := &window{look: make(chan struct{})}
		var told []int
		in := Queue{Name: "q", Window: w, Handle: func(bus.Delivery) {}, Held: func() int64 { return 0 },
			Told: func(n int) { told = append(told, n) }}
		if err := c.Open(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		go c.Adapt(in)
		for _, change := range []int{0, 6, -1} {
			w.change = change
			w.look <- struct{}{}
			synctest.Wait()
		}
		c.Stop(t.Context())
		w.change = 7
		w.look <- struct{}{}
		synctest.Wait()
		close(b.done)
		synctest.Wait()
		if want := []string{"+q 4", "+q 6", "-q"}; !slices.Equal(b.asked, want) || !slices.Equal(told, []int{4, 10}) {
			t.Errorf("asked for %q, told %v", b.asked, told)
		}
	})
}

// Stop ends every consumer, whatever becomes of one, unless the session has ended.
func TestStop(t *testing.T) {
	b := &broker{consumers: map[string]int{"a": 2, "b": 1, "c": 1, "d": 1},
		refusal: map[string]error{"b": errors.New("no"), "d": bus.ErrClosed}}
	var unended []string
	c := New(Options{Bus: b, Unended: func(queue string, _ error) { unended = append(unended, queue) }})
	c.Stop(t.Context(), "a", "b", "c", "d")
	if want := []string{"-a", "-a", "-c"}; !slices.Equal(b.asked, want) || !slices.Equal(unended, []string{"b"}) {
		t.Errorf("ended %q, not ended %q", b.asked, unended)
	}
}
