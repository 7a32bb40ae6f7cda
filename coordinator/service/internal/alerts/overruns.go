package alerts

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/httpapi"
	forecast "taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// atOnce bounds what is found at one look: the nodes nearest to the roots, the others with the next. A pool that runs
// out takes all groups below it along.
const atOnce = 100

// overrun is what is published once.
type overrun struct {
	node, dimension string
	until           int64 // when the period ends, in nanoseconds since 1970
}

func overrunOf(n *view.QuotaNode, b *view.QuotaBudget) overrun {
	return overrun{n.ID, b.Dimension, b.ResetTime.UnixNano()}
}

// Overruns are those that this process has published. They belong to one goroutine.
type Overruns map[overrun]bool

// Forget drops those with periods that are over.
func (o Overruns) Forget(now time.Time) {
	for told := range o {
		if told.until <= now.UnixNano() {
			delete(o, told)
		}
	}
}

// Any reports whether the nodes have any budget that could be published.
func (o Overruns) Any(nodes []view.QuotaNode) bool {
	for i := range nodes {
		for j := range nodes[i].Budgets {
			if b := &nodes[i].Budgets[j]; forecast.Tellable(b) && !o[overrunOf(&nodes[i], b)] {
				return true
			}
		}
	}
	return false
}

// Find returns budgets that by the past will not last and are not published yet.
func (o Overruns) Find(nodes []view.QuotaNode, now time.Time, zone *time.Location,
	past *forecast.Past) (found []messages.QuotaOverrun) {
	for _, f := range forecast.Forecasts(nodes, "", now, zone, past) {
		if !f.Alarming() || o[overrunOf(f.Node, f.Budget)] {
			continue
		}
		if len(found) == atOnce {
			break
		}
		found = append(found, messages.QuotaOverrun{
			Node: f.Node.ID, Kind: f.Node.Kind, Dimension: f.Budget.Dimension, Period: f.Budget.Period,
			From: f.Budget.PeriodFrom, Until: f.Budget.ResetTime,
			Used: f.Budget.Used, Cap: f.Budget.Cap, Expected: f.Expected, Basis: f.Basis, At: f.OverrunAt,
		})
	}
	return found
}

// Told notes that one is published.
func (o Overruns) Told(q *messages.QuotaOverrun) {
	o[overrun{q.Node, q.Dimension, q.Until.UnixNano()}] = true
}

// Past returns what the history of usage says; nothing if none is kept. A history that is behind for a reason that
// passes is waited for: a forecast from less would be another one.
func Past(ctx context.Context, h httpapi.History, now time.Time, zone *time.Location) (forecast.Past, error) {
	if h == nil {
		return forecast.Past{}, nil
	}
	p, err := h.Projection(ctx)
	switch {
	case err != nil:
		return forecast.Past{}, fmt.Errorf("ask the history of usage: %w", err)
	case p.State == view.HistoryFailing, p.State == view.HistoryRebuilding:
		return forecast.Past{}, fmt.Errorf("the history of usage is %s: %s", p.State, p.Detail)
	}
	return forecast.ReadPast(now, p.Since, p.Gaps, zone,
		func(q forecast.Query) ([]forecast.Row, bool, error) { return h.Usage(ctx, q) })
}
