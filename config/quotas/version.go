package quotas

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"taskbus/coordinator"
)

// Append appends what quotas say, for the version.
func Append(text []byte, q *coordinator.Quotas) []byte {
	zone := q.Location
	if zone == nil {
		zone = time.UTC
	}
	text = fmt.Appendf(text, " %q %d %d %d %d %#v %v", zone, q.RepayPercent, q.ReservationTTL, q.TombstoneTTL,
		q.DefaultOutput, q.Prices, q.Routing)
	if !slices.Equal(q.AlertPercents, coordinator.DefaultAlertPercents()) {
		text = fmt.Appendf(text, " alerts %d", q.AlertPercents)
	}
	if q.Unpriced != coordinator.UnpricedRefuse {
		text = fmt.Appendf(text, " unpriced %d %v", q.Unpriced, q.UnpricedPrice)
	}
	if q.AnyCaller {
		text = append(text, " any caller"...)
	}
	if q.Adjustment.Idle != nil {
		text = fmt.Appendf(text, " %#v", *q.Adjustment.Idle)
	}
	if q.Adjustment.Slow != nil {
		text = fmt.Appendf(text, " %#v", *q.Adjustment.Slow)
	}
	// Thousands of groups and agents have the same: = stands for what the one before has.
	written, borrowing := limitTexts{written: make(map[coordinator.QuotaLimit]string)}, coordinator.Borrowing{}
	text = slices.Grow(text, 128*len(q.Nodes))
	nodes := slices.Concat(q.Nodes, q.Loss)
	for i := range nodes {
		n := &nodes[i]
		text = strconv.AppendQuote(append(text, ' '), n.ID)
		text = strconv.AppendInt(append(text, ' '), int64(n.Kind), 10)
		text = strconv.AppendInt(append(text, ' '), int64(n.Parent), 10)
		text = strconv.AppendQuote(append(text, ' '), n.Provider)
		text = strconv.AppendQuote(append(text, ' '), n.Model)
		text = strconv.AppendInt(append(text, ' '), n.Weight, 10)
		if n.Borrowing == borrowing {
			text = append(text, " ="...)
		} else {
			borrowing = n.Borrowing
			text = fmt.Appendf(text, " %#v", borrowing)
		}
		for dim := range n.Budgets {
			text = written.append(written.append(text, 2*dim, n.Budgets[dim]), 2*dim+1, n.Rates[dim])
		}
		text = written.append(text, 2*len(n.Budgets), n.Seats)
		for k := range n.Beside {
			text = fmt.Appendf(text, " beside %d", n.Beside[k].Dimension)
			text = written.append(text, 2*int(n.Beside[k].Dimension), &n.Beside[k].QuotaLimit)
		}
	}
	return text
}

// limitTexts are limits as they are written down.
type limitTexts struct {
	written map[coordinator.QuotaLimit]string
	before  [2*coordinator.NumDimensions + 1]*coordinator.QuotaLimit // the latest of each sort
}

func (t *limitTexts) append(text []byte, sort int, l *coordinator.QuotaLimit) []byte {
	before := t.before[sort]
	switch {
	case l == nil:
		return append(text, " -"...)
	case before != nil && *before == *l:
		return append(text, " ="...)
	}
	t.before[sort] = l
	written, known := t.written[*l]
	if !known {
		written = fmt.Sprintf(" %#v", *l)
		t.written[*l] = written
	}
	return append(text, written...)
}
