package membus

import (
	"slices"
	"time"

	"taskbus/coordinator/bus"
)

// stream is a log: every consumer reads all of it, and nothing is taken away.
type stream struct {
	def     bus.Queue
	log     []*message
	readers []*consumer
}

func (s *stream) definition() bus.Queue  { return s.def }
func (s *stream) messages() []*message   { return s.log }
func (s *stream) consumers() []*consumer { return s.readers }
func (s *stream) full() bool             { return false }
func (s *stream) usableBy(*session) bool { return true }

func (s *stream) append(m *message) {
	m.at, m.offset, m.inStream = time.Now(), len(s.log), true
	s.log = append(s.log, m)
	s.serve()
}

func (s *stream) attach(c *consumer, from time.Duration) {
	c.cursor = len(s.log)
	if from > 0 {
		start := time.Now().Add(-from)
		first := slices.IndexFunc(s.log, func(m *message) bool { return !m.at.Before(start) })
		if first >= 0 {
			c.cursor = first
		}
	}
	s.readers = append(s.readers, c)
	s.serve()
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

// serve hands on to every consumer what it has credit for.
func (s *stream) serve() {
	for _, c := range s.readers {
		for c.cursor < len(s.log) && c.hasCredit() {
			c.push(s.log[c.cursor])
			c.cursor++
		}
	}
}
