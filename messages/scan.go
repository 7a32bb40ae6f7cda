package messages

import (
	"bytes"
	"unicode/utf8"
)

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

// value consumes any value and returns its text.
func (s *scanner) value() (raw []byte, ok bool) {
	c := s.peek()
	start := s.pos
	switch c {
	case '{':
		var o object
		if !s.openObject(&o) {
			return nil, false
		}
		for {
			if _, more := s.nextKey(&o); !more {
				break
			}
			if _, ok := s.value(); !ok {
				return nil, false
			}
		}
	case '[':
		if !s.openArray() {
			return nil, false
		}
		for n := 0; s.nextItem(n); n++ {
			if _, ok := s.value(); !ok {
				return nil, false
			}
		}
	case '"':
		s.string()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
	return s.data[start:s.pos], s.fault == faultNone
}

func (s *scanner) word(w string) bool {
	if end := s.pos + len(w); end <= len(s.data) && string(s.data[s.pos:end]) == w {
		s.pos = end
		return s.token()
	}
	return s.fail(faultSyntax)
}

// string consumes a string, the opening quote of which the caller has seen.
func (s *scanner) string() (t text, ok bool) {
	data, i := s.data, s.pos+1
	start := i
	for i < len(data) {
		c := data[i]
		switch {
		case c == '"':
			t.raw = data[start:i]
			s.pos = i + 1
			return t, s.token()
		case c == '\\':
			t.escaped = true
			n, f := escape(data[i:])
			if f != faultNone {
				s.pos = i
				return t, s.fail(f)
			}
			i += n
		case c < ' ':
			s.pos = i
			return t, s.fail(faultSyntax)
		case c < utf8.RuneSelf:
			i++
		default:
			t.wide = true
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				s.pos = i
				return t, s.fail(faultUTF8)
			}
			i += n
		}
	}
	s.pos = i
	return t, s.fail(faultSyntax)
}

// escape returns the length of the escape sequence that b begins with. The two
// halves of a surrogate pair count as one sequence; half a pair is a fault,
// because decoders disagree on what it means.
func escape(b []byte) (n int, f fault) {
	if len(b) < 2 {
		return 0, faultSyntax
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, faultNone
	case 'u':
	default:
		return 0, faultSyntax
	}
	r, ok := hex4(b)
	switch {
	case !ok:
		return 0, faultSyntax
	case r < 0xD800 || r > 0xDFFF:
		return 6, faultNone
	case r > 0xDBFF:
		return 0, faultSurrogate
	}
	if low, ok := hex4(b[6:]); !ok || low < 0xDC00 || low > 0xDFFF {
		return 0, faultSurrogate
	}
	return 12, faultNone
}

// hex4 reads \uXXXX.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

// Bounds on a number's text: the longest that any float64 needs is 24
// characters, and arithmetic on absurd exponents costs seconds.
const (
	maxNumberLength = 64
	maxExponent     = 308
)

// number consumes a number and returns its text.
func (s *scanner) number() (raw []byte, ok bool) {
	data, start := s.data, s.pos
	i := start
	if i < len(data) && data[i] == '-' {
		i++
	}
	whole := digits(data, i)
	if whole == 0 || whole > 1 && data[i] == '0' {
		return nil, s.fail(faultSyntax)
	}
	i += whole
	if i < len(data) && data[i] == '.' {
		n := digits(data, i+1)
		if n == 0 {
			return nil, s.fail(faultSyntax)
		}
		i += 1 + n
	}
	exponent, negative := 0, false
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			negative = data[i] == '-'
			i++
		}
		n := digits(data, i)
		if n == 0 {
			return nil, s.fail(faultSyntax)
		}
		for _, c := range data[i : i+n] {
			// Stops growing once it is too large, so it cannot wrap around.
			if exponent <= maxExponent {
				exponent = 10*exponent + int(c-'0')
			}
		}
		i += n
	}
	if i-start > maxNumberLength || exponent > maxExponent {
		return nil, s.fail(faultNumber)
	}
	if !negative && whole+exponent > maxExponent {
		s.overflow = true
	}
	s.pos = i
	return data[start:i], s.token()
}

// digits counts the decimal digits from i on.
func digits(data []byte, i int) int {
	start := i
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	return i - start
}
