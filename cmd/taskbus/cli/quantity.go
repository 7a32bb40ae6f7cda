package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// Kilobytes is size for what may be small.
func Kilobytes(bytes int64) string {
	if bytes >= 10_000_000 {
		return Size(bytes)
	}
	return fmt.Sprintf("%d KB", (bytes+999)/1000)
}

// UsedText is an amount of tokens, or of requests where there are none, with its cost.
func UsedText(a *coordinator.Amounts) string {
	text := Count(int(a[coordinator.DimTotalTokens]), "token")
	if a[coordinator.DimTotalTokens] == 0 {
		text = Count(int(a[coordinator.DimRequests]), "request")
	}
	if cost := a[coordinator.DimCost]; cost != 0 {
		text += ", " + Quantity("cost_usd", float64(cost)/1e6)
	}
	return text
}

// Quantity is an amount of a dimension in few digits: 412, 41.2k, 4.12M; dollars of costs.
func Quantity(dimension string, v float64) string {
	if dimension == "cost_usd" {
		if v >= 10_000 {
			return "$" + Quantity("", v)
		}
		return "$" + strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	}
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of && v >= 10_000 {
			return strconv.FormatFloat(v/unit.of, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Some is a quantity, or nothing of nothing.
func Some(in func(float64) string, v float64) string {
	if v == 0 {
		return ""
	}
	return in(v)
}

// Percent of a part in the whole; "" of nothing.
func Percent(part, whole float64) string {
	if whole <= 0 {
		return ""
	}
	return strconv.FormatFloat(math.Floor(100*part/whole), 'f', -1, 64) + "%"
}

// Per names a time in which a rate allows its amount: "s", "2s", "min", "h".
func Per(seconds float64) string {
	switch seconds {
	case 1:
		return "s"
	case 60:
		return "min"
	case 3600:
		return "h"
	case 86400:
		return "day"
	}
	return strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
}

// Until renders how far ahead a time is, in the largest unit that fits; "" for none.
func Until(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := then.Sub(now)
	if d >= time.Second { // what was to be two hours a moment ago is not one
		d = d.Round(time.Second)
	}
	if d > time.Hour {
		d = d.Round(time.Minute)
	}
	if d >= time.Second {
		return "in " + InUnit(d)
	}
	return "now"
}

// ModelOf names a model with its provider, as far as these are known.
func ModelOf(provider, model string) string { return strings.Trim(provider+"/"+model, "/") }

func Size(bytes int64) string {
	if bytes >= 1_000_000_000 {
		return fmt.Sprintf("%d GB", bytes/1_000_000_000)
	}
	return fmt.Sprintf("%d MB", bytes/1_000_000)
}
