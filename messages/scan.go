package messages

import "bytes"

// scanner walks JSON text once, without decoding it, and holds it to the
// limits. It accepts exactly JSON as RFC 8259 has it, less what [Limits] and
// fault list. The first fault sticks; every method then returns false.
type scanner struct {
	data []byte
	pos  int
	// depth is how many more containers may open, tokens how many more keys and
	// values may come.
	depth, tokens int
	fault         fault
	// overflow: a number was seen that may be beyond float64. The scanner leaves
	// that to encoding/json.
	overflow bool
	// unknownFields are the names of fields of the message that its schema does not have, the first maxUnknown.
	unknownFields []string
	// keys of the objects that are open, the outermost first.
	keys [][]byte
}

// text is a JSON string as it stands in the message, without its quotes.
type text struct {
	raw     []byte
	escaped bool // holds a backslash
	wide    bool // holds something beyond ASCII
}

// object is the state of one open object.
type object struct {
	// first is where its keys begin in scanner.keys.
	first   int
	started bool
	// maybe has a bit set for each key seen, by length and outer bytes: most keys
	// are known to be new without comparing them.
	maybe uint64
	// many replaces scanner.keys once there are manyKeys of them, so that no
	// object costs more than linear time.
	many map[string]struct{}
}

const manyKeys = 32

// reset makes the scanner ready for data; it keeps no reference to earlier data.
func (s *scanner) reset(data []byte, l Limits) {
	keys := s.keys[:0]
	if cap(keys) > 4*manyKeys {
		keys = nil
	}
	clear(keys[:cap(keys)])
	*s = scanner{data: data, depth: l.MaxDepth, tokens: l.MaxTokens, keys: keys}
}

func (s *scanner) fail(f fault) bool {
	if s.fault == faultNone {
		s.fault = f
	}
	return false
}

// peek skips white space and returns the byte after it, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end tells whether nothing but white space is left.
func (s *scanner) end() bool {
	s.peek()
	if s.pos < len(s.data) {
		return s.fail(faultTrailing)
	}
	return true
}

func (s *scanner) token() bool {
	s.tokens--
	return s.tokens >= 0 || s.fail(faultTokens)
}

// enter consumes the opening bracket, which the caller has seen.
func (s *scanner) enter() bool {
	if s.depth == 0 {
		return s.fail(faultDepth)
	}
	s.depth--
	s.pos++
	return true
}

// openObject begins an object. nextKey must then be called until it returns
// false, and each key's value be consumed in between.
func (s *scanner) openObject(o *object) bool {
	if s.peek() != '{' {
		return s.fail(faultSyntax)
	}
	o.first = len(s.keys)
	return s.token() && s.enter()
}

// nextKey returns the next key, its colon consumed, or false at the end of the
// object or at a fault.
func (s *scanner) nextKey(o *object) (key text, ok bool) {
	c := s.peek()
	switch {
	case c == '}':
		s.pos++
		s.depth++
		s.keys = s.keys[:o.first]
		return text{}, false
	case o.started && c == ',':
		s.pos++
		c = s.peek()
	case o.started:
		return text{}, s.fail(faultSyntax)
	}
	o.started = true
	if c != '"' {
		return text{}, s.fail(faultSyntax)
	}
	if key, ok = s.string(); !ok {
		return text{}, false
	}
	name := key.raw
	if key.escaped {
		name = unescape(key)
	}
	if !s.unseen(o, name) {
		return key, s.fail(faultDuplicate)
	}
	if s.peek() != ':' {
		return text{}, s.fail(faultSyntax)
	}
	s.pos++
	return key, true
}

// unseen remembers a key and tells whether it is the first of its name.
func (s *scanner) unseen(o *object, name []byte) bool {
	if o.many != nil {
		if _, seen := o.many[string(name)]; seen {
			return false
		}
		o.many[string(name)] = struct{}{}
		return true
	}
	n := uint(len(name))
	if n > 0 {
		n += 7*uint(name[0]) + 31*uint(name[n-1])
	}
	bit := uint64(1) << (n & 63)
	if o.maybe&bit != 0 {
		for _, other := range s.keys[o.first:] {
			if bytes.Equal(other, name) {
				return false
			}
		}
	}
	o.maybe |= bit
	s.keys = append(s.keys, name)
	if len(s.keys)-o.first == manyKeys {
		o.many = make(map[string]struct{}, 4*manyKeys)
		for _, other := range s.keys[o.first:] {
			o.many[string(other)] = struct{}{}
		}
	}
	return true
}

// openArray begins an array; nextItem must then be called until it returns
// false, and each item be consumed in between.
func (s *scanner) openArray() bool {
	if s.peek() != '[' {
		return s.fail(faultSyntax)
	}
	return s.token() && s.enter()
}

// nextItem tells whether another item follows; n is how many came before.
func (s *scanner) nextItem(n int) bool {
	c := s.peek()
	switch {
	case c == ']':
		s.pos++
		s.depth++
		return false
	case n == 0:
		return true
	case c == ',':
		s.pos++
		return true
	}
	return s.fail(faultSyntax)
}
