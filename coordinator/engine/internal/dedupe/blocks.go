package dedupe

import (
	"iter"
	"slices"
	"time"

	"taskbus/coordinator"
)

// blockLen is how many records a block holds: 20 KiB, so that to take one in, let one go or copy one
// takes microseconds, and what is unused in the first and the last weighs little beside 20,000 ids.
const (
	blockBits = 9
	blockLen  = 1 << blockBits
)

// blocks hold records in the order in which they were seen, numbered from 0 on. They grow and shrink by
// a block at a time; nothing is ever moved.
type blocks struct {
	first, next uint64    // numbers of the oldest record and of the next to come
	epoch       time.Time // from which on the times of records count
	list        []block
	spare       *[blockLen]Record // was let go; nil: none
}

type block struct {
	records *[blockLen]Record
	shared  bool // with an image, which must not see it change
}

// size returns how many records there are.
func (b *blocks) size() int { return int(b.next - b.first) }

// Seen returns when the id of a record was seen last.
func (b *blocks) Seen(r *Record) time.Time { return b.epoch.Add(r.seen) }

func (b *blocks) block(number uint64) *block {
	return &b.list[number>>blockBits-b.first>>blockBits]
}

// at returns the record of that number, from first on and before next. It may be changed until the next
// image.
func (b *blocks) at(number uint64) *Record {
	block := b.block(number)
	if block.shared {
		own := *block.records
		block.records, block.shared = &own, false
	}
	return &block.records[number%blockLen]
}

// peek is at for reading, which is cheaper after an image.
func (b *blocks) peek(number uint64) *Record {
	return &b.block(number).records[number%blockLen]
}

// add makes room for a record as the newest, and returns its number.
func (b *blocks) add() uint64 {
	number := b.next
	if number>>blockBits-b.first>>blockBits == uint64(len(b.list)) {
		if b.spare == nil {
			b.spare = new([blockLen]Record)
		}
		b.list = append(b.list, block{records: b.spare})
		b.spare = nil
	}
	b.next++
	return number
}

// dropFirst drops the oldest record; there is one.
func (b *blocks) dropFirst() {
	b.first++
	if b.first%blockLen == 0 {
		if last := b.list[0]; !last.shared {
			b.spare = last.records
		}
		b.list[0] = block{}
		b.list = b.list[1:]
		if b.first>>blockBits%64 == 0 { // else a list that was long would stay so
			b.list = slices.Clone(b.list)
		}
	}
}

// placeMask bounds places: a number without its upper bits. Half as many places can be distinguished as
// records could ever be held.
const placeMask = 1<<31 - 1

// place returns a number in 31 bits, which is enough to find its record as long as it is held.
func (b *blocks) place(number uint64) uint32 { return uint32(number & placeMask) }

// number returns the one that has this place.
func (b *blocks) number(place uint32) uint64 {
	return b.first + (uint64(place)-b.first)&placeMask
}

// Latest yields the latest record of each id, the oldest first, for reading.
func (b *blocks) Latest() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for number := b.first; number < b.next; number++ {
			if r := b.peek(number); r.Flags&replaced == 0 && !yield(r) {
				return
			}
		}
	}
}

// Image is a window as it was at one moment, for reading, also by another goroutine.
type Image struct {
	blocks
	Reasons map[coordinator.TaskKey]string // of cancels; the caller's
}

// Image copies nothing but the list of blocks, and reasons: a block that both have is copied when a
// record of it is about to change, which takes some µs.
func (w *Window) Image() Image {
	m := Image{w.blocks.image(), make(map[coordinator.TaskKey]string, len(w.reasons.list))}
	for _, r := range w.reasons.list {
		m.Reasons[r.key] = r.text
	}
	return m
}

func (b *blocks) image() blocks {
	for i := range b.list {
		b.list[i].shared = true
	}
	return blocks{first: b.first, next: b.next, epoch: b.epoch, list: slices.Clone(b.list)}
}
