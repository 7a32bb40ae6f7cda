package yamlconf

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"taskbus/coordinator/pattern"
)

// PlainDecimal is a number that is not negative, as people write it: without exponent, so
// that it can be read exactly.
var PlainDecimal = pattern.New(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// MaxDigits bounds the text of a number: far more than any that is in range.
const MaxDigits = 64

// scaled is a decimal number times 10^places, exactly: 0.15 with 6 places is 150000. ok is
// false for what is no plain decimal, has more places, or is too large for an int64.
func scaled(text string, places int) (n int64, ok bool) {
	if !PlainDecimal.MatchString(text) || len(text) > MaxDigits {
		return 0, false
	}
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > places {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", places-len(fraction)), 10, 64)
	return n, err == nil
}

// Decimals reads a number with at most so many decimal places, times 10^places: from lo to
// hi, which are given times 10^places as well.
func (d *Decoder) Decimals(into *int64, places int, lo, hi int64) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"type": "number", "minimum": asFloat(lo, places),
			"maximum": asFloat(hi, places)}) {
			return
		}
		n, ok := int64(0), p.Number()
		if ok {
			n, ok = scaled(p.Node.Value, places)
		}
		if !ok || n < lo || n > hi {
			d.Fault(p, "must be a number from %s to %s with at most %d decimals, not %s", InFull(lo, places), InFull(hi, places),
				places, p.Found())
			return
		}
		*into = n
	}
}

// Exact reads a number that is not negative, up to hi, with any number of decimal places.
func (d *Decoder) Exact(into *big.Rat, hi int64) Reader {
	return func(p Place) {
		if d.facts != nil && d.note(p, Facts{"type": "number", "minimum": int64(0), "maximum": hi}) {
			return
		}
		if p.Number() && PlainDecimal.MatchString(p.Node.Value) && len(p.Node.Value) <= MaxDigits {
			if n, ok := new(big.Rat).SetString(p.Node.Value); ok && n.Cmp(new(big.Rat).SetInt64(hi)) <= 0 {
				into.Set(n)
				return
			}
		}
		d.Fault(p, "must be a number from 0 to %d, written out without exponent, not %s", hi, p.Found())
	}
}

// InFull writes n·10^-places as a decimal without trailing zeros.
func InFull(n int64, places int) string {
	unit := int64(math.Pow10(places))
	if n%unit == 0 {
		return strconv.FormatInt(n/unit, 10)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%0*d", n/unit, places, n%unit), "0")
}

// asFloat is n·10^-places, for editors.
func asFloat(n int64, places int) float64 { return float64(n) / math.Pow10(places) }
