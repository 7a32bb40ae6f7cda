package journal

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// How times, texts, lists and labels are written and read.

// How a time begins: all other numbers are nanoseconds since base, zigzag, plus
// timeRelative.
const (
	timeZero     = 0 // none
	timeFar      = 1 // seconds and nanoseconds since 1970 follow
	timeRelative = 2
)

func (c *coder) time(p *time.Time) {
	if !c.writing {
		*p = c.readTime()
		return
	}
	if p.IsZero() {
		c.write(timeZero)
		return
	}
	if n, ok := nanoseconds(*p); ok {
		if z := zigzag(n - c.base); z <= math.MaxUint64-timeRelative { // the difference may wrap, and wraps back
			c.write(z + timeRelative)
			return
		}
	}
	c.write(timeFar)
	c.write(zigzag(p.Unix()))
	c.write(uint64(p.Nanosecond()))
}

func (c *coder) readTime() time.Time {
	switch v := c.read(); v {
	case timeZero:
		return time.Time{}
	case timeFar:
		seconds := unzigzag(c.read())
		nanos := c.read()
		if nanos >= uint64(time.Second) {
			c.fail(impossible)
			return time.Time{}
		}
		return time.Unix(seconds, int64(nanos)).UTC()
	default:
		return time.Unix(0, c.base+unzigzag(v-timeRelative)).UTC()
	}
}

// nanoseconds since 1970; false for a time so far away that they do not fit.
func nanoseconds(t time.Time) (int64, bool) {
	const most = math.MaxInt64 / int64(time.Second)
	if s := t.Unix(); s <= -most || s >= most {
		return 0, false
	}
	return t.UnixNano(), true
}

// text is a string that is not expected to come again in the message.
func text[S ~string](c *coder, p *S) {
	if c.writing {
		c.write(uint64(len(*p)))
		c.body = append(c.body, *p...)
		return
	}
	n := c.read()
	if n == 0 {
		*p = ""
		return
	}
	if n > uint64(len(c.in)) {
		c.fail(truncated)
		return
	}
	if c.text == "" {
		c.text = string(c.item)
	}
	at := cap(c.item) - cap(c.in) // lengths do not tell: in may end where a part ends
	*p = S(c.text[at : at+int(n)])
	c.in = c.in[n:]
}

// name is a string that is: it is written once, and then by its number.
func name[S ~string](c *coder, p *S) {
	if c.writing {
		c.write(c.reference(string(*p)))
		return
	}
	switch v := c.read(); {
	case v == 0:
		*p = ""
	case v > uint64(len(c.strings)):
		c.fail(impossible)
	default:
		*p = S(c.strings[v-1])
	}
}

// reference is 0 for the empty string, else one more than the number of s, which it
// defines if it is new.
func (c *coder) reference(s string) uint64 {
	if s == "" {
		return 0
	}
	n, fresh := c.table.number(s)
	if fresh {
		c.out = append(c.out, defineString)
		c.out = binary.AppendUvarint(c.out, uint64(len(s)))
		c.out = append(c.out, s...)
	}
	return uint64(n) + 1
}

// names and texts are lists of them; an empty list is read as nil.
func names[S ~string](c *coder, p *[]S) { list(c, p, 1, name[S]) }

func texts[S ~string](c *coder, p *[]S) { list(c, p, 1, text[S]) }

// last is a text at the end of a part that earlier versions write without it: an empty one is not
// written, and what ends before it has none.
func last[S ~string](c *coder, p *S) {
	if c.writing && *p != "" || !c.writing && len(c.in) > 0 {
		text(c, p)
	}
}

// list is a list of elements that take up at least so many bytes each.
func list[T any](c *coder, p *[]T, least int, element func(*coder, *T)) {
	if c.writing {
		c.write(uint64(len(*p)))
	} else {
		n := c.read()
		if n > uint64(len(c.in)/least) {
			c.fail(truncated)
			return
		}
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		element(c, &(*p)[i])
	}
}

// labels are written in the order of their keys: equal ones are equal in bytes.
func (c *coder) labels(p *map[string]string) {
	if c.writing {
		c.keys = c.keys[:0]
		for k := range *p {
			c.keys = append(c.keys, k)
		}
		slices.Sort(c.keys)
		c.write(uint64(len(c.keys)))
		for _, k := range c.keys {
			c.write(c.reference(k))
			c.write(c.reference((*p)[k]))
		}
		return
	}
	n := c.read()
	if n > uint64(len(c.in)/2) {
		c.fail(truncated)
		return
	}
	*p = nil
	if n == 0 {
		return
	}
	labels := make(map[string]string, min(n, 16)) // more only if there are
	for range n {
		var key, value string
		name(c, &key)
		name(c, &value)
		labels[key] = value
	}
	*p = labels
}
