package simulator

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"taskbus/config/yamlconf"
)

// How single values of a scenario are read, beside what every file has.

// Fault is one thing that is wrong with a scenario file.
type Fault = yamlconf.Fault

// Faults is the error of Read: all that is wrong, in the order of the file. List
// is never empty.
type Faults = yamlconf.Faults

var scenarioFile = yamlconf.File{Name: "a scenario", MaxBytes: MaxFileBytes, NoEmpty: true,
	Holds: "a scenario describes a fleet, it holds no data", Begin: "describe at least fleet, workloads and strategies"}

// reader reads a scenario.
type reader struct{ *yamlconf.Decoder }

type (
	spot   = yamlconf.Place
	fields = yamlconf.Keys
)

// aName is a word that may stand in an id.
var aName = yamlconf.NewForm(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$`,
	"1 to 100 letters, digits and . _ : -, beginning with a letter or a digit")

// object hands the value of every key to its reader, and says which keys that must
// be given are not.
func (r *reader) object(p spot, known fields, required ...string) {
	r.Object(p, known)
	for _, key := range required {
		r.Need(p, key, "")
	}
}

// listOf reads a list of what read reads.
func listOf[T any](r *reader, into *[]T, what string, read func(*T) yamlconf.Reader) yamlconf.Reader {
	return func(p spot) {
		r.Items(p, what, func(item spot) {
			var one T
			read(&one)(item)
			*into = append(*into, one)
		})
	}
}

// mapOf reads a mapping of any names to what read reads.
func mapOf[T any](r *reader, into *map[string]T, what string, read func(*T) yamlconf.Reader) yamlconf.Reader {
	return func(p spot) {
		*into = make(map[string]T)
		r.Entries(p, "a mapping of "+what, func(key, value spot) {
			if strings.ContainsFunc(key.Node.Value, unseen) {
				r.Fault(key, "the key holds a control character; remove it")
				return
			}
			var one T
			read(&one)(value)
			(*into)[key.Node.Value] = one
		})
	}
}

// unseen reports whether a character does not show, or changes how others show: the
// output goes to terminals and into charts.
func unseen(c rune) bool {
	return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || unicode.Is(unicode.Bidi_Control, c)
}

// text reads a word or a sentence that is not empty, on one line.
func (r *reader) text(into *string) yamlconf.Reader {
	return r.textWithout(into, unseen, "on one line")
}

// lines reads text that may have several lines.
func (r *reader) lines(into *string) yamlconf.Reader {
	unseen := func(c rune) bool { return c != '\n' && c != '\t' && unseen(c) }
	return r.textWithout(into, unseen, "of one or more lines")
}

func (r *reader) textWithout(into *string, forbidden func(rune) bool, form string) yamlconf.Reader {
	return func(p spot) {
		switch {
		case !p.Scalar() || p.Null() || p.Node.Value == "":
			r.Fault(p, "must be text, not %s", p.Found())
		case strings.ContainsFunc(p.Node.Value, forbidden):
			r.Fault(p, "must be text %s without control characters, not %s", form, p.Found())
		default:
			*into = p.Node.Value
		}
	}
}

// maxSeconds is the longest time that a scenario may speak of: a month.
const maxSeconds = 31 * 86400

// seconds reads a number of seconds from lo on, fractions allowed as far as the clock goes.
func (r *reader) seconds(into *time.Duration, lo float64) yamlconf.Reader {
	return r.time(into, leastTime, lo, false)
}

// above0 reads a number of seconds that is not 0.
func (r *reader) above0(into *time.Duration) yamlconf.Reader { return r.time(into, leastTime, 0, true) }

// time reads a number of seconds from lo on, or above it; what is not 0 is at least least.
func (r *reader) time(into *time.Duration, least, lo float64, above bool) yamlconf.Reader {
	return func(p spot) {
		v, read, or := 0.0, r.Number, ", or 0"
		if above {
			read = r.Above
		}
		if above || lo > 0 {
			or = ""
		}
		before := len(r.Faults)
		read(&v, lo, maxSeconds)(p)
		switch {
		case len(r.Faults) > before:
		case v > 0 && v < least:
			r.Fault(p, "must be at least %g seconds%s, not %s", least, or, p.Found())
		default:
			*into = time.Duration(math.Round(v * 1e9))
		}
	}
}

// within refuses a list that is empty or has more than most items.
func (r *reader) within(p spot, key string, n, least, most int) bool {
	if n < least || n > most {
		r.Fault(p.Child(key, p), "must be a list of %d to %d, not of %d", least, most, n)
		return false
	}
	return true
}

// distinct checks that no two items of a list have the same name, which is that key's.
func distinct[T any](r *reader, p spot, list string, items []T, key string, name func(*T) string) {
	for i := range items {
		if is := name(&items[i]); slices.ContainsFunc(items[:i], func(x T) bool { return name(&x) == is }) {
			r.Fault(p.Child(list, p).Item(i), "another one is called %q already; give it a %s of its own", is, key)
		}
	}
}

// seeds reads a number of seeds, which are then 1, 2, 3 …, or a list of them.
func (r *reader) seeds(into *[]uint64) yamlconf.Reader {
	return func(p spot) {
		*into = nil
		if n := len(p.Node.Content); n > MaxSeeds {
			r.Fault(p, "must be at most %d seeds, not %d", MaxSeeds, n)
			return
		}
		if len(p.Node.Content) == 0 {
			n := 0
			r.Whole(&n, 1, MaxSeeds)(p)
			*into = Seeds(n)
			return
		}
		r.Items(p, "seeds", func(item spot) {
			var seed uint64
			before := len(r.Faults)
			r.Whole(&seed, 0, maxPrinted)(item)
			if i := slices.Index(*into, seed); i >= 0 && len(r.Faults) == before {
				r.Fault(item, "is in line %d already: the same seed gives the same run, which counts once; remove one of the two",
					p.Node.Content[i].Line)
			}
			*into = append(*into, seed)
		})
	}
}

// Seeds are n seeds: 1, 2, 3 …
func Seeds(n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	return seeds
}
