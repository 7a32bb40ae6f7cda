package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// How single values are read.

// text gives the characters of a scalar that stands for a name. A number counts
// as its characters, so that `1:` may be an agent's id; true and ~ do not, they
// are more likely a mistake.
func (d *decoder) text(p place, pattern *regexp.Regexp, rule string) (string, bool) {
	n := p.node
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Tag == "!!bool" || !pattern.MatchString(n.Value) {
		d.fault(p, "must be %s, not %s", rule, found(n))
		return "", false
	}
	return n.Value, true
}

// decimal is a whole number as JSON writes it. Anything else that YAML takes for
// a number means something different to different readers: 010 is 8 to one and
// 10 to the next, and 08 is a float.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// whole reads a whole number from lo (not negative) to hi. why, if given, says what stands
// behind the limits.
func whole[T ~int | ~int64 | ~uint64](d *decoder, into *T, lo, hi T, why ...string) reader {
	return func(p place) {
		rule := fmt.Sprintf("must be a whole number from %d to %d", lo, hi)
		n := p.node
		if n.Kind != yaml.ScalarNode {
			d.fault(p, "%s, not %s", rule, found(n))
			return
		}
		if plain := strings.TrimLeft(n.Value, "0"); decimal.MatchString(plain) && n.Tag != "!!str" && plain != n.Value {
			d.fault(p, "%s, not %s; write it without the leading zero: %s", rule, found(n), clip(plain))
			return
		}
		if n.Tag == "!!str" && decimal.MatchString(n.Value) {
			d.fault(p, "%s, not text; write it without quotes: %s", rule, clip(n.Value))
			return
		}
		if n.Tag == "!!str" || !decimal.MatchString(n.Value) {
			d.fault(p, "%s, not %s", rule, found(n))
			return
		}
		value, ok := parseWhole(n.Value, lo, hi)
		if !ok {
			d.fault(p, "%s, not %s", strings.Join(append([]string{rule}, why...), " "), found(n))
			return
		}
		*into = value
	}
}

// parseWhole parses a decimal number and reports whether it lies in lo to hi. No
// setting is negative, so a minus sign is out of range like any other.
func parseWhole[T ~int | ~int64 | ~uint64](s string, lo, hi T) (T, bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return T(v), err == nil && v <= uint64(hi) && v >= uint64(lo)
}

// seconds reads a whole number of seconds from lo to hi into a duration.
func (d *decoder) seconds(into *time.Duration, lo, hi int64, why ...string) reader {
	return func(p place) {
		n := int64(*into / time.Second)
		whole(d, &n, lo, hi, why...)(p)
		*into = time.Duration(n) * time.Second
	}
}

// plainNumber is a number as JSON writes it, or with a point at its beginning or end.
var plainNumber = regexp.MustCompile(`^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// number reads a number from lo to hi.
func (d *decoder) number(into *float64, lo, hi float64) reader {
	return func(p place) {
		n := p.node
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || !plainNumber.MatchString(n.Value) ||
			err != nil || !(v >= lo && v <= hi) {
			d.fault(p, "must be a number from %s to %s, not %s", plainFloat(lo), plainFloat(hi), found(n))
			return
		}
		*into = v
	}
}

func plainFloat(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// fraction reads a number above 0 and up to 1.
func (d *decoder) fraction(into *float64) reader {
	return func(p place) {
		n := p.node
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || err != nil || !(v > 0 && v <= 1) {
			d.fault(p, "must be a number above 0 and up to 1, not %s", found(n))
			return
		}
		*into = v
	}
}

// boolean reads true or false and nothing that merely sounds like it.
func (d *decoder) boolean(into *bool) reader {
	return func(p place) {
		if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!bool" {
			d.fault(p, "must be true or false, not %s", found(p.node))
			return
		}
		*into = p.node.Value[0] == 't' || p.node.Value[0] == 'T'
	}
}

// oneOf reads one of a few words. It goes by the characters of the scalar, so
// that an unquoted `off` stays the word it is whatever a YAML version makes of it.
func oneOf[T ~string](d *decoder, into *T, words ...T) reader {
	return func(p place) {
		if p.node.Kind == yaml.ScalarNode && slices.Contains(words, T(p.node.Value)) {
			*into = T(p.node.Value)
			return
		}
		known := make([]string, len(words))
		for i, w := range words {
			known[i] = string(w)
		}
		d.fault(p, "must be one of %s, not %s", strings.Join(known, ", "), found(p.node))
	}
}
