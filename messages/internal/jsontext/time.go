package jsontext

import "time"

// ParseTime reads the ISO-8601 times that the schemas' pattern admits: RFC 3339,
// a space for the T, and no zone at all, as Python's datetime.isoformat() prints
// it for a naive time, which is taken as UTC. It is false for what does not
// exist (a 30th of February, a leap second) and for years outside 1970 to 9999
// in UTC. Digits beyond the ninth of a fraction are dropped.
//
// Both decoding paths use it, so they agree by construction.
func ParseTime[S ~string | ~[]byte](s S) (time.Time, bool) {
	const layout = "dddd-dd-ddTdd:dd:dd"
	if len(s) < len(layout) {
		return time.Time{}, false
	}
	for i := range len(layout) {
		c := s[i]
		switch layout[i] {
		case 'd':
			if c-'0' > 9 {
				return time.Time{}, false
			}
		case 'T':
			if c != 'T' && c != 't' && c != ' ' {
				return time.Time{}, false
			}
		default:
			if c != layout[i] {
				return time.Time{}, false
			}
		}
	}
	two := func(i int) int { return 10*int(s[i]-'0') + int(s[i+1]-'0') }
	year, month, day := 100*two(0)+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	i, nanos := len(layout), 0
	if i < len(s) && s[i] == '.' {
		i++
		start := i
		for unit := 100_000_000; i < len(s) && s[i]-'0' <= 9; i++ {
			nanos += unit * int(s[i]-'0')
			unit /= 10
		}
		if i == start || i-start > 18 {
			return time.Time{}, false
		}
	}
	var offset time.Duration
	switch rest := len(s) - i; {
	case rest == 0:
	case rest == 1 && s[i]|0x20 == 'z':
	case rest == 6 && (s[i] == '+' || s[i] == '-') && s[i+3] == ':':
		for _, j := range [4]int{1, 2, 4, 5} {
			if s[i+j]-'0' > 9 {
				return time.Time{}, false
			}
		}
		h, m := two(i+1), two(i+4)
		if h > 23 || m > 59 {
			return time.Time{}, false
		}
		offset = time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
		if s[i] == '-' {
			offset = -offset
		}
	default:
		return time.Time{}, false
	}
	if month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Day() != day {
		return time.Time{}, false // Date has rolled over into another month.
	}
	t = t.Add(-offset)
	if t.Unix() < 0 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}
