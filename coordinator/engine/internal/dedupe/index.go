package dedupe

import (
	"slices"

	"taskbus/coordinator"
)

// index finds the record of a task id in blocks: hash tables with open addressing and linear probing.
// Ids are divided among them by the upper bits of their keys, so that each grows by itself and none is
// large. A slot takes eight bytes and a look-up one or two cache lines; a map of the same size takes
// three times the memory and, in a window of 100,000 ids, twice the time.
type index struct {
	tables [1 << tableBits]table
	used   int // ids in all tables
	// last is where the latest look-up has ended: a task is looked for several times in a row, and
	// most are not there.
	last struct {
		key   coordinator.TaskKey
		slot  int
		known bool
	}
}

const tableBits = 6

// table is at most 2/3 full, so that a look-up passes over little. When it would be more, or is less
// than 5/12, it is made anew to be 5/9 full: an id takes 12 to 19 bytes. Keys are handed over by
// address: copies of them are most of what a look-up costs.
type table struct {
	slots []slot
	used  int
}

// fewestSlots a table has that has any.
const fewestSlots = 8

// slot points to the record at place at-1; 0: the slot is empty. tag is part of its key, so that others
// need not be looked at, and says where it belongs.
type slot struct{ tag, at uint32 }

func tagOf(key *coordinator.TaskKey) uint32 { return uint32(key[0]) }

func (x *index) table(key *coordinator.TaskKey) *table {
	return &x.tables[key[0]>>(64-tableBits)]
}

// home returns the slot where a tag belongs: tags are spread over the table in their order.
func (t *table) home(tag uint32) int {
	return int(uint64(tag) * uint64(len(t.slots)) >> 32)
}

func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// slot finds the slot of a key, or the empty one where it would be. The table has slots.
func (t *table) slot(in *blocks, key *coordinator.TaskKey) int {
	slots, tag := t.slots, tagOf(key)
	for i := t.home(tag); ; {
		s := &slots[i]
		if s.at == 0 || s.tag == tag && in.peek(in.number(s.at-1)).Key == *key {
			return i
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
}

// slot returns that of the key in its table, which has slots.
func (x *index) slot(t *table, in *blocks, key *coordinator.TaskKey) int {
	if !x.last.known || x.last.key != *key {
		x.last.key, x.last.slot, x.last.known = *key, t.slot(in, key), true
	}
	return x.last.slot
}

// find returns the number of a key's record.
func (x *index) find(in *blocks, key *coordinator.TaskKey) (number uint64, ok bool) {
	t := x.table(key)
	if t.used == 0 {
		return 0, false
	}
	at := t.slots[x.slot(t, in, key)].at
	if at == 0 {
		return 0, false
	}
	return in.number(at - 1), true
}

// put notes that the key's record has that number; it holds the key already.
func (x *index) put(in *blocks, key *coordinator.TaskKey, number uint64) {
	t := x.table(key)
	if 3*(t.used+1) > 2*len(t.slots) {
		t.resize(t.used + 1)
		x.last.known = false
	}
	i := x.slot(t, in, key)
	if t.slots[i].at == 0 {
		t.used++
		x.used++
	}
	t.slots[i] = slot{tag: tagOf(key), at: in.place(number) + 1}
}

// drop forgets a key while its record is still there. Those behind it that would be
// nearer to where they belong move up, so that no look-up ends before its time.
func (x *index) drop(in *blocks, key *coordinator.TaskKey) {
	t := x.table(key)
	if t.used == 0 {
		return
	}
	gap := x.slot(t, in, key)
	if t.slots[gap].at == 0 {
		return
	}
	x.last.known = false
	t.used--
	x.used--
	for i := t.after(gap); t.slots[i].at != 0; i = t.after(i) {
		if home := t.home(t.slots[i].tag); t.distance(home, i) >= t.distance(gap, i) {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = slot{}
	if 12*t.used < 5*len(t.slots) && len(t.slots) > fewestSlots {
		t.resize(t.used)
	}
}

// distance returns how many slots a look-up that begins at from passes before it is at to.
func (t *table) distance(from, to int) int {
	if from <= to {
		return to - from
	}
	return to - from + len(t.slots)
}

// resize makes the table anew for so many ids. It looks at no record.
func (t *table) resize(ids int) {
	old := t.slots
	t.slots = slices.Grow([]slot(nil), max(fewestSlots, ids*9/5))
	t.slots = t.slots[:cap(t.slots)] // all that the allocator gives, which it has cleared
	for _, s := range old {
		if s.at == 0 {
			continue
		}
		i := t.home(s.tag)
		for t.slots[i].at != 0 {
			i = t.after(i)
		}
		t.slots[i] = s
	}
}
