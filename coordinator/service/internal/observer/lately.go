package observer

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator/service/internal/views"
)

// recentOutcomes counts what became of tasks in the last minute, for the health.
type recentOutcomes struct {
	mu    sync.Mutex
	kinds [views.NumRecentKinds]minuteCount
}

func (r *recentOutcomes) add(now time.Time, kind views.RecentKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds[kind].add(now)
}

// lastMinute sums up.
func (r *recentOutcomes) lastMinute(now time.Time) (sum views.RecentCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range r.kinds {
		sum[kind] = r.kinds[kind].sum(now)
	}
	return sum
}

// maxSenders bounds the ids of which one kind of message is counted: ids may be invented.
const maxSenders = 32

// senderCounts counts messages of one kind in the last minute by the agent id that they name, for the health. It may
// be used by several goroutines.
type senderCounts struct {
	mu  sync.Mutex
	of  map[string]*minuteCount
	all minuteCount // also those of ids beyond maxSenders
}

func (c *senderCounts) add(now time.Time, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.add(now)
	m := c.of[id]
	if m == nil {
		for old, count := range c.of {
			if count.sum(now) == 0 {
				delete(c.of, old)
			}
		}
		if len(c.of) == maxSenders {
			return
		}
		if c.of == nil {
			c.of = make(map[string]*minuteCount)
		}
		m = &minuteCount{}
		c.of[id] = m
	}
	m.add(now)
}

// lastMinute returns how many messages there were, and those by id, the most frequent first.
func (c *senderCounts) lastMinute(now time.Time) (all uint64, by []views.SenderCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.of { // order does not matter: they are sorted
		if n := m.sum(now); n > 0 {
			by = append(by, views.SenderCount{ID: id, N: n})
		}
	}
	slices.SortFunc(by, func(a, b views.SenderCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.ID, b.ID)) })
	return c.all.sum(now), by
}

// The slices in which the last minute is counted.
const (
	minuteSlices = 6
	sliceLength  = 10 * time.Second
)

// minuteCount counts what happened in the last minute.
type minuteCount [minuteSlices]struct {
	number int64
	n      uint64
}

func (m *minuteCount) add(now time.Time) {
	number := now.UnixNano() / int64(sliceLength)
	s := &m[number%int64(len(m))]
	if s.number != number {
		s.number, s.n = number, 0
	}
	s.n++
}

func (m *minuteCount) sum(now time.Time) (sum uint64) {
	number := now.UnixNano() / int64(sliceLength)
	for _, s := range m {
		if number-s.number < int64(len(m)) {
			sum += s.n
		}
	}
	return sum
}
