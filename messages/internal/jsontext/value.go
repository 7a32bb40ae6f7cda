package jsontext

import "unicode/utf8"

// How the scanner reads what has no structure: strings, numbers and words.

// Value consumes any value and returns its text.
func (s *Scanner) Value() (raw []byte, ok bool) {
	c := s.Peek()
	start := s.Pos
	switch c {
	case '{':
		var o Object
		if !s.OpenObject(&o) {
			return nil, false
		}
		for {
			if _, more := s.NextKey(&o); !more {
				break
			}
			if _, ok := s.Value(); !ok {
				return nil, false
			}
		}
	case '[':
		if !s.OpenArray() {
			return nil, false
		}
		for n := 0; s.NextItem(n); n++ {
			if _, ok := s.Value(); !ok {
				return nil, false
			}
		}
	case '"':
		s.Quoted()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
	return s.Data[start:s.Pos], s.Fault == None
}

func (s *Scanner) word(w string) bool {
	if end := s.Pos + len(w); end <= len(s.Data) && string(s.Data[s.Pos:end]) == w {
		s.Pos = end
		return s.token()
	}
	return s.Fail(Syntax)
}

// Quoted consumes a string, the opening quote of which the caller has seen.
func (s *Scanner) Quoted() (t Text, ok bool) {
	data, i := s.Data, s.Pos+1
	start := i
	for i < len(data) {
		c := data[i]
		switch {
		case c == '"':
			t.Raw = data[start:i]
			s.Pos = i + 1
			return t, s.token()
		case c == '\\':
			t.Escaped = true
			n, f := escape(data[i:])
			if f != None {
				s.Pos = i
				return t, s.Fail(f)
			}
			i += n
		case c < ' ':
			s.Pos = i
			return t, s.Fail(Syntax)
		case c < utf8.RuneSelf:
			i++
		default:
			t.Wide = true
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				s.Pos = i
				return t, s.Fail(UTF8)
			}
			i += n
		}
	}
	s.Pos = i
	return t, s.Fail(Syntax)
}

// escape returns the length of the escape sequence that b begins with. The two
// halves of a surrogate pair count as one sequence; half a pair is a fault,
// because decoders disagree on what it means.
func escape(b []byte) (n int, f Fault) {
	if len(b) < 2 {
		return 0, Syntax
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, None
	case 'u':
	default:
		return 0, Syntax
	}
	r, ok := hex4(b)
	switch {
	case !ok:
		return 0, Syntax
	case r < 0xD800 || r > 0xDFFF:
		return 6, None
	case r > 0xDBFF:
		return 0, Surrogate
	}
	if low, ok := hex4(b[6:]); !ok || low < 0xDC00 || low > 0xDFFF {
		return 0, Surrogate
	}
	return 12, None
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
func (s *Scanner) number() (raw []byte, ok bool) {
	data, start := s.Data, s.Pos
	i := start
	if i < len(data) && data[i] == '-' {
		i++
	}
	whole := digits(data, i)
	if whole == 0 || whole > 1 && data[i] == '0' {
		return nil, s.Fail(Syntax)
	}
	i += whole
	if i < len(data) && data[i] == '.' {
		n := digits(data, i+1)
		if n == 0 {
			return nil, s.Fail(Syntax)
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
			return nil, s.Fail(Syntax)
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
		return nil, s.Fail(Number)
	}
	if !negative && whole+exponent > maxExponent {
		s.overflow = true
	}
	s.Pos = i
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
