package engine

// idIndex finds the record of a task id in the memory's ring: a hash table with open
// addressing and linear probing, at most half full. A slot takes eight bytes and a
// look-up one or two cache lines; a map of the same size takes three times the
// memory and, in a window of 100,000 ids, twice the time.
type idIndex struct {
	slots []idSlot // their number is a power of two
	used  int
}

// idSlot points to the record at place at-1 of the ring; 0: the slot is empty. tag is
// part of its key, so that others need not be looked at, and says where it belongs.
type idSlot struct{ tag, at uint32 }

func tagOf(key idKey) uint32 { return uint32(key[0]) }

// newIDIndex has room for the records of a ring of that length.
func newIDIndex(ring int) idIndex { return idIndex{slots: make([]idSlot, 2*ring)} }

func (x *idIndex) after(i uint32) uint32 { return (i + 1) & uint32(len(x.slots)-1) }

// slot finds the slot of a key, or the empty one where it would be.
func (x *idIndex) slot(ring []record, key idKey) uint32 {
	tag := tagOf(key)
	i := tag & uint32(len(x.slots)-1)
	for x.slots[i].at != 0 && (x.slots[i].tag != tag || ring[x.slots[i].at-1].key != key) {
		i = x.after(i)
	}
	return i
}

// find gives the place of a key's record.
func (x *idIndex) find(ring []record, key idKey) (place uint32, ok bool) {
	s := x.slots[x.slot(ring, key)]
	return s.at - 1, s.at != 0
}

// put notes that the key's record is at that place, which holds it already.
func (x *idIndex) put(ring []record, key idKey, place uint32) {
	i := x.slot(ring, key)
	if x.slots[i].at == 0 {
		x.used++
	}
	x.slots[i] = idSlot{tag: tagOf(key), at: place + 1}
}

// drop forgets a key. Those behind it that would be nearer to where they belong move
// up, so that no look-up ends before its time.
func (x *idIndex) drop(ring []record, key idKey) {
	gap := x.slot(ring, key)
	if x.slots[gap].at == 0 {
		return
	}
	x.used--
	mask := uint32(len(x.slots) - 1)
	for i := x.after(gap); x.slots[i].at != 0; i = x.after(i) {
		if home := x.slots[i].tag & mask; (i-home)&mask >= (i-gap)&mask {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = idSlot{}
}
