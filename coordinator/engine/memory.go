package engine

import (
	"math"
	"time"

	"taskbus/coordinator"
)

// mostAttempts is how many dispatches can be told apart that are made under one task id, while it
// is remembered.
const mostAttempts = math.MaxUint16

// asRecorded is an attempt as a record has it. What came back may name one that nobody made.
func asRecorded(attempt int) uint16 { return uint16(min(attempt, mostAttempts)) }

// record is what is remembered of one task id. It holds no pointer, so that the
// garbage collector need not look at any of the many.
type record struct {
	key     coordinator.TaskKey
	content uint64
	seen    time.Duration // since the memory's epoch
	ref     uint32        // open: number of the task; else: serial of the agent that had it last, 0: none
	attempt uint16        // the latest dispatch made under this id; 0: none
	fate    coordinator.Fate
	flags   recordFlags
}

// untold tells whether a delivery that was failed because of a cancel is here
// again without anybody knowing whether its outcome got through.
func (r *record) untold(redelivered bool) bool {
	return r.fate == coordinator.FateCancelled && r.ref == 0 && redelivered
}

// endedByWord reports whether a result of its agent ended the task: another result of that agent
// is a repetition, not news that is late.
func (r *record) endedByWord() bool {
	return r.fate.HasEnded() && r.fate != coordinator.FateTimedOut && r.flags&overdue == 0
}

// Overdue reports whether a task has ended because its agent had not told in time how it ended, or that
// it has stopped.
func Overdue(r *coordinator.Remembered) bool {
	return r.Fate == coordinator.FateTimedOut || r.Fate == coordinator.FateCancelled && recordFlags(r.Flags)&overdue != 0
}

// isWithdrawn: somebody cancelled the task while it was not open.
func (r *record) isWithdrawn() bool {
	return r.fate == coordinator.FateWithdrawn || r.flags&withdrawn != 0
}

// recordFlags is what is known of a dispatch that was let go, or of a task that has
// ended.
type recordFlags uint8

const (
	withdrawn recordFlags = 1 << iota // somebody asked to cancel it
	returning                         // its agent has said that it gives it back
	attempted                         // and that it had begun
	adopted                           // ended, assigned by an earlier coordinator: its content is not known
	replaced                          // there is a newer record of the same id
	overdue                           // cancelled, and its agent had not told in time that it stopped
	wasTried                          // it came back from its agent, which is not to have it again
)

// memory knows the task ids of the dedupe window, bounded by time and by number: their
// records in order of last sight, and an index from the key to the number of its
// record. An id takes 40 bytes there and 12 to 19 here, and both grow and shrink in
// small steps, so that no task pays for all the others.
type memory struct {
	recordBlocks // one for each id, and those that were replaced, which stay until their time
	epoch        time.Time
	index        idIndex
	reasons      cancelReasons // of records that are withdrawn; each goes with its record
}

// newMemory makes one that knows nothing.
func newMemory() memory { return memory{} }

// lookup finds the number of an id's record.
func (m *memory) lookup(key coordinator.TaskKey) (uint64, bool) {
	return m.index.find(&m.recordBlocks, &key)
}

// record finds the record of an id that is open or was a moment ago; number is
// what remember returned for it. nil when it has been dropped.
func (m *memory) record(key coordinator.TaskKey, number uint64) *record {
	if number >= m.first {
		return m.at(number)
	}
	if number, ok := m.lookup(key); ok { // moved on, because it was open for long
		return m.at(number)
	}
	return nil
}

// find returns the record of a task id, or nil when it is not in the window.
func (m *memory) find(now time.Time, key coordinator.TaskKey, s coordinator.Settings) *record {
	number, ok := m.lookup(key)
	if !ok {
		return nil
	}
	r := m.at(number)
	if !r.fate.IsOpen() && r.seen <= now.Sub(m.epoch)-s.DedupeWindow {
		return nil
	}
	return r
}

// remember notes a task as the newest, replacing what was known of its id, and
// returns the number of its record. A task that ended badly and is submitted
// again goes on counting its attempts (see record.attempt), so that no dispatch
// id is ever used for two dispatches.
func (m *memory) remember(now time.Time, key coordinator.TaskKey, content uint64, fate coordinator.Fate, ref uint32) uint64 {
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
			r.seen = old.seen // the records are in this order
			*old = r
			return number
		}
		old.fate, old.flags = coordinator.FateForgotten, replaced
	}
	return m.append(r)
}

// seenAlready: a task that is seen again so soon keeps its place among them. One that
// goes from agent to agent would otherwise use up the places of others.
const seenAlready = 10 * time.Second

// append adds a record as the newest.
func (m *memory) append(r record) uint64 {
	number := m.add()
	place := m.at(number)
	*place = r
	m.index.put(&m.recordBlocks, &place.key, number)
	return number
}

// expireStep is how many records one call of recall looks at: more than the one
// that can have come since the last call, and few enough that no task pays for
// all the others after a quiet hour, or when very many are open.
const expireStep = 8

// recall drops what is older than the window or beyond the bound, and then finds
// the record of a task id; nil when there is none (any more). A task that is
// still being decided, or with an agent that will tell how it ended, is kept as
// if it had just been seen.
func (e *Engine) recall(now time.Time, key coordinator.TaskKey) *record {
	m, s := &e.memory, e.policy.Settings
	since := now.Add(-s.DedupeWindow)
	oldest, today := since.Sub(m.epoch), later(now, e.now).Sub(m.epoch)
expiring:
	for range min(expireStep, m.size()) {
		r, from := m.peek(m.first), since
		switch {
		case m.index.used >= s.DedupeMaxIDs:
			from = now // there is no room for more
		case r.seen > today:
			m.seenAhead(r, today)
			m.dropFirst()
			continue
		case r.seen > oldest:
			break expiring
		}
		e.expire(now, from, r)
		m.dropFirst()
	}
	r := m.find(now, key, s)
	if t := e.tasks.of(r); t != nil && r.seen <= oldest && e.mayForget(t, since) {
		e.letGoWith(r, t)
		return nil
	}
	return r
}

// mayForget tells whether the dispatch may be let go of with the record of its id: an agent that
// has told of nothing yet may still tell of what it got after since, however long that waited.
func (e *Engine) mayForget(t *openTask, since time.Time) bool {
	return e.mayLetGo(t) && !t.settled.After(since)
}

// letGoWith lets go of a dispatch together with the record of its id.
func (e *Engine) letGoWith(r *record, t *openTask) {
	r.fate, r.ref = coordinator.FateForgotten, t.agent.serial
	e.noted(r, "") // as far as people are told it is with its agent
	e.quotaAsThought(t)
	e.retire(t)
}

// expire sees to it that the oldest record may be dropped: of a dispatch, if it was made no
// later than since.
func (e *Engine) expire(now, since time.Time, r *record) {
	m := &e.memory
	if r.flags&replaced != 0 {
		return
	}
	t := e.tasks.of(r)
	if t != nil && !e.mayForget(t, since) {
		again := *r
		again.seen = now.Sub(m.epoch)
		m.append(again)
		return
	}
	if t != nil { // on its agent's account it stays
		e.letGoWith(r, t)
	}
	if r.isWithdrawn() {
		m.reasons.drop(r.key)
	}
	m.index.drop(&m.recordBlocks, &r.key)
}

// Known is what the duplicate check knows of a task id, with its task while that is open; nil: it is not in the window.
func (e *Engine) Known(now time.Time, id coordinator.TaskID) *coordinator.Remembered {
	r := e.memory.find(now, coordinator.KeyOf(id), e.policy.Settings)
	if r == nil {
		return nil
	}
	m := e.remembered(r)
	if t := e.tasks.of(r); t != nil {
		m.Task, m.Attempt, m.Agent = t.task, t.attempt, ""
		if t.agent != nil {
			m.Agent = t.agent.spec.ID
		}
	}
	return m
}

// note changes the fate of the id of an open task.
func (m *memory) note(t *openTask, f coordinator.Fate, ref uint32, attempt int) {
	if r := m.record(t.key, t.record); r != nil {
		r.fate, r.ref, r.attempt = f, ref, asRecorded(attempt)
	}
}
