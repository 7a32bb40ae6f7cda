package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"time"
	"unsafe"

	"taskbus/coordinator"
)

// How values are written and read, by their types.

// fieldOf is how values of a type are written, and the wire type of that.
func fieldOf(t reflect.Type, o options) (wire byte, f field) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return wireBytes, timeField
	case t == reflect.TypeFor[coordinator.TaskKey]():
		return wireBytes, scalar((*coder).writeKey, (*coder).readKey)
	case o.hash:
		return wireFixed, scalar((*coder).writeWord, (*coder).readWord)
	}
	switch t.Kind() {
	case reflect.Bool:
		f = scalar(func(c *coder, _ bool) { c.write(1) }, func(c *coder) bool { return c.read() != 0 })
	case reflect.Int:
		f = scalar(func(c *coder, n int) { c.write(zigzag(int64(n))) }, func(c *coder) int { return int(unzigzag(c.read())) })
	case reflect.Int64:
		f = scalar(func(c *coder, n int64) { c.write(zigzag(n)) }, func(c *coder) int64 { return unzigzag(c.read()) })
	case reflect.Uint8:
		f = unsigned[uint8](t, o.max)
	case reflect.Uint32:
		f = unsigned[uint32](t, o.max)
	case reflect.Uint64:
		f = unsigned[uint64](t, o.max)
	case reflect.Float64: // its bits: short for whole numbers, and exact for all
		f = scalar(func(c *coder, n uint64) { c.write(bits.ReverseBytes64(n)) },
			func(c *coder) uint64 { return bits.ReverseBytes64(c.read()) })
	case reflect.String:
		if o.name || t == reflect.TypeFor[coordinator.AgentID]() {
			f = scalar(func(c *coder, s string) { c.write(c.reference(s)) }, (*coder).readName)
			break
		}
		return wireBytes, scalar(func(c *coder, s string) {
			c.write(uint64(len(s)))
			c.body = append(c.body, s...)
		}, (*coder).readText)
	case reflect.Pointer:
		return pointerField(t.Elem(), o)
	case reflect.Struct:
		of := layoutOf(t)
		f.empty = func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
		f.write = func(c *coder, p unsafe.Pointer) { c.part(func() { of.write(c, p) }) }
		f.read = func(c *coder, p unsafe.Pointer) {
			rest := c.enter()
			of.read(c, p)
			c.leave(rest)
		}
		return wireBytes, f
	case reflect.Slice:
		return wireBytes, listField(t, o)
	case reflect.Array:
		return wireBytes, arrayField(t, o)
	case reflect.Map:
		f.empty = func(p unsafe.Pointer) bool { return len(*(*map[string]string)(p)) == 0 }
		f.write = func(c *coder, p unsafe.Pointer) {
			c.part(func() { c.writeLabels(*(*map[string]string)(p)) })
		}
		f.read = func(c *coder, p unsafe.Pointer) {
			rest := c.enter()
			*(*map[string]string)(p) = c.readLabels()
			c.leave(rest)
		}
		return wireBytes, f
	default:
		panic(fmt.Sprintf("journal: a %s has no place in the format", t))
	}
	return wireVarint, f
}

// scalar reads and writes types of the kind of T. The zero value is left out.
func scalar[T comparable](write func(c *coder, value T), read func(c *coder) T) field {
	return field{
		empty: func(p unsafe.Pointer) bool { return *(*T)(p) == *new(T) },
		write: func(c *coder, p unsafe.Pointer) { write(c, *(*T)(p)) },
		read:  func(c *coder, p unsafe.Pointer) { *(*T)(p) = read(c) },
	}
}

// unsigned reads and writes numbers of a type t of the kind of T. A number outside of a closed set is refused.
func unsigned[T uint8 | uint32 | uint64](t reflect.Type, most uint8) field {
	limit := uint64(math.MaxUint64) >> (64 - t.Bits())
	if n, closed := closedSets[t]; closed {
		limit = uint64(n) - 1
	} else if most > 0 {
		limit = uint64(most)
	}
	return scalar(func(c *coder, n T) { c.write(uint64(n)) }, func(c *coder) T {
		n := c.read()
		if n > limit {
			c.fail(impossible)
			return 0
		}
		return T(n)
	})
}

var timeField = field{
	empty: func(p unsafe.Pointer) bool { return (*time.Time)(p).IsZero() },
	write: func(c *coder, p unsafe.Pointer) { c.writeTime(*(*time.Time)(p)) },
	read:  func(c *coder, p unsafe.Pointer) { *(*time.Time)(p) = c.readTime() },
}

func (c *coder) writeKey(k coordinator.TaskKey) {
	c.body = append(c.body, byte(8*len(k)))
	c.writeWord(k[0])
	c.writeWord(k[1])
}

func (c *coder) readKey() (k coordinator.TaskKey) {
	if b := c.take(c.read()); len(b) == 8*len(k) {
		k[0], k[1] = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	} else {
		c.fail(impossible)
	}
	return k
}

// pointerField is for what need not be there; what is there is written though it is zero.
func pointerField(t reflect.Type, o options) (wire byte, f field) {
	wire, to := fieldOf(t, o)
	f.empty = func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	f.write = func(c *coder, p unsafe.Pointer) { to.write(c, *(*unsafe.Pointer)(p)) }
	f.read = func(c *coder, p unsafe.Pointer) {
		v := (*unsafe.Pointer)(p)
		if *v == nil {
			if !c.allocates(t.Size()) {
				return
			}
			*v = reflect.New(t).UnsafePointer()
		}
		to.read(c, *v)
	}
	return wire, f
}

// listField is for a list: how many there are, and they.
func listField(list reflect.Type, o options) (f field) {
	t := list.Elem()
	_, one := fieldOf(t, o)
	size := t.Size()
	// What a slice consists of is the same whatever is in it.
	f.empty = func(p unsafe.Pointer) bool { return len(*(*[]byte)(p)) == 0 }
	if o.empty {
		f.empty = func(p unsafe.Pointer) bool { return *(*[]byte)(p) == nil }
	}
	f.write = func(c *coder, p unsafe.Pointer) {
		c.part(func() {
			all := *(*[]byte)(p)
			c.write(uint64(len(all)))
			first := unsafe.Pointer(unsafe.SliceData(all))
			for i := range uintptr(len(all)) {
				one.write(c, unsafe.Add(first, i*size))
			}
		})
	}
	f.read = func(c *coder, p unsafe.Pointer) {
		rest := c.enter()
		n := c.read()
		if n > uint64(len(c.in)) { // each is a byte at least
			c.fail(truncated)
		}
		if c.bad != "" || !c.allocates(uintptr(n)*size) {
			return
		}
		v := reflect.NewAt(list, p).Elem()
		v.SetZero()
		if v.Grow(int(n)); n == 0 && o.empty {
			v.Set(reflect.MakeSlice(list, 0, 0))
		}
		v.SetLen(int(n))
		first := v.UnsafePointer()
		for i := range uintptr(n) {
			one.read(c, unsafe.Add(first, i*size))
		}
		c.leave(rest)
	}
	return f
}

// arrayField is for an array of numbers, without the zeros at its end. A later version may have more of them.
func arrayField(array reflect.Type, o options) (f field) {
	_, one := fieldOf(array.Elem(), o)
	size, most := array.Elem().Size(), array.Len()
	at := func(p unsafe.Pointer, i int) unsafe.Pointer { return unsafe.Add(p, uintptr(i)*size) }
	said := func(p unsafe.Pointer) int {
		n := most
		for n > 0 && one.empty(at(p, n-1)) {
			n--
		}
		return n
	}
	f.empty = func(p unsafe.Pointer) bool { return said(p) == 0 }
	f.write = func(c *coder, p unsafe.Pointer) {
		c.part(func() {
			for i := range said(p) {
				one.write(c, at(p, i))
			}
		})
	}
	f.read = func(c *coder, p unsafe.Pointer) {
		rest := c.enter()
		for i := 0; i < most && len(c.in) > 0; i++ {
			one.read(c, at(p, i))
		}
		c.leave(rest)
	}
	return f
}
