package engine

import (
	"time"

	"taskbus/coordinator"
)

// idKey is a task id by 128 bits of hash: small, and of one size however long
// the id is.
type idKey [2]uint64

func keyOf(id coordinator.TaskID) idKey {
	return idKey{hash64(string(id), 0), hash64(string(id), 0x9e3779b97f4a7c15)}
}

// fate is what became of a task id that has been seen.
type fate uint8

const (
	fateForgotten  fate = iota // may come again as if new
	fateOpen                   // being decided: handle names the delivery held
	fateUnsettled              // published, answer unknown: the session ended
	fateDispatched             // confirmed
)

// record is what is remembered of one task id.
type record struct {
	key     idKey
	content uint64
	handle  coordinator.Handle // while fateOpen
	seen    time.Duration      // since the memory's epoch
	attempt uint16
	fate    fate
}

// openDecision is a dispatch whose confirm never came: a copy of the task goes
// the same way, under the same dispatch id.
type openDecision struct {
	agent   coordinator.AgentID
	attempt int
}

// memory knows the task ids of the dedupe window, bounded by time and by number.
// It is a ring of records in order of first sight and an index into it.
type memory struct {
	epoch     time.Time
	ring      []record
	head, n   int // oldest record, number of records
	index     map[idKey]int
	unsettled map[idKey]openDecision
}

func newMemory() memory {
	return memory{index: make(map[idKey]int), unsettled: make(map[idKey]openDecision)}
}

// find returns the record of a task id, or nil when it is not in the window.
func (m *memory) find(now time.Time, key idKey, s coordinator.Settings) *record {
	m.expire(now, s)
	i, ok := m.index[key]
	if !ok {
		return nil
	}
	r := &m.ring[i]
	past := r.seen <= now.Sub(m.epoch)-s.DedupeWindow && r.fate != fateOpen
	if past || r.fate == fateForgotten {
		return nil
	}
	return r
}

// remember notes an open task as the newest, replacing what was known of its id.
// It returns how many dispatches were made under this id before: a task that
// failed and is submitted again goes on counting its attempts, so that no
// dispatch id is ever used for two dispatches.
func (m *memory) remember(now time.Time, key idKey, content uint64, h coordinator.Handle) (dispatches int) {
	if m.epoch.IsZero() {
		m.epoch = now
	}
	delete(m.unsettled, key)
	if i, ok := m.index[key]; ok {
		dispatches = int(m.ring[i].attempt)
		m.ring[i].fate = fateForgotten // what stays behind in the ring is not in the index
	}
	m.append(record{
		key: key, content: content, handle: h, seen: now.Sub(m.epoch),
		attempt: uint16(dispatches), fate: fateOpen,
	})
	return dispatches
}

// append adds a record as the newest, growing the ring when it is full.
func (m *memory) append(r record) {
	if m.n == len(m.ring) {
		grown := make([]record, max(1024, 2*len(m.ring)))
		moved := make(map[idKey]int, len(m.index))
		for i := range m.n {
			at := (m.head + i) % len(m.ring)
			grown[i] = m.ring[at]
			if m.index[grown[i].key] == at {
				moved[grown[i].key] = i
			}
		}
		m.ring, m.head, m.index = grown, 0, moved
	}
	i := (m.head + m.n) % len(m.ring)
	m.ring[i] = r
	m.index[r.key] = i
	m.n++
}

// expireStep is how many records one call of expire looks at: more than the one
// that can have come since the last call, and few enough that no task pays for
// all the others after a quiet hour, or when very many are open.
const expireStep = 8

// expire drops what is older than the window or beyond the bound. A task that is
// still open is kept, as if it had just been seen.
func (m *memory) expire(now time.Time, s coordinator.Settings) {
	oldest := now.Sub(m.epoch) - s.DedupeWindow
	for range min(expireStep, m.n) {
		r := m.ring[m.head]
		if r.seen > oldest && m.n < s.DedupeMaxIDs {
			return
		}
		replaced := m.index[r.key] != m.head
		m.head = (m.head + 1) % len(m.ring)
		m.n--
		if replaced {
			continue
		}
		if r.fate == fateOpen {
			r.seen = now.Sub(m.epoch)
			m.append(r)
			continue
		}
		delete(m.index, r.key)
		delete(m.unsettled, r.key)
	}
}

// forget lets the id come again as if it were new, but for the number of
// dispatches already made under it.
func (m *memory) forget(key idKey, dispatches int) {
	if i, ok := m.index[key]; ok {
		r := &m.ring[i]
		r.fate, r.handle, r.attempt = fateForgotten, 0, uint16(dispatches)
	}
	delete(m.unsettled, key)
}

// settle notes that a dispatch of the id was confirmed under this attempt.
func (m *memory) settle(key idKey, attempt int) {
	if i, ok := m.index[key]; ok {
		m.ring[i].fate, m.ring[i].handle, m.ring[i].attempt = fateDispatched, 0, uint16(attempt)
	}
}

// leaveOpen notes that the answer to a dispatch never came.
func (m *memory) leaveOpen(key idKey, d openDecision) {
	if i, ok := m.index[key]; ok {
		m.ring[i].fate, m.ring[i].handle, m.ring[i].attempt = fateUnsettled, 0, uint16(d.attempt)
		m.unsettled[key] = d
	}
}
