package quotas

import (
	"fmt"
	"strings"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// DescribeLimit says for people what a limit of that dimension is, in the words and units of
// quotas.yaml: "500000 per month", "rate 5 per second, burst 10, borrow 0", "by_weight per day".
func DescribeLimit(dim coordinator.Dimension, l *coordinator.QuotaLimit) string {
	var b strings.Builder
	amount := unitText(dim, l.Nominal)
	if l.Nominal == coordinator.ByWeight {
		amount = wordByWeight
	}
	switch {
	case l.Per > 0:
		b.WriteString("rate " + amount + perText(l.Per))
	case dim == coordinator.DimConcurrency:
		b.WriteString(amount)
	case l.Period.Unit == coordinator.PerInterval:
		b.WriteString(amount + perText(l.Period.Interval))
	default:
		b.WriteString(amount + " per " + budgetPeriods[l.Period.Unit])
	}
	if l.Burst > 0 {
		b.WriteString(", burst " + unitText(dim, l.Burst))
	}
	for _, bound := range []struct {
		name string
		coordinator.Bound
	}{{"borrow", l.Borrow}, {"lend", l.Lend}} {
		switch bound.Kind {
		case coordinator.BoundAmount:
			b.WriteString(", " + bound.name + " " + unitText(dim, bound.Value))
		case coordinator.BoundPercent:
			fmt.Fprintf(&b, ", %s %d%%", bound.name, bound.Value)
		}
	}
	return b.String()
}

// amountText writes the amount of a limit.
func amountText(kind limitKind, dim coordinator.Dimension, l *coordinator.QuotaLimit) string {
	if kind == kindRate {
		return unitText(dim, l.Nominal) + perText(l.Per)
	}
	return unitText(dim, l.Nominal)
}

// unitText writes an amount in the unit of quotas.yaml: dollars, not micro-USD.
func unitText(dim coordinator.Dimension, n int64) string {
	if dim == coordinator.DimCost {
		return yamlconf.InFull(n, dollarPlaces)
	}
	return yamlconf.InFull(n, 0)
}

// perText is " per second", or " per 90 s" where there is no word for it.
func perText(per time.Duration) string {
	for word, d := range rateUnits {
		if d == per {
			return " per " + word
		}
	}
	return fmt.Sprintf(" per %d s", per/time.Second)
}
