package service

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// maxSenders bounds the ids of which one kind of message is counted: ids may be invented.
const maxSenders = 32

// senderCounts counts messages of one kind in the last minute by the agent id that they name, for the health. It may
// be used by several goroutines.
type senderCounts struct {
	mu  sync.Mutex
	of  map[string]*minuteCount
	all minuteCount // also those of ids beyond maxSenders
}

// senderCount is how many messages of the last minute name an id; empty: it could not be read.
type senderCount struct {
	id string
	n  uint64
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
func (c *senderCounts) lastMinute(now time.Time) (all uint64, by []senderCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.of { // order does not matter: they are sorted
		if n := m.sum(now); n > 0 {
			by = append(by, senderCount{id, n})
		}
	}
	slices.SortFunc(by, func(a, b senderCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.id, b.id)) })
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
