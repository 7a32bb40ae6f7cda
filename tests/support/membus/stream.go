package membus

import (
	"slices"
	"time"

	"taskbus/coordinator/bus"
)

const (
	// countedAfter is how late a stream's depth is: RabbitMQ counts every few seconds.
	countedAfter = 3 * time.Second
	// chunkMost bounds what a stream keeps together of what comes at one time.
	chunkMost = 16
)

// stream is a log: every consumer reads all of it, and consuming takes nothing away.
type stream struct {
	def     bus.Queue
	log     []*message // by offset
	next    int64      // the offset that the next message gets
	chunk   int64      // the offset with which the newest chunk begins
	readers []*consumer
}

func (s *stream) definition() bus.Queue  { return s.def }
func (s *stream) messages() []*message   { return s.log }
func (s *stream) consumers() []*consumer { return s.readers }
func (s *stream) counted() int           { return active(s.readers) }
func (s *stream) full() bool             { return false }
func (s *stream) peek(*session) bool     { return len(s.log) > 0 }
func (s *stream) usableBy(*session) bool { return true }

// depth is how many messages it had a while ago.
func (s *stream) depth() int {
	seen := time.Now().Add(-countedAfter)
	n, _ := slices.BinarySearchFunc(s.log, seen, func(m *message, seen time.Time) int {
		if m.at.After(seen) {
			return 1
		}
		return -1
	})
	return n
}

func (s *stream) append(m *message) {
	m.at, m.offset = time.Now(), s.next
	if n := len(s.log); n == 0 || !s.log[n-1].at.Equal(m.at) || m.offset-s.chunk >= chunkMost {
		s.chunk = m.offset
	}
	m.chunk = s.chunk
	s.next++
	s.log = append(s.log, m)
	s.serve()
}

func (s *stream) attach(c *consumer) {
	c.cursor = s.start(c.sub.From)
	s.readers = append(s.readers, c)
	s.serve()
}

// start is the offset from which on a new consumer reads; where no offset is given, that is the
// beginning of a chunk.
func (s *stream) start(from bus.Position) int64 {
	switch from.Kind() {
	case bus.PositionFirst:
		return 0
	case bus.PositionAt:
		return from.Offset()
	case bus.PositionLast:
		if n := len(s.log); n > 0 {
			return s.log[n-1].chunk
		}
	case bus.PositionAgo, bus.PositionSince:
		since := from.Since()
		if from.Kind() == bus.PositionAgo {
			since = time.Now().Add(-from.Ago())
		}
		if i := slices.IndexFunc(s.log, func(m *message) bool { return !m.at.Before(since) }); i >= 0 {
			return s.log[i].chunk
		}
	}
	return s.next
}

func (s *stream) detach(c *consumer) {
	s.readers = slices.DeleteFunc(s.readers, func(other *consumer) bool { return other == c })
	c.handBack()
}

func (s *stream) settle(*message, settlement) { s.serve() }

func (s *stream) close() []*consumer {
	readers := s.readers
	s.log, s.readers = nil, nil
	return readers
}

// from is the index of the first message at or behind an offset.
func (s *stream) from(offset int64) int {
	i, _ := slices.BinarySearchFunc(s.log, offset, func(m *message, offset int64) int {
		return int(min(max(m.offset-offset, -1), 1))
	})
	return i
}

// serve hands on to every consumer what it has credit for.
func (s *stream) serve() {
	for _, c := range s.readers {
		for i := s.from(c.cursor); i < len(s.log) && c.hasCredit(); i++ {
			c.push(s.log[i])
			c.cursor = s.log[i].offset + 1
		}
	}
}

// trim forgets what lies before an offset.
func (s *stream) trim(before int64) {
	s.log = slices.Delete(s.log, 0, s.from(before)) // lets go of them
}
