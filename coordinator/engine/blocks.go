package engine

import (
	"iter"
	"slices"
)

// blockLen is how many records a block holds: 20 KiB, so that taking one in, letting
// one go and copying one are a matter of microseconds, and what is unused in the first
// and the last weighs little beside 20,000 ids.
const (
	blockBits = 9
	blockLen  = 1 << blockBits
)

// recordBlocks holds records in the order in which they came, numbered from 0 on, in
// blocks. It grows and shrinks by a block at a time; nothing is ever moved.
type recordBlocks struct {
	first, next uint64 // numbers of the oldest record and of the next to come
	blocks      []recordBlock
	spare       *[blockLen]record // was let go; nil: none
}

type recordBlock struct {
	records *[blockLen]record
	shared  bool // with an image, which must not see it change
}

// size is how many records there are.
func (b *recordBlocks) size() int { return int(b.next - b.first) }

func (b *recordBlocks) block(number uint64) *recordBlock {
	return &b.blocks[number>>blockBits-b.first>>blockBits]
}

// at is the record of that number, from first on and before next. It may be changed,
// until the next call of image.
func (b *recordBlocks) at(number uint64) *record {
	block := b.block(number)
	if block.shared {
		own := *block.records
		*block = recordBlock{records: &own}
	}
	return &block.records[number%blockLen]
}

// peek is at for those who only read, which is cheaper after an image.
func (b *recordBlocks) peek(number uint64) *record {
	return &b.block(number).records[number%blockLen]
}

// add makes room for a record, which is to be written to it, as the newest, and returns
// its number.
func (b *recordBlocks) add() uint64 {
	number := b.next
	if number>>blockBits-b.first>>blockBits == uint64(len(b.blocks)) {
		if b.spare == nil {
			b.spare = new([blockLen]record)
		}
		b.blocks = append(b.blocks, recordBlock{records: b.spare})
		b.spare = nil
	}
	b.next++
	return number
}

// dropFirst lets the oldest record go; there is one.
func (b *recordBlocks) dropFirst() {
	b.first++
	if b.first%blockLen == 0 {
		if last := b.blocks[0]; !last.shared {
			b.spare = last.records
		}
		b.blocks[0] = recordBlock{}
		b.blocks = b.blocks[1:]
		if b.first>>blockBits%64 == 0 { // else a list that was long would stay so
			b.blocks = slices.Clone(b.blocks)
		}
	}
}

// placeMask bounds places: a number without its upper bits, of which half as many can
// be told apart as records could ever be held.
const placeMask = 1<<31 - 1

// place is a number in 31 bits, which is enough to find its record as long as it is held.
func (b *recordBlocks) place(number uint64) uint32 { return uint32(number & placeMask) }

// number is the one that has this place.
func (b *recordBlocks) number(place uint32) uint64 {
	return b.first + (uint64(place)-b.first)&placeMask
}

// image gives the records as they are at this moment, for one who only reads them and
// may be another goroutine. It copies nothing but the list of blocks: a block that both
// have is copied when a record of it is about to change, which takes some µs.
func (b *recordBlocks) image() recordBlocks {
	for i := range b.blocks {
		b.blocks[i].shared = true
	}
	return recordBlocks{first: b.first, next: b.next, blocks: slices.Clone(b.blocks)}
}

// latest gives the latest record of each id, the oldest first, for reading.
func (b *recordBlocks) latest() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for number := b.first; number < b.next; number++ {
			if r := b.peek(number); r.flags&replaced == 0 && !yield(r) {
				return
			}
		}
	}
}
