package alerts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/messages"
	"taskbus/schemas"
)

// Alert is an event that people are to hear of, as it is published.
type Alert struct {
	// ID is the same for the same event, however often and by whichever coordinator it is published.
	ID string
	// Subject is the budget that it is about, by node and dimension.
	Subject string
	// Type is quota.reached or quota.overrun; Body the event in JSON; Text says it in a sentence.
	Type string
	Body []byte
	Text string
}

// alertID names an event that is published once: by its kind, its budget and its period.
func alertID(kind, node, dimension string, until time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d", kind, node, dimension, until.UnixNano()))
	return "quota-" + hex.EncodeToString(sum[:16])
}

// Reached is that a budget is nearly, or quite, used up, published at now by that key.
func Reached(f *coordinator.QuotaReached, now time.Time) (key string, a Alert) {
	key = schemas.QuotaReached + "." + strconv.Itoa(f.Percent)
	d, borrows := f.Dimension.String(), ""
	if f.MayBorrow {
		borrows = "; it may borrow more of what others leave"
	}
	return key, Alert{
		ID: alertID(key, f.Node, d, f.Ends), Subject: f.Node + " " + d, Type: schemas.QuotaReached,
		Body: messages.AppendQuotaReached(nil, f, now),
		Text: fmt.Sprintf("%s at %d %%: %s of %s, resets %s%s",
			f.Node, f.Percent, Amount(d, f.Dimension.Shown(f.Used)), unitText(d, f.Dimension.Shown(f.Cap)),
			resetText(f.Ends), borrows),
	}
}

// Overrun is that a budget will not last until its period ends, published at now by that key.
func Overrun(q *messages.QuotaOverrun, now time.Time) (key string, a Alert) {
	return schemas.QuotaOverrun, Alert{
		ID: alertID(schemas.QuotaOverrun, q.Node, q.Dimension, q.Until), Subject: q.Node + " " + q.Dimension,
		Type: schemas.QuotaOverrun, Body: messages.AppendQuotaOverrun(nil, q, now),
		Text: fmt.Sprintf(
			"The budget of %s in %s will not last until %s: %s of %s are expected (%s), and it is used up at about %s.",
			q.Node, q.Dimension, timeText(q.Until), Amount(q.Dimension, q.Expected), Amount(q.Dimension, q.Cap), q.Basis,
			timeText(q.At)),
	}
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// resetText returns when a period ends: the day alone where that is its beginning.
func resetText(t time.Time) string {
	if t = t.UTC(); t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format("2 Jan")
	}
	return t.Format("2 Jan 15:04 MST")
}

// unitText returns an amount with its unit for people.
func unitText(dimension string, amount float64) string {
	if dimension == coordinator.DimCost.String() {
		return Amount(dimension, amount)
	}
	return Amount(dimension, amount) + " " + dimension
}

// Amount returns an amount for people.
func Amount(dimension string, amount float64) string {
	if dimension == coordinator.DimCost.String() {
		return "$" + strconv.FormatFloat(amount, 'f', 2, 64)
	}
	return strconv.FormatFloat(amount, 'f', 0, 64)
}
