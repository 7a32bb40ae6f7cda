package simulator

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/coordinator"
)

// How single values of a scenario are read.

// number reads a number from lo to hi; above, if set, does not allow lo itself.
func (r *reader) number(into *float64, lo, hi float64, above ...bool) func(spot) {
	return func(p spot) {
		open := len(above) > 0
		v, err := strconv.ParseFloat(p.node.Value, 64)
		if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!int" && p.node.Tag != "!!float" || err != nil ||
			math.IsNaN(v) || v < lo || v > hi || open && v == lo {
			rule := fmt.Sprintf("from %g to %g", lo, hi)
			if open {
				rule = fmt.Sprintf("above %g and up to %g", lo, hi)
			}
			r.fault(p, "must be a number %s, not %s", rule, found(p.node))
			return
		}
		*into = v
	}
}

// whole reads a whole number from lo to hi.
func whole[T ~int | ~int64 | ~uint64](r *reader, into *T, lo, hi T) func(spot) {
	return func(p spot) {
		v, err := strconv.ParseUint(p.node.Value, 10, 63)
		if p.node.Kind != yaml.ScalarNode || p.node.Tag != "!!int" || err != nil || T(v) < lo || T(v) > hi {
			r.fault(p, "must be a whole number from %d to %d, not %s", lo, hi, found(p.node))
			return
		}
		*into = T(v)
	}
}

// maxSeconds is the longest time that a scenario may speak of: a month.
const maxSeconds = 31 * 86400

// seconds reads a number of seconds, fractions allowed as far as the clock goes.
func (r *reader) seconds(into *time.Duration, lo float64, above ...bool) func(spot) {
	return r.secondsOr0(into, leastTime, lo, above...)
}

// setting reads a number of seconds of the coordinator's settings.
func (r *reader) setting(into *time.Duration, lo float64, above ...bool) func(spot) {
	return r.secondsOr0(into, leastSetting, lo, above...)
}

// secondsOr0 reads a number of seconds from lo on; what is not 0 is at least least.
func (r *reader) secondsOr0(into *time.Duration, least, lo float64, above ...bool) func(spot) {
	return func(p spot) {
		v := -1.0
		r.number(&v, lo, maxSeconds, above...)(p)
		if v > 0 && v < least {
			or := ""
			if lo == 0 && len(above) == 0 {
				or = ", or 0"
			}
			r.fault(p, "must be at least %g seconds%s, not %s", least, or, found(p.node))
			return
		}
		if v >= 0 {
			*into = time.Duration(math.Round(v * 1e9))
		}
	}
}

func (r *reader) boolean(into *bool) func(spot) {
	return func(p spot) {
		if p.node.Tag != "!!bool" {
			r.fault(p, "must be true or false, not %s", found(p.node))
			return
		}
		*into = strings.EqualFold(p.node.Value, "true")
	}
}

// oneOf reads one of a few words.
func oneOf[T ~string](r *reader, into *T, words ...T) func(spot) {
	return func(p spot) {
		if !slices.Contains(words, T(p.node.Value)) {
			known := make([]string, len(words))
			for i, w := range words {
				known[i] = string(w)
			}
			r.fault(p, "must be one of %s, not %s", strings.Join(known, ", "), found(p.node))
			return
		}
		*into = T(p.node.Value)
	}
}

// DidYouMean ends a fault about an unknown name: with the known name that comes
// closest, else with all of them.
func DidYouMean(got string, known []string) string {
	if near := coordinator.DidYouMean(got, known); near != "" {
		return "; " + near
	}
	return "; known are " + strings.Join(known, ", ")
}
