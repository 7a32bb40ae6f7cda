package yamlconf

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/pattern"
)

// How single values are read. A destination is a pointer; what it points to is the default.

// Form is what a text must look like, and how that is said.
type Form struct {
	Pattern *pattern.Pattern
	Says    string
}

// NewForm is that of a regular expression, which must be right.
func NewForm(expr, says string) Form { return Form{pattern.New(expr), says} }

// ID is what entries are called.
var ID = NewForm(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`,
	"an id of 1 to 128 letters, digits and . _ : -, beginning with a letter or digit")

// PlainWord is what else is called something.
var PlainWord = NewForm(`^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]{0,126}[^\x00-\x20\x7f])?$`,
	"a word of 1 to 128 printable characters without a space at either end")

// Day is one in seconds.
const Day = 24 * 60 * 60

// Take gives the characters of a scalar that stands for a name. A number counts
// as its characters, so that `1:` may be an agent's id; true and ~ do not, they
// are more likely a mistake.
func (d *Decoder) Take(p Place, form Form) (string, bool) {
	if d.facts != nil && d.note(p, Facts{"type": "string", "pattern": form.Pattern.String()}) {
		return "", false
	}
	n := p.Node
	if !p.Scalar() || n.Tag == "!!null" || n.Tag == "!!bool" || !form.Pattern.MatchString(n.Value) {
		d.Fault(p, "must be %s, not %s", form.Says, p.Found())
		return "", false
	}
	return n.Value, true
}

// Text reads a name.
func (d *Decoder) Text(into *string, form Form) Reader {
	return func(p Place) {
		if text, ok := d.Take(p, form); ok {
			*into = text
		}
	}
}

// Known reads the name of something that there is.
func (d *Decoder) Known(into *string, what string, names func() []string) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"enum": names()}) {
			return
		}
		if !p.Scalar() || !slices.Contains(names(), p.Node.Value) {
			d.Fault(p, "no %s is called %s%s", what, p.Found(), d.Suggest(p.Node.Value, names))
			return
		}
		*into = p.Node.Value
	}
}

// Words reads a list of names into a sorted list of strings of any type, without duplicates.
func (d *Decoder) Words(into any, what string, form Form) Reader {
	return func(p Place) {
		var list []string
		d.List(p, what, func(item Place) {
			if word, ok := d.Take(item, form); ok {
				list = append(list, word)
			}
		})
		list = coordinator.SortedUnique(list)
		to := reflect.ValueOf(into).Elem()
		to.SetZero()
		for _, word := range list {
			to.Set(reflect.Append(to, reflect.ValueOf(word).Convert(to.Type().Elem())))
		}
	}
}

// WholeNumber is a whole number as JSON writes it. Anything else that YAML takes for
// a number means something different to different readers: 010 is 8 to one and
// 10 to the next, and 08 is a float.
var WholeNumber = pattern.New(`^-?(0|[1-9][0-9]*)$`)

// Whole reads a whole number from lo (not negative) to hi into an integer of any type. why, if given, says what
// stands behind the limits.
func (d *Decoder) Whole(into any, lo, hi int64, why ...string) Reader {
	return func(p Place) {
		to := reflect.ValueOf(into).Elem()
		if d.facts != nil && d.note(p, Facts{"type": "integer", "minimum": lo, "maximum": hi, "default": to.Interface()}) {
			return
		}
		v, ok := d.wholeAt(p, lo, hi, why...)
		switch {
		case !ok:
		case to.CanInt():
			to.SetInt(v)
		default:
			to.SetUint(uint64(v))
		}
	}
}

func (d *Decoder) wholeAt(p Place, lo, hi int64, why ...string) (int64, bool) {
	rule := func() string { return fmt.Sprintf("must be a whole number from %d to %d", lo, hi) }
	n := p.Node
	if p.Scalar() {
		text, number := n.Value, n.Tag != "!!str"
		plain := strings.TrimLeft(text, "0")
		switch {
		case number && plain != text && WholeNumber.MatchString(plain):
			d.Fault(p, "%s, not %s; write it without the leading zero: %s", rule(), p.Found(), Clip(plain))
			return 0, false
		case !number && WholeNumber.MatchString(text):
			d.Fault(p, "%s, not text; write it without quotes: %s", rule(), Clip(text))
			return 0, false
		case number && WholeNumber.MatchString(text):
			if v, ok := ParseWhole(text, lo, hi); ok {
				return v, true
			}
			d.Fault(p, "%s, not %s", strings.Join(append([]string{rule()}, why...), " "), p.Found())
			return 0, false
		}
	}
	d.Fault(p, "%s, not %s", rule(), p.Found())
	return 0, false
}

// ParseWhole parses a decimal number and reports whether it lies in lo to hi. No
// setting is negative, so a minus sign is out of range like any other.
func ParseWhole(s string, lo, hi int64) (int64, bool) {
	v, err := strconv.ParseUint(s, 10, 63)
	return int64(v), err == nil && int64(v) <= hi && int64(v) >= lo
}

// Seconds reads a whole number of seconds from lo to hi into a duration.
func (d *Decoder) Seconds(into *time.Duration, lo, hi int64, why ...string) Reader {
	return d.times(into, time.Second, lo, hi, why...)
}

// Milliseconds reads a whole number of milliseconds, from the least to the most.
func (d *Decoder) Milliseconds(into *time.Duration, least, most time.Duration) Reader {
	return d.times(into, time.Millisecond, least.Milliseconds(), most.Milliseconds())
}

func (d *Decoder) times(into *time.Duration, unit time.Duration, lo, hi int64, why ...string) Reader {
	return func(p Place) {
		n := int64(*into / unit)
		d.Whole(&n, lo, hi, why...)(p)
		*into = time.Duration(n) * unit
	}
}

// plainNumber is a number as JSON writes it, or with a point at its beginning or end.
var plainNumber = pattern.New(`^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// Number reads a number from lo to hi.
func (d *Decoder) Number(into *float64, lo, hi float64) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"type": "number", "minimum": lo, "maximum": hi, "default": *into}) {
			return
		}
		v, err := strconv.ParseFloat(p.Node.Value, 64)
		if !p.Number() || !plainNumber.MatchString(p.Node.Value) || err != nil || !(v >= lo && v <= hi) {
			d.Fault(p, "must be a number from %s to %s, not %s", plainFloat(lo), plainFloat(hi), p.Found())
			return
		}
		*into = v
	}
}

// Above reads a number above lo and up to hi.
func (d *Decoder) Above(into *float64, lo, hi float64) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"type": "number", "exclusiveMinimum": lo, "maximum": hi, "default": *into}) {
			return
		}
		v, err := strconv.ParseFloat(p.Node.Value, 64)
		if !p.Number() || err != nil || !(v > lo && v <= hi) {
			d.Fault(p, "must be a number above %s and up to %s, not %s", plainFloat(lo), plainFloat(hi), p.Found())
			return
		}
		*into = v
	}
}

func plainFloat(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Bool reads true or false and nothing that merely sounds like it.
func (d *Decoder) Bool(into *bool) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"type": "boolean", "default": *into}) {
			return
		}
		if !p.Scalar() || p.Node.Tag != "!!bool" {
			d.Fault(p, "must be true or false, not %s", p.Found())
			return
		}
		*into = p.Node.Value[0] == 't' || p.Node.Value[0] == 'T'
	}
}

// OneOf reads one of a few words into a text; or into an integer or bool, of which the words are the values from 0
// (false) on. It goes by the characters of the scalar, so that an unquoted `off` stays the word it is whatever a YAML
// version makes of it.
func (d *Decoder) OneOf(into any, words ...string) Reader {
	return func(p Place) {
		to, is := reflect.ValueOf(into).Elem(), ""
		switch {
		case to.Kind() == reflect.String:
			is = to.String()
		case to.Kind() == reflect.Bool && to.Bool():
			is = words[1]
		case to.CanUint():
			is = words[to.Uint()]
		case to.CanInt():
			is = words[to.Int()]
		default:
			is = words[0]
		}
		if d.facts != nil && d.note(p, Facts{"enum": words, "default": is}) {
			return
		}
		i := -1
		if p.Scalar() {
			i = slices.Index(words, p.Node.Value)
		}
		switch {
		case i < 0:
			d.Fault(p, "must be one of %s, not %s", strings.Join(words, ", "), p.Found())
		case to.Kind() == reflect.String:
			to.SetString(words[i])
		case to.Kind() == reflect.Bool:
			to.SetBool(i == 1)
		case to.CanUint():
			to.SetUint(uint64(i))
		default:
			to.SetInt(int64(i))
		}
	}
}
