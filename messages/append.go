package messages

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, so
// that the result is always valid.
func appendString[S ~string](dst []byte, s S) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c < ' ':
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, "\ufffd"...)
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendCut appends text as a JSON string of at most most bytes between its quotation marks; what
// is longer ends with an ellipsis.
func appendCut(dst, text []byte, most int) []byte {
	const ellipsis = "…"
	start := len(dst)
	if dst = appendString(dst, string(text)); len(dst)-start-2 <= most {
		return dst
	}
	end := start + 1 // of what is kept: never within a character or an escape
	for next := end; next <= start+1+most-len(ellipsis); {
		end = next
		switch c := dst[next]; {
		case c == '\\' && dst[next+1] == 'u':
			next += len(`\u0000`)
		case c == '\\':
			next += len(`\n`)
		default:
			_, n := utf8.DecodeRune(dst[next:])
			next += n
		}
	}
	return append(append(dst[:end], ellipsis...), '"')
}

// appendField appends ,"name":"value". The name needs no escaping.
func appendField[S ~string](dst []byte, name string, value S) []byte {
	return appendString(appendName(dst, name), value)
}

// appendName appends ,"name": and leaves the comma out after an opening brace.
func appendName(dst []byte, name string) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendOptional is appendField, or nothing for an empty value.
func appendOptional[S ~string](dst []byte, name string, value S) []byte {
	if value == "" {
		return dst
	}
	return appendField(dst, name, value)
}

func appendInt(dst []byte, name string, value int) []byte {
	return appendNumber(appendName(dst, name), value)
}

func appendNumber(dst []byte, value int) []byte {
	return strconv.AppendInt(dst, int64(value), 10)
}

func appendFloat(dst []byte, name string, value float64) []byte {
	return strconv.AppendFloat(appendName(dst, name), value, 'g', -1, 64)
}

// appendWhole is appendInt for a number that is brought between least and most.
func appendWhole(dst []byte, name string, value int, least, most int64) []byte {
	return strconv.AppendInt(appendName(dst, name), min(max(int64(value), least), most), 10)
}

// appendBounded is appendFloat for a number that is brought between 0 and most. What is
// less than anything that is read, or no number, becomes 0.
func appendBounded(dst []byte, name string, value, most float64) []byte {
	if !(value >= leastAmount) {
		value = 0
	}
	return appendFloat(dst, name, min(value, most))
}

// appendSeconds appends a duration in seconds; whole ones without a fraction.
func appendSeconds(dst []byte, name string, d time.Duration) []byte {
	if d%time.Second == 0 {
		return appendInt(dst, name, int(d/time.Second))
	}
	return appendFloat(dst, name, d.Seconds())
}

// appendMilliseconds is appendSeconds in milliseconds.
func appendMilliseconds(dst []byte, name string, d time.Duration) []byte {
	if d%time.Millisecond == 0 {
		return appendInt(dst, name, int(d/time.Millisecond))
	}
	return appendFloat(dst, name, float64(d)/float64(time.Millisecond))
}

// appendTime appends a time in UTC with microseconds.
func appendTime(dst []byte, name string, t time.Time) []byte {
	dst = append(appendName(dst, name), '"')
	dst = t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	return append(dst, '"')
}

// appendList appends a list of strings, or nothing for an empty one.
func appendList[S ~string](dst []byte, name string, list []S) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(appendName(dst, name), '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}
