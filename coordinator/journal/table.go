package journal

import "hash/maphash"

// stringTable numbers the strings of one message in the order in which they appear.
// It is a hash table with open addressing whose slots say for which message they
// were written, so that it is emptied for the next one at no cost. The zero value is
// ready for use.
type stringTable struct {
	slots   []tableSlot // a power of two, at most half full
	strings []string
	message uint32 // number of the message: slots of another one are free
	seed    maphash.Seed
}

type tableSlot struct {
	message uint32
	number  uint32
}

// smallTable is how many slots there are to begin with: enough for a batch at rest.
const smallTable = 64

// clear forgets all strings.
func (t *stringTable) clear() {
	clear(t.strings) // lets go of them
	t.strings = t.strings[:0]
	t.message++
	if t.slots == nil || t.message == 0 {
		t.slots = make([]tableSlot, max(smallTable, len(t.slots)))
		t.message = 1
		t.seed = maphash.MakeSeed() // decides the order of the slots, not the numbers
	}
}

// number gives the number of s, from 0, and whether it has just got it.
func (t *stringTable) number(s string) (int, bool) {
	i := t.find(s)
	if t.slots[i].message == t.message {
		return int(t.slots[i].number), false
	}
	n := len(t.strings)
	t.strings = append(t.strings, s)
	t.slots[i] = tableSlot{t.message, uint32(n)}
	if 2*len(t.strings) > len(t.slots) {
		t.grow()
	}
	return n, true
}

func (t *stringTable) grow() {
	t.slots = make([]tableSlot, 2*len(t.slots))
	for n, s := range t.strings {
		t.slots[t.find(s)] = tableSlot{t.message, uint32(n)}
	}
}

// find gives the slot of s, or the free one where it belongs.
func (t *stringTable) find(s string) int {
	mask := len(t.slots) - 1
	for i := int(maphash.String(t.seed, s)) & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot.message != t.message || t.strings[slot.number] == s {
			return i
		}
	}
}
