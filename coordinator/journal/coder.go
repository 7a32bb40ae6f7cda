package journal

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"
)

// coder writes or reads the fields of one message: each method does what writing
// says with the field it is given a pointer to, so that the layout of a record is
// told once (see records.go). It never changes what it writes. What cannot be read
// sets bad, and everything after it reads as zero.
type coder struct {
	writing bool
	// base is what times are relative to, in nanoseconds since 1970.
	base int64

	// Writing: out has the records (or inputs) that are finished and the strings that
	// they refer to, body the fields of the one at hand.
	out, body []byte
	table     stringTable
	keys      []string // for sorting

	// Reading: item are the bytes of the one at hand, in what is left of them, text
	// the same as a string on first use: one allocation for all its texts,
	// which are kept by what refers to them and keep nothing else of the message.
	item, in []byte
	text     string
	strings  []string
	bad      string
}

// defineString is the kind of an item that is no record: a string that the items
// after it refer to by its number.
const defineString = 0

// fail notes the first thing that cannot be read.
func (c *coder) fail(reason string) {
	if c.bad == "" {
		c.bad = reason
	}
	c.in = nil
}

const (
	truncated  = "it ends in the middle"
	impossible = "it has a value that cannot be"
)

// begin starts a message whose times are relative to at.
func (c *coder) begin(at time.Time) {
	c.writing = true
	c.base, _ = nanoseconds(at)
	c.out = c.out[:0]
	c.table.clear()
}

// finish ends the item at hand: it goes to out, after the strings that are new in it.
func (c *coder) finish(kind byte) {
	c.out = append(c.out, kind)
	c.out = binary.AppendUvarint(c.out, uint64(len(c.body)))
	c.out = append(c.out, c.body...)
	c.body = c.body[:0]
}

// open begins reading the fields of an item.
func (c *coder) open(item []byte) { c.item, c.in, c.text = item, item, "" }

// take reads n bytes.
func (c *coder) take(n int) []byte {
	if n > len(c.in) {
		c.fail(truncated)
		return nil
	}
	b := c.in[:n]
	c.in = c.in[n:]
	return b
}

func (c *coder) write(v uint64) { c.body = binary.AppendUvarint(c.body, v) }

func (c *coder) read() uint64 {
	if len(c.in) > 0 && c.in[0] < 0x80 {
		v := uint64(c.in[0])
		c.in = c.in[1:]
		return v
	}
	v, n := binary.Uvarint(c.in)
	if n <= 0 {
		c.fail(truncated)
		return 0
	}
	c.in = c.in[n:]
	return v
}

// mask writes which of the fields that follow are there, or reads it and heeds no
// argument. Their order is that of their bits: bits of later versions belong to
// fields behind those that are known.
func (c *coder) mask(m uint64) uint64 {
	if !c.writing {
		return c.read()
	}
	c.write(m)
	return m
}

// on is one bit of a mask.
func on(set bool, bit uint64) uint64 {
	if set {
		return bit
	}
	return 0
}

// flag is a field that consists of its bit in a mask.
func (c *coder) flag(p *bool, set bool) {
	if !c.writing {
		*p = set
	}
}

func (c *coder) uvarint(p *uint64) {
	if c.writing {
		c.write(*p)
	} else {
		*p = c.read()
	}
}

// integer is a number that may be negative, but rarely is.
func integer[I ~int | ~int64](c *coder, p *I) {
	if c.writing {
		c.write(zigzag(int64(*p)))
	} else {
		*p = I(unzigzag(c.read()))
	}
}

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// member is one of a closed set of numbers below most.
func member[U ~uint8](c *coder, p *U, most int) {
	if c.writing {
		c.body = append(c.body, byte(*p))
		return
	}
	if b := c.take(1); b != nil {
		if int(b[0]) >= most {
			c.fail(impossible)
			return
		}
		*p = U(b[0])
	}
}

// word is a number of which all bits are alike: a hash.
func (c *coder) word(p *uint64) {
	if c.writing {
		c.body = binary.LittleEndian.AppendUint64(c.body, *p)
	} else if b := c.take(8); b != nil {
		*p = binary.LittleEndian.Uint64(b)
	}
}

// float is short for whole numbers, and exact for all.
func (c *coder) float(p *float64) {
	if c.writing {
		c.write(bits.ReverseBytes64(math.Float64bits(*p)))
	} else {
		*p = math.Float64frombits(bits.ReverseBytes64(c.read()))
	}
}

// part is a group of fields that may grow in later versions: it is preceded by its
// length, and what this version does not know at its end is passed over.
func (c *coder) part(fields func(*coder)) {
	if !c.writing {
		n := c.read()
		if n > uint64(len(c.in)) {
			c.fail(truncated)
			return
		}
		rest := c.in[n:]
		c.in = c.in[:n]
		fields(c)
		if c.bad == "" {
			c.in = rest
		}
		return
	}
	// Two bytes for the length are enough but for giants; it is a varint whose first
	// byte goes on even when it need not.
	start := len(c.body)
	c.body = append(c.body, 0, 0)
	fields(c)
	n := len(c.body) - start - 2
	if n < 1<<14 {
		c.body[start], c.body[start+1] = byte(n)|0x80, byte(n>>7)
		return
	}
	length := binary.AppendUvarint(nil, uint64(n))
	c.body = slices.Replace(c.body, start, start+2, length...)
}
