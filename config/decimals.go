package config

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// plainDecimal is a number that is not negative, as people write it: without exponent, so
// that it can be read exactly.
var plainDecimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// maxDigits bounds the text of a number: far more than any that is in range.
const maxDigits = 64

// scaled is a decimal number times 10^places, exactly: 0.15 with 6 places is 150000. ok is
// false for what is no plain decimal, has more places, or is too large for an int64.
func scaled(text string, places int) (n int64, ok bool) {
	if !plainDecimal.MatchString(text) || len(text) > maxDigits {
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

// decimals reads a number with at most so many decimal places, times 10^places: from lo to
// hi, which are given times 10^places as well.
func (d *decoder) decimals(into *int64, places int, lo, hi int64) reader {
	return func(p place) {
		n, ok := int64(0), isNumber(p)
		if ok {
			n, ok = scaled(p.node.Value, places)
		}
		if !ok || n < lo || n > hi {
			d.fault(p, "must be a number from %s to %s with at most %d decimals, not %s", inFull(lo, places), inFull(hi, places),
				places, found(p.node))
			return
		}
		*into = n
	}
}

// exact reads a number that is not negative, up to hi, with any number of decimal places.
func (d *decoder) exact(into *big.Rat, hi int64) reader {
	return func(p place) {
		if isNumber(p) && plainDecimal.MatchString(p.node.Value) && len(p.node.Value) <= maxDigits {
			if n, ok := new(big.Rat).SetString(p.node.Value); ok && n.Cmp(new(big.Rat).SetInt64(hi)) <= 0 {
				into.Set(n)
				return
			}
		}
		d.fault(p, "must be a number from 0 to %d, written out without exponent, not %s", hi, found(p.node))
	}
}

// isNumber reports whether a number stands there, and no text that looks like one.
func isNumber(p place) bool {
	return isScalar(p.node) && (p.node.Tag == "!!int" || p.node.Tag == "!!float")
}

// inFull writes n·10^-places as a decimal without trailing zeros.
func inFull(n int64, places int) string {
	unit := int64(math.Pow10(places))
	if n%unit == 0 {
		return strconv.FormatInt(n/unit, 10)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%0*d", n/unit, places, n%unit), "0")
}
