package jsontext

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The readers of single values. Each consumes one and returns false at the slightest doubt.

// PlainText is a string without escapes.
func (s *Scanner) PlainText() (Text, bool) {
	if s.Peek() != '"' {
		return Text{}, false
	}
	t, ok := s.Quoted()
	return t, ok && !t.Escaped
}

// Is tells whether the value is just this string.
func (s *Scanner) Is(want string) bool {
	t, ok := s.PlainText()
	return ok && string(t.Raw) == want
}

// Boolean reads true or false.
func (s *Scanner) Boolean() (value, ok bool) {
	if s.Peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}

// Whole reads plain digits; 1.0 and 1e0 are integers too, but the slow path's.
func (s *Scanner) Whole(limit int) (int, bool) {
	s.Peek()
	raw, ok := s.number()
	const few = 10 // digits cannot overflow an int
	if !ok || len(raw) > few || digits(raw, 0) != len(raw) {
		return 0, false
	}
	n := 0
	for _, c := range raw {
		n = 10*n + int(c-'0')
	}
	return n, n <= limit
}

// Decimal reads any number of at least 0.
func (s *Scanner) Decimal(limit float64) (float64, bool) {
	s.Peek()
	raw, ok := s.number()
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil && f >= 0 && f <= limit
}

// List reads an array of strings, each of which must pass valid. The items
// share one copy of the array's text.
func List[S ~string](s *Scanner, limit int, valid func(Text) bool) ([]S, bool) {
	if !s.OpenArray() {
		return nil, false
	}
	start, n := s.Pos, 0
	for ; s.NextItem(n); n++ {
		if t, ok := s.PlainText(); !ok || n == limit || !valid(t) {
			return nil, false
		}
	}
	if s.Fault != None || n == 0 {
		return nil, s.Fault == None
	}
	list, rest, item := make([]S, n), string(s.Data[start:s.Pos]), ""
	for i := range list {
		item, rest = nextPlain(rest)
		list[i] = S(item)
	}
	return list, true
}

// Objects reads an array of at most limit objects, each by read.
func Objects[T any](s *Scanner, limit int, read func(*T) bool) ([]T, bool) {
	if !s.OpenArray() {
		return nil, false
	}
	var all []T
	for s.NextItem(len(all)) {
		if len(all) == limit {
			return nil, false
		}
		var one T
		if !read(&one) {
			return nil, false
		}
		all = append(all, one)
	}
	return all, s.Fault == None
}

// Pairs reads an object of at most limit strings, which share one copy of its text; valid must hold for each key
// and value.
func (s *Scanner) Pairs(limit int, valid func(key, value Text) bool) (map[string]string, bool) {
	var o Object
	if !s.OpenObject(&o) {
		return nil, false
	}
	start, n := s.Pos, 0
	for ; ; n++ {
		key, more := s.NextKey(&o)
		if !more {
			break
		}
		value, ok := s.PlainText()
		if !ok || key.Escaped || n == limit || !valid(key, value) {
			return nil, false
		}
	}
	if s.Fault != None || n == 0 {
		return nil, s.Fault == None
	}
	pairs, rest := make(map[string]string, n), string(s.Data[start:s.Pos])
	for range n {
		var key, value string
		key, rest = nextPlain(rest)
		value, rest = nextPlain(rest)
		pairs[key] = value
	}
	return pairs, true
}

// nextPlain splits the first string off JSON text in which no string has an
// escape, so that every quotation mark begins or ends one.
func nextPlain(json string) (plain, rest string) {
	_, json, _ = strings.Cut(json, `"`)
	plain, rest, _ = strings.Cut(json, `"`)
	return plain, rest
}

// Complete tells whether the message has ended well.
func (s *Scanner) Complete() bool {
	return s.Fault == None && !s.overflow && s.End()
}

// Fits tells whether an unescaped text has at most n characters, none of them a
// control character of ASCII. (Those below a space cannot stand in a JSON string
// unescaped.)
func (t Text) Fits(n int) bool {
	if bytes.IndexByte(t.Raw, 0x7f) >= 0 {
		return false
	}
	return len(t.Raw) <= n || t.Wide && utf8.RuneCount(t.Raw) <= n
}
