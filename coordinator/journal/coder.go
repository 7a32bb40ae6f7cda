package journal

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"time"
)

// coder writes or reads items and their fields; which fields there are is the schema's business. What cannot be
// read sets bad, and everything after it reads as zero.
type coder struct {
	// base is what times are relative to, in nanoseconds since 1970.
	base int64

	// Writing: out has the items that are finished and the strings that they refer to, body the fields of the one
	// at hand.
	out, body []byte
	names     map[string]uint64 // the numbers of those strings, from 1
	keys      []string          // for sorting
	events    []reflect.Value   // copies of events, by kind: fields are taken from what can be pointed to

	// Reading: item are the bytes of the one at hand, in what is left of them, text the same as a string on first
	// use: one allocation for all its texts, which keep nothing else of the message. budget is how many bytes may
	// still be allocated.
	item, in []byte
	text     string
	strings  []string
	budget   int
	bad      string
}

// How a field is written, as in protobuf: what is not known can be passed over.
const (
	wireVarint = 0
	wireFixed  = 1 // 8 bytes
	wireBytes  = 2 // length, bytes
)

// defineString is the kind of an item that is no record: a string that the items after it refer to by its number.
const defineString = 0

const (
	truncated  = "it ends in the middle"
	impossible = "it has a value that cannot be"
)

// fail notes the first thing that cannot be read.
func (c *coder) fail(reason string) {
	if c.bad == "" {
		c.bad = reason
	}
	c.in = nil
}

// begin starts a message whose times are relative to at.
func (c *coder) begin(at time.Time) {
	c.base, _ = nanoseconds(at)
	c.out = c.out[:0]
	if len(c.names) > 1000 { // clearing it would cost as much with every message to come
		c.names = nil
	}
	clear(c.names)
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

// allocates notes that so many bytes are about to be allocated, and reports whether a message of this size may have
// that done.
func (c *coder) allocates(n uintptr) bool {
	if c.budget -= int(n); c.budget < 0 {
		c.fail(impossible)
	}
	return c.bad == ""
}

// part writes fields after their length.
func (c *coder) part(fields func()) {
	start := len(c.body)
	c.body = append(c.body, 0)
	fields()
	n := uint64(len(c.body) - start - 1)
	if n < 0x80 {
		c.body[start] = byte(n)
		return
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], n)
	c.body = slices.Replace(c.body, start, start+1, length[:size]...)
}

// enter begins reading a part; what leave is given then ends it.
func (c *coder) enter() (rest []byte) {
	n := c.read()
	if n > uint64(len(c.in)) {
		c.fail(truncated)
		return nil
	}
	rest = c.in[n:]
	c.in = c.in[:n]
	return rest
}

func (c *coder) leave(rest []byte) {
	if c.bad == "" {
		c.in = rest
	}
}

// take reads n bytes.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.in)) {
		c.fail(truncated)
		return nil
	}
	b := c.in[:n]
	c.in = c.in[n:]
	return b
}

// skip passes over the value of a field that is not known.
func (c *coder) skip(wire byte) {
	switch wire {
	case wireVarint:
		c.read()
	case wireFixed:
		c.take(8)
	case wireBytes:
		c.take(c.read())
	default:
		c.fail(impossible)
	}
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

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (c *coder) writeWord(v uint64) { c.body = binary.LittleEndian.AppendUint64(c.body, v) }

func (c *coder) readWord() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// readText reads a string of its own.
func (c *coder) readText() string {
	n := c.read()
	at := cap(c.item) - cap(c.in) // lengths do not tell: in may end where a part ends
	if c.take(n) == nil || n == 0 {
		return ""
	}
	if c.text == "" {
		c.text = string(c.item)
	}
	return c.text[at : at+int(n)]
}

// reference is 0 for the empty string, else the number of s, which it defines if it is new.
func (c *coder) reference(s string) uint64 {
	n, known := c.names[s]
	if known || s == "" {
		return n
	}
	if c.names == nil {
		c.names = make(map[string]uint64)
	}
	n = uint64(len(c.names)) + 1
	c.names[s] = n
	c.out = append(c.out, defineString)
	c.out = binary.AppendUvarint(c.out, uint64(len(s)))
	c.out = append(c.out, s...)
	return n
}

func (c *coder) readName() string {
	switch v := c.read(); {
	case v == 0:
		return ""
	case v > uint64(len(c.strings)):
		c.fail(impossible)
		return ""
	default:
		return c.strings[v-1]
	}
}

// writeTime writes a time, which is not zero, relative to base; one so far away that its nanoseconds do not fit in
// seconds and nanoseconds since 1970.
func (c *coder) writeTime(t time.Time) {
	start := len(c.body)
	c.body = append(c.body, 0)
	if n, ok := nanoseconds(t); ok {
		c.write(zigzag(n - c.base)) // the difference may wrap, and wraps back
	} else {
		c.write(zigzag(t.Unix()))
		c.write(uint64(t.Nanosecond()))
	}
	c.body[start] = byte(len(c.body) - start - 1)
}

func (c *coder) readTime() time.Time {
	rest := c.enter()
	seconds := unzigzag(c.read())
	if len(c.in) == 0 {
		c.leave(rest)
		return time.Unix(0, c.base+seconds).UTC()
	}
	nanos := c.read()
	if nanos >= uint64(time.Second) {
		c.fail(impossible)
	}
	c.leave(rest)
	return time.Unix(seconds, int64(nanos)).UTC()
}

// nanoseconds since 1970; false for a time so far away that they do not fit.
func nanoseconds(t time.Time) (int64, bool) {
	const most = math.MaxInt64 / int64(time.Second)
	if s := t.Unix(); s <= -most || s >= most {
		return 0, false
	}
	return t.UnixNano(), true
}

// labels are written in the order of their keys: equal ones are equal in bytes.
func (c *coder) writeLabels(labels map[string]string) {
	c.keys = c.keys[:0]
	for k := range labels {
		c.keys = append(c.keys, k)
	}
	slices.Sort(c.keys)
	for _, k := range c.keys {
		c.write(c.reference(k))
		c.write(c.reference(labels[k]))
	}
}

func (c *coder) readLabels() map[string]string {
	const empty, each = 320, 64 // about what a map takes up, and what each of its pairs does
	if !c.allocates(empty) {
		return nil
	}
	labels := make(map[string]string)
	for len(c.in) > 0 && c.allocates(each) {
		key := c.readName()
		labels[key] = c.readName()
	}
	return labels
}
