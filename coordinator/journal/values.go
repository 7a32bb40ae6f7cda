package journal

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"time"

	"taskbus/coordinator"
)

// How values are written and read, by their types.

// fieldOf is how values of a type are written, and the wire type of that.
func fieldOf(t reflect.Type, o options) (wire byte, f field) {
	f.empty = reflect.Value.IsZero
	switch {
	case t == reflect.TypeFor[time.Time]():
		return wireBytes, timeField
	case t == reflect.TypeFor[coordinator.TaskKey]():
		return wireBytes, keyField
	case o.hash:
		f.write = func(c *coder, v reflect.Value) { c.writeWord(v.Uint()) }
		f.read = func(c *coder, v reflect.Value) { v.SetUint(c.readWord()) }
		return wireFixed, f
	}
	switch t.Kind() {
	case reflect.Bool:
		f.write = func(c *coder, _ reflect.Value) { c.write(1) }
		f.read = func(c *coder, v reflect.Value) { v.SetBool(c.read() != 0) }
	case reflect.Int, reflect.Int64:
		f.write = func(c *coder, v reflect.Value) { c.write(zigzag(v.Int())) }
		f.read = func(c *coder, v reflect.Value) { v.SetInt(unzigzag(c.read())) }
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		f.write = func(c *coder, v reflect.Value) { c.write(v.Uint()) }
		f.read = readUint(t, o.max)
	case reflect.Float64: // short for whole numbers, and exact for all
		f.write = func(c *coder, v reflect.Value) { c.write(bits.ReverseBytes64(math.Float64bits(v.Float()))) }
		f.read = func(c *coder, v reflect.Value) { v.SetFloat(math.Float64frombits(bits.ReverseBytes64(c.read()))) }
	case reflect.String:
		if o.name || t == reflect.TypeFor[coordinator.AgentID]() {
			f.write = func(c *coder, v reflect.Value) { c.write(c.reference(v.String())) }
			f.read = func(c *coder, v reflect.Value) { v.SetString(c.readName()) }
			break
		}
		f.write = func(c *coder, v reflect.Value) {
			s := v.String()
			c.write(uint64(len(s)))
			c.body = append(c.body, s...)
		}
		f.read = func(c *coder, v reflect.Value) { v.SetString(c.readText()) }
		return wireBytes, f
	case reflect.Pointer:
		return pointerField(t.Elem(), o)
	case reflect.Struct:
		of := layoutOf(t)
		f.write = func(c *coder, v reflect.Value) { c.part(func() { of.write(c, v) }) }
		f.read = func(c *coder, v reflect.Value) {
			rest := c.enter()
			of.read(c, v)
			c.leave(rest)
		}
		return wireBytes, f
	case reflect.Slice:
		return wireBytes, listField(t.Elem(), o)
	case reflect.Array:
		return wireBytes, arrayField(t.Elem(), o)
	case reflect.Map:
		f.empty = func(v reflect.Value) bool { return v.Len() == 0 }
		f.write = func(c *coder, v reflect.Value) {
			c.part(func() { c.writeLabels(v.Interface().(map[string]string)) })
		}
		f.read = func(c *coder, v reflect.Value) {
			rest := c.enter()
			v.Set(reflect.ValueOf(c.readLabels()))
			c.leave(rest)
		}
		return wireBytes, f
	default:
		panic(fmt.Sprintf("journal: a %s has no place in the format", t))
	}
	return wireVarint, f
}

// readUint reads a number of a type; of a closed set only what it has.
func readUint(t reflect.Type, most uint8) func(c *coder, v reflect.Value) {
	limit := uint64(math.MaxUint64) >> (64 - t.Bits())
	if n, closed := closedSets[t]; closed {
		limit = uint64(n) - 1
	} else if most > 0 {
		limit = uint64(most)
	}
	return func(c *coder, v reflect.Value) {
		n := c.read()
		if n > limit {
			c.fail(impossible)
			return
		}
		v.SetUint(n)
	}
}

var timeField = field{
	empty: func(v reflect.Value) bool { return v.Addr().Interface().(*time.Time).IsZero() },
	write: func(c *coder, v reflect.Value) { c.writeTime(*v.Addr().Interface().(*time.Time)) },
	read:  func(c *coder, v reflect.Value) { *v.Addr().Interface().(*time.Time) = c.readTime() },
}

var keyField = field{
	empty: func(v reflect.Value) bool {
		return *v.Addr().Interface().(*coordinator.TaskKey) == coordinator.TaskKey{}
	},
	write: func(c *coder, v reflect.Value) {
		k := v.Addr().Interface().(*coordinator.TaskKey)
		c.body = append(c.body, byte(8*len(k)))
		c.writeWord(k[0])
		c.writeWord(k[1])
	},
	read: func(c *coder, v reflect.Value) {
		k := v.Addr().Interface().(*coordinator.TaskKey)
		if b := c.take(c.read()); len(b) == 8*len(k) {
			k[0], k[1] = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		} else {
			c.fail(impossible)
		}
	},
}

// pointerField is for what need not be there; what is there is written though it is zero.
func pointerField(t reflect.Type, o options) (wire byte, f field) {
	wire, to := fieldOf(t, o)
	f.empty = reflect.Value.IsNil
	f.write = func(c *coder, v reflect.Value) { to.write(c, v.Elem()) }
	f.read = func(c *coder, v reflect.Value) {
		if v.IsNil() {
			if !c.allocates(t.Size()) {
				return
			}
			v.Set(reflect.New(t))
		}
		to.read(c, v.Elem())
	}
	return wire, f
}

// listField is for a list: how many there are, and they.
func listField(t reflect.Type, o options) (f field) {
	_, one := fieldOf(t, o)
	f.empty = func(v reflect.Value) bool { return v.Len() == 0 }
	if o.empty {
		f.empty = reflect.Value.IsNil
	}
	f.write = func(c *coder, v reflect.Value) {
		c.part(func() {
			n := v.Len()
			c.write(uint64(n))
			for i := range n {
				one.write(c, v.Index(i))
			}
		})
	}
	f.read = func(c *coder, v reflect.Value) {
		rest := c.enter()
		n := c.read()
		if n > uint64(len(c.in)) { // each is a byte at least
			c.fail(truncated)
		}
		if c.bad != "" || !c.allocates(uintptr(n)*t.Size()) {
			return
		}
		v.SetZero()
		if v.Grow(int(n)); n == 0 && o.empty {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		v.SetLen(int(n))
		for i := range int(n) {
			one.read(c, v.Index(i))
		}
		c.leave(rest)
	}
	return f
}

// arrayField is for an array of numbers, without the zeros at its end. A later version may have more of them.
func arrayField(t reflect.Type, o options) (f field) {
	_, one := fieldOf(t, o)
	f.empty = reflect.Value.IsZero
	f.write = func(c *coder, v reflect.Value) {
		c.part(func() {
			n := v.Len()
			for n > 0 && one.empty(v.Index(n-1)) {
				n--
			}
			for i := range n {
				one.write(c, v.Index(i))
			}
		})
	}
	f.read = func(c *coder, v reflect.Value) {
		rest := c.enter()
		for i := 0; i < v.Len() && len(c.in) > 0; i++ {
			one.read(c, v.Index(i))
		}
		c.leave(rest)
	}
	return f
}
