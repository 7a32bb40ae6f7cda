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
	fateOpen                   // being decided
	fateUnsettled              // published, answer unknown: the session ended
	fateDispatched             // confirmed
)

// record is what is remembered of one task id.
type record struct {
	key     idKey
	content uint64
	seen    time.Duration // since the memory's epoch
	attempt uint16        // the latest dispatch made under this id; 0: none
	fate    fate
}

// openDecision is a dispatch whose confirm never came: a copy of the task goes
// the same way, under the same dispatch id.
type openDecision struct {
	agent   coordinator.AgentID
	attempt int
}

// memory knows the task ids of the dedupe window, bounded by time and by number:
// a ring of records in order of last sight, numbered from 0 on, and an index
// from the first half of the key to the number. (Two ids that share 64 bits of
// hash would share one place in it, and the older would be forgotten early: at
// 100,000 ids that is to be expected once in four billion such windows.)
type memory struct {
	epoch       time.Time
	ring        []record // its length is a power of two
	first, next uint64   // numbers of the oldest record and of the next to come
	index       map[uint64]uint64
	unsettled   map[idKey]openDecision
}

func newMemory() memory {
	return memory{
		ring:      make([]record, 1024),
		index:     make(map[uint64]uint64),
		unsettled: make(map[idKey]openDecision),
	}
}

// size is how many records the ring holds; those that were replaced by a newer
// one of the same id stay until their time.
func (m *memory) size() int { return int(m.next - m.first) }

func (m *memory) at(number uint64) *record { return &m.ring[number&uint64(len(m.ring)-1)] }

// lookup finds the number of an id's record.
func (m *memory) lookup(key idKey) (uint64, bool) {
	number, ok := m.index[key[0]]
	return number, ok && m.at(number).key == key
}

// record finds the record of an id that is open or was a moment ago; number is
// what remember returned for it. nil when it has been dropped.
func (m *memory) record(key idKey, number uint64) *record {
	if number >= m.first {
		return m.at(number)
	}
	if number, ok := m.lookup(key); ok { // moved on, because it was open for long
		return m.at(number)
	}
	return nil
}

// find returns the record of a task id, or nil when it is not in the window.
func (m *memory) find(now time.Time, key idKey, s coordinator.Settings) *record {
	m.expire(now, s)
	number, ok := m.lookup(key)
	if !ok {
		return nil
	}
	r := m.at(number)
	past := r.seen <= now.Sub(m.epoch)-s.DedupeWindow && r.fate != fateOpen
	if past || r.fate == fateForgotten {
		return nil
	}
	return r
}

// remember notes an open task as the newest, replacing what was known of its id,
// and returns the number of its record. A task that failed and is submitted
// again goes on counting its attempts (see record.attempt), so that no dispatch
// id is ever used for two dispatches.
func (m *memory) remember(now time.Time, key idKey, content uint64) uint64 {
	if m.epoch.IsZero() {
		m.epoch = now
	}
	r := record{key: key, content: content, seen: now.Sub(m.epoch), fate: fateOpen}
	if number, ok := m.lookup(key); ok {
		old := m.at(number)
		if old.fate == fateUnsettled {
			delete(m.unsettled, key)
		}
		r.attempt, old.fate = old.attempt, fateForgotten
	}
	return m.append(r)
}

// append adds a record as the newest, growing the ring when it is full.
func (m *memory) append(r record) uint64 {
	if m.size() == len(m.ring) {
		grown := make([]record, 2*len(m.ring))
		for number := m.first; number < m.next; number++ {
			grown[number&uint64(len(grown)-1)] = *m.at(number)
		}
		m.ring = grown
	}
	number := m.next
	m.next++
	*m.at(number) = r
	m.index[r.key[0]] = number
	return number
}

// expireStep is how many records one call of expire looks at: more than the one
// that can have come since the last call, and few enough that no task pays for
// all the others after a quiet hour, or when very many are open.
const expireStep = 8

// expire drops what is older than the window or beyond the bound. A task that is
// still open is kept, as if it had just been seen.
func (m *memory) expire(now time.Time, s coordinator.Settings) {
	oldest := now.Sub(m.epoch) - s.DedupeWindow
	for range min(expireStep, m.size()) {
		r := m.at(m.first)
		if r.seen > oldest && m.size() < s.DedupeMaxIDs {
			return
		}
		number := m.first
		m.first++
		if r.fate == fateUnsettled {
			delete(m.unsettled, r.key)
		}
		switch {
		case m.index[r.key[0]] != number: // replaced by a newer one
		case r.fate == fateOpen:
			again := *r
			again.seen = now.Sub(m.epoch)
			m.append(again)
		default:
			delete(m.index, r.key[0])
		}
	}
}

// forget lets the id come again as if it were new, but for the number of
// dispatches already made under it.
func (m *memory) forget(key idKey, number uint64, dispatches int) {
	if r := m.record(key, number); r != nil {
		r.fate, r.attempt = fateForgotten, uint16(dispatches)
	}
}

// settle notes that a dispatch of the id was confirmed under this attempt.
func (m *memory) settle(key idKey, number uint64, attempt int) {
	if r := m.record(key, number); r != nil {
		r.fate, r.attempt = fateDispatched, uint16(attempt)
	}
}

// leaveOpen notes that the answer to a dispatch never came.
func (m *memory) leaveOpen(key idKey, number uint64, d openDecision) {
	if r := m.record(key, number); r != nil {
		r.fate, r.attempt = fateUnsettled, uint16(d.attempt)
		m.unsettled[key] = d
	}
}
