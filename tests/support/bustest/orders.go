package bustest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"taskbus/coordinator/bus"
)

// The three orders of publications: the mandatory ones, the optional ones, and those
// apart.
func orderCases() []testCase {
	return []testCase{
		{name: "each keeps its order, and one is told of at a time", run: ordersKept},
		{name: "what is apart is mandatory", run: apartIsMandatory},
		{name: "each has a window of its own", run: ordersHaveWindows},
	}
}

const orders = 3

// ordered is publication i of an order.
func ordered(order, i int) bus.Publication {
	p := bus.Publication{Token: uint64(order*10_000 + i), Body: []byte(fmt.Sprint(i))}
	switch order {
	case 0:
		p.Key = "mandatory"
	case 1:
		p.Key, p.Optional = "optional", true
	case 2:
		p.Key, p.Apart = "apart", true
	}
	return p
}

func orderTopology() bus.Topology {
	return declare(quorum("mandatory"), quorum("optional"), stream("apart"))
}

// told keeps what OnSettled is told, by order.
type told struct {
	inside   atomic.Int32 // calls under way
	overlaps atomic.Int32
	mu       sync.Mutex
	tokens   [orders][]uint64
	outcomes map[bus.Outcome]int
	arrived  chan struct{}
}

func newTold() *told {
	return &told{outcomes: map[bus.Outcome]int{}, arrived: make(chan struct{}, 1<<12)}
}

func (h *told) settle(token uint64, outcome bus.Outcome) {
	if h.inside.Add(1) > 1 {
		h.overlaps.Add(1)
	}
	defer h.inside.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens[token/10_000] = append(h.tokens[token/10_000], token)
	h.outcomes[outcome]++
	h.arrived <- struct{}{}
}

func ordersKept(r *rig) {
	const n = 200
	h := newTold()
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{Name: "bustest", Topology: orderTopology(), Window: 8,
		OnSettled: h.settle})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close(r.ctx()) }()
	var wg sync.WaitGroup
	for order := range orders {
		wg.Go(func() {
			for i := range n {
				if err := s.Publish(ordered(order, i)); err != nil {
					r.t.Errorf("Publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for range orders * n {
		receive(r.t, "every publication to be settled", h.arrived)
	}
	if h.overlaps.Load() > 0 || h.outcomes[bus.Confirmed] != orders*n {
		r.t.Errorf("OnSettled was called %d times while it was busy, outcomes %v; want 0, and %d × %d confirmed",
			h.overlaps.Load(), h.outcomes, orders, n)
	}
	for order, tokens := range h.tokens {
		if len(tokens) != n || !slices.IsSorted(tokens) {
			r.t.Errorf("order %d: %d settled, sorted: %v; want %d in order", order, len(tokens), slices.IsSorted(tokens), n)
		}
	}
	reader := r.open(declare())
	for order := range orders {
		in := reader.readFrom(ordered(order, 0).Key, n, bus.First())
		for i := range n {
			in.bodies(fmt.Sprint(i))
		}
	}
}

func apartIsMandatory(r *rig) {
	c := r.open(declare(stream("s")))
	p := text("missing", "x")
	p.Apart = true
	if got := c.outcome(p); got != bus.Unroutable {
		r.t.Errorf("apart to a missing queue is %v, want unroutable", got)
	}
	p.Optional = true
	if got := c.outcome(p); got != bus.Confirmed {
		r.t.Errorf("optional to a missing queue is %v, apart or not; want confirmed", got)
	}
	p = text("s", "x")
	p.Apart = true
	c.storePub(p)
	c.readFrom("s", 1, bus.First()).bodies("x")
}

// While no outcome is handed over nothing is settled, and every window fills up
// by itself.
func ordersHaveWindows(r *rig) {
	const window, n = 100, 150
	want := [orders]int{window, window, bus.WindowApart}
	gate, h := make(chan struct{}), newTold()
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	s, err := r.bus.Open(r.ctx(), bus.SessionSpec{
		Name: "bustest", Topology: orderTopology(), Window: window,
		OnSettled: func(token uint64, outcome bus.Outcome) {
			<-gate
			h.settle(token, outcome)
		},
	})
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close(r.ctx()) }()
	var mu sync.Mutex
	var accepted [orders]int
	for order := range orders {
		go func() {
			for i := range n {
				if err := s.Publish(ordered(order, i)); err != nil {
					r.t.Errorf("Publish: %v", err)
					return
				}
				mu.Lock()
				accepted[order]++
				mu.Unlock()
			}
		}()
	}
	eventually(r.t, fmt.Sprintf("%v publications to be accepted", want), func() bool {
		mu.Lock()
		defer mu.Unlock()
		return accepted == want
	})
	open()
	for range orders * n {
		receive(r.t, "every publication to be settled", h.arrived)
	}
}
