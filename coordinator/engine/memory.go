package engine

import (
	"time"

	"taskbus/coordinator"
)

// idKey is a task id by 128 bits of hash: small, and of one size however long
// the id is.
type idKey [2]uint64

func keyOf(id coordinator.TaskID) idKey {
	return idKey{coordinator.Hash(string(id), 0), coordinator.Hash(string(id), 0x9e3779b97f4a7c15)}
}

// fate is what became of a task id that has been seen.
type fate uint8

const (
	fateForgotten  fate = iota // given up before it had an end: may come again as if new
	fateFailed                 // refused with its delivery: may come again as if new
	fateOpen                   // being decided
	fateUnsettled              // published, answer unknown: the session ended
	fateDispatched             // confirmed: an agent has it
	fateLetGo                  // confirmed, and its agent says no more than heartbeats
	fateSucceeded              // ended by its agent's word
	fateGaveUp                 // ended as failed by its agent's word: may come again as if new
	fateTimedOut               // no result in time: may come again as if new
	fateWithdrawn              // cancelled before it was ever seen
	fateCancelled              // ended by a cancel, with its delivery (ref 0) or by its agent
)

// isOpen: the record's task is one of the engine's open tasks, and ref its number.
func (f fate) isOpen() bool { return f == fateOpen || f == fateUnsettled || f == fateDispatched }

// mayComeAgain: a message from task.assign under this id is taken as a new task.
func (f fate) mayComeAgain() bool {
	return f == fateForgotten || f == fateFailed || f == fateGaveUp || f == fateTimedOut
}

// hasEnded: its outcome has been told, and not with a delivery that the broker
// may hand out again.
func (f fate) hasEnded() bool {
	return f == fateSucceeded || f == fateGaveUp || f == fateTimedOut || f == fateCancelled
}

// record is what is remembered of one task id. It holds no pointer, so that the
// garbage collector need not look at the ring.
type record struct {
	key     idKey
	content uint64
	seen    time.Duration // since the memory's epoch
	ref     uint32        // open: number of the task; else: serial of the agent that had it last, 0: none
	attempt uint16        // the latest dispatch made under this id; 0: none
	fate    fate
	flags   recordFlags
}

// untold tells whether a delivery that was failed because of a cancel is here
// again without anybody knowing whether its outcome got through.
func (r *record) untold(redelivered bool) bool {
	return r.fate == fateCancelled && r.ref == 0 && redelivered
}

// isWithdrawn: somebody cancelled the task while it was not open.
func (r *record) isWithdrawn() bool { return r.fate == fateWithdrawn || r.flags&withdrawn != 0 }

// recordFlags is what is known of a dispatch that was let go, or of a task that has
// ended.
type recordFlags uint8

const (
	withdrawn recordFlags = 1 << iota // somebody asked to cancel it
	returning                         // its agent has said that it gives it back
	attempted                         // and that it had begun
	adopted                           // ended, assigned by an earlier coordinator: its content is not known
	replaced                          // there is a newer record of the same id
)

// memory knows the task ids of the dedupe window, bounded by time and by number:
// a ring of records in order of last sight, numbered from 0 on, and an index from
// the key to the place in the ring. An id takes 40 bytes there and 16 here, and as
// much again while both have just grown.
type memory struct {
	epoch       time.Time
	ring        []record // its length is a power of two
	first, next uint64   // numbers of the oldest record and of the next to come
	index       idIndex
	reasons     cancelReasons // of records that are withdrawn; each goes with its record
}

func newMemory() memory {
	const begin = 1024
	return memory{ring: make([]record, begin), index: newIDIndex(begin)}
}

// size is how many records the ring holds: one for each id, and those that were
// replaced by a newer one of the same id, which stay until their time.
func (m *memory) size() int { return int(m.next - m.first) }

func (m *memory) at(number uint64) *record { return &m.ring[number&uint64(len(m.ring)-1)] }

// lookup finds the number of an id's record.
func (m *memory) lookup(key idKey) (uint64, bool) {
	place, ok := m.index.find(m.ring, key)
	return m.first + (uint64(place)-m.first)&uint64(len(m.ring)-1), ok
}

func (m *memory) place(number uint64) uint32 { return uint32(number & uint64(len(m.ring)-1)) }

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
	number, ok := m.lookup(key)
	if !ok {
		return nil
	}
	r := m.at(number)
	if !r.fate.isOpen() && r.seen <= now.Sub(m.epoch)-s.DedupeWindow {
		return nil
	}
	return r
}

// remember notes a task as the newest, replacing what was known of its id, and
// returns the number of its record. A task that ended badly and is submitted
// again goes on counting its attempts (see record.attempt), so that no dispatch
// id is ever used for two dispatches.
func (m *memory) remember(now time.Time, key idKey, content uint64, fate fate, ref uint32) uint64 {
	if m.epoch.IsZero() {
		m.epoch = now
	}
	r := record{key: key, content: content, seen: now.Sub(m.epoch), fate: fate, ref: ref}
	if number, ok := m.lookup(key); ok {
		old := m.at(number)
		if old.isWithdrawn() {
			m.reasons.drop(key)
		}
		r.attempt = old.attempt
		if r.seen-old.seen < seenAlready {
			r.seen = old.seen // the ring is in this order
			*old = r
			return number
		}
		old.fate, old.flags = fateForgotten, replaced
	}
	return m.append(r)
}

// seenAlready: a task that is seen again so soon keeps its place in the ring. One that
// goes from agent to agent would otherwise use up the places of others.
const seenAlready = 10 * time.Second

// append adds a record as the newest, growing the ring when it is full.
func (m *memory) append(r record) uint64 {
	if m.size() == len(m.ring) {
		grown := make([]record, 2*len(m.ring))
		for number := m.first; number < m.next; number++ {
			grown[number&uint64(len(grown)-1)] = *m.at(number)
		}
		m.ring, m.index = grown, newIDIndex(len(grown))
		for number := m.first; number < m.next; number++ {
			if r := m.at(number); r.flags&replaced == 0 {
				m.index.put(m.ring, r.key, m.place(number))
			}
		}
	}
	number := m.next
	m.next++
	*m.at(number) = r
	m.index.put(m.ring, r.key, m.place(number))
	return number
}

// expireStep is how many records one call of expire looks at: more than the one
// that can have come since the last call, and few enough that no task pays for
// all the others after a quiet hour, or when very many are open.
const expireStep = 8

// recall drops what is older than the window or beyond the bound, and then finds
// the record of a task id; nil when there is none (any more). A task that is
// still being decided, or with an agent that will tell how it ended, is kept as
// if it had just been seen.
func (e *Engine) recall(now time.Time, key idKey) *record {
	m, s := &e.memory, e.policy.Settings
	oldest := now.Sub(m.epoch) - s.DedupeWindow
	for range min(expireStep, m.size()) {
		r := m.at(m.first)
		if r.seen > oldest && m.index.used < s.DedupeMaxIDs {
			break
		}
		m.first++
		if r.flags&replaced != 0 {
			continue
		}
		t := e.tasks.of(r)
		if t != nil && !e.mayLetGo(t) {
			again := *r
			again.seen = now.Sub(m.epoch)
			m.append(again)
			continue
		}
		if t != nil { // on its agent's account it stays
			e.retire(t)
		}
		if r.isWithdrawn() {
			m.reasons.drop(r.key)
		}
		m.index.drop(m.ring, r.key)
	}
	r := m.find(now, key, s)
	if t := e.tasks.of(r); t != nil && r.seen <= oldest && e.mayLetGo(t) {
		r.fate = fateForgotten
		e.retire(t)
		return nil
	}
	return r
}

// note changes the fate of the id of an open task.
func (m *memory) note(t *openTask, f fate, ref uint32, attempt int) {
	if r := m.record(t.key, t.record); r != nil {
		r.fate, r.ref, r.attempt = f, ref, uint16(attempt)
	}
}
