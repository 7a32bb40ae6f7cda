package jsontext

import (
	"bytes"
	"encoding/json"
)

// Scanner walks JSON text once, without decoding it. It accepts exactly JSON as RFC 8259 has it, less what its bounds
// and [Fault] list. The first fault sticks; every method then returns false.
type Scanner struct {
	Data []byte
	Pos  int
	// depth is how many more containers may open, tokens how many more keys and
	// values may come.
	depth, tokens int
	Fault         Fault
	// overflow: a number was seen that may be beyond float64. The scanner leaves
	// that to encoding/json.
	overflow bool
	// keys of the objects that are open, the outermost first.
	keys [][]byte
}

// Fault is what the scanner can find.
type Fault uint8

const (
	None Fault = iota
	Syntax
	NoObject
	Trailing
	Depth
	Tokens
	Number
	UTF8
	Surrogate
	Duplicate
	LetterCase
	NumFaults
)

// Text is a JSON string as it stands in the message, without its quotes.
type Text struct {
	Raw     []byte
	Escaped bool // holds a backslash
	Wide    bool // holds something beyond ASCII
}

// Object is the state of one open object.
type Object struct {
	// first is where its keys begin in Scanner.keys.
	first   int
	started bool
	// maybe has a bit set for each key seen, by length and outer bytes: most keys
	// are known to be new without comparing them.
	maybe uint64
	// many replaces Scanner.keys once there are manyKeys of them, so that no
	// object costs more than linear time.
	many map[string]struct{}
}

const manyKeys = 32

// Reset makes the scanner ready for data; it keeps no reference to earlier data.
func (s *Scanner) Reset(data []byte, depth, tokens int) {
	keys := s.keys[:0]
	if cap(keys) > 4*manyKeys {
		keys = nil
	}
	clear(keys[:cap(keys)])
	*s = Scanner{Data: data, depth: depth, tokens: tokens, keys: keys}
}

// Fail notes the first fault; it is false.
func (s *Scanner) Fail(f Fault) bool {
	if s.Fault == None {
		s.Fault = f
	}
	return false
}

// Peek skips white space and returns the byte after it, 0 at the end.
func (s *Scanner) Peek() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\n', '\r', '\t':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// End tells whether nothing but white space is left.
func (s *Scanner) End() bool {
	s.Peek()
	if s.Pos < len(s.Data) {
		return s.Fail(Trailing)
	}
	return true
}

func (s *Scanner) token() bool {
	s.tokens--
	return s.tokens >= 0 || s.Fail(Tokens)
}

// enter consumes the opening bracket, which the caller has seen.
func (s *Scanner) enter() bool {
	if s.depth == 0 {
		return s.Fail(Depth)
	}
	s.depth--
	s.Pos++
	return true
}

// OpenObject begins an object. nextKey must then be called until it returns
// false, and each key's value be consumed in between.
func (s *Scanner) OpenObject(o *Object) bool {
	if s.Peek() != '{' {
		return s.Fail(Syntax)
	}
	o.first = len(s.keys)
	return s.token() && s.enter()
}

// NextKey returns the next key, its colon consumed, or false at the end of the
// object or at a fault.
func (s *Scanner) NextKey(o *Object) (key Text, ok bool) {
	c := s.Peek()
	switch {
	case c == '}':
		s.Pos++
		s.depth++
		s.keys = s.keys[:o.first]
		return Text{}, false
	case o.started && c == ',':
		s.Pos++
		c = s.Peek()
	case o.started:
		return Text{}, s.Fail(Syntax)
	}
	o.started = true
	if c != '"' {
		return Text{}, s.Fail(Syntax)
	}
	if key, ok = s.Quoted(); !ok {
		return Text{}, false
	}
	name := key.Raw
	if key.Escaped {
		name = []byte(key.String())
	}
	if !s.unseen(o, name) {
		return key, s.Fail(Duplicate)
	}
	if s.Peek() != ':' {
		return Text{}, s.Fail(Syntax)
	}
	s.Pos++
	return key, true
}

// unseen remembers a key and tells whether it is the first of its name.
func (s *Scanner) unseen(o *Object, name []byte) bool {
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

// OpenArray begins an array; nextItem must then be called until it returns
// false, and each item be consumed in between.
func (s *Scanner) OpenArray() bool {
	if s.Peek() != '[' {
		return s.Fail(Syntax)
	}
	return s.token() && s.enter()
}

// NextItem tells whether another item follows; n is how many came before.
func (s *Scanner) NextItem(n int) bool {
	c := s.Peek()
	switch {
	case c == ']':
		s.Pos++
		s.depth++
		return false
	case n == 0:
		return true
	case c == ',':
		s.Pos++
		return true
	}
	return s.Fail(Syntax)
}

// String is the text without escapes; the scanner has passed it.
func (t Text) String() string {
	if !t.Escaped {
		return string(t.Raw)
	}
	var plain string
	if err := json.Unmarshal(append(append(append(make([]byte, 0, len(t.Raw)+2), '"'), t.Raw...), '"'),
		&plain); err != nil {
		return ""
	}
	return plain
}
