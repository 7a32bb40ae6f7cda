package journaling

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

const (
	// restoreAtOnce is for how long taking over waits for the history of usage; afterwards it is asked again
	// every RestoreEvery beside the work.
	restoreAtOnce = 5 * time.Second
	// RestoreEvery is between two tries to take back what was used of budgets.
	RestoreEvery = 5 * time.Second
	// correctionsAtOnce bounds one record of the journal.
	correctionsAtOnce = 500
)

// Books are what counts as used of budgets, in the engine.
type Books struct {
	Nodes func(context.Context) ([]view.QuotaNode, error)
	// Correct returns when the corrections are in the journal.
	Correct func([]coordinator.QuotaControl) error
}

// Restore takes what was used of budgets back from the history, while the session takes no tasks yet. What
// cannot be done at once is tried again beside the work.
func (l *Ledger) Restore(ctx context.Context, b Books) {
	switch {
	case l.Past.Quotas() == nil:
	case l.Past.History == nil:
		l.restored(false, "they begin at 0: no history of usage is kept")
	case !l.tryRestore(ctx, b):
		l.Workers.Go(func() {
			background.Every(l.Bus.Done(), RestoreEvery, func() bool { return !l.tryRestore(context.Background(), b) })
		})
	}
}

// restored notes what has become of what was used of budgets.
func (l *Ledger) restored(all bool, text string) {
	lost := l.Loss.Load()
	if lost == nil || lost.Restored == all && lost.Budgets == text {
		return
	}
	next := *lost
	next.Restored, next.Budgets = all, text
	if l.Loss.CompareAndSwap(lost, &next) { // else it is acknowledged
		l.newsChanged()
	}
}

// tryRestore reports whether nothing is left to be done.
func (l *Ledger) tryRestore(ctx context.Context, b Books) bool {
	ctx, cancel := context.WithTimeout(ctx, restoreAtOnce)
	defer cancel()
	place, n, err := l.fromHistory(ctx, b)
	switch {
	case errors.Is(err, errNoHistory):
		l.restored(false, "they begin at 0: "+err.Error())
		l.Log.Error().Err(err).
			Msg("what was used of budgets is not taken back, and counts from 0; `taskbus quota correct` puts it right by hand")
		return true
	case err != nil:
		l.restored(false, fmt.Sprintf(
			"they begin at 0 until the history of usage can be asked, which is tried again every %s: %v", RestoreEvery, err))
		return false
	}
	l.restored(true, fmt.Sprintf("taken back from the history of usage in %s (%d corrections)", place, n))
	l.Log.Warn().Str("place", place).Int("corrections", n).
		Msg(
			"what was used of budgets is taken back from the history of usage; what had been reserved, or was not in it " +
				"yet, is not known")
	return true
}

// errNoHistory: there is nothing to take anything back from, and no other try would change that.
var errNoHistory = errors.New("no history of usage has followed a journal")

// fromHistory raises what counts as used to what the history says of the periods at hand, and says
// how many corrections that took.
func (l *Ledger) fromHistory(ctx context.Context, b Books) (place string, corrections int, err error) {
	p, err := l.Past.History.Projection(ctx)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("ask the history of usage: %w", err)
	case p.Place == "" && (p.State == view.HistoryWaiting || p.State == view.HistoryFailing):
		return "", 0, fmt.Errorf("the history of usage is %s: %s", p.State, p.Detail)
	case p.Place == "", p.UpTo.IsZero():
		return "", 0, errNoHistory
	}
	nodes, err := b.Nodes(ctx)
	if err != nil {
		return "", 0, err
	}
	q := l.Past.Quotas()
	if q == nil {
		return "", 0, errNoHistory
	}
	from := usage.RestoreFrom(nodes, q.Location)
	if from == "" {
		return p.Place, 0, nil
	}
	rows, _, err := l.Past.History.Usage(ctx, usage.Query{By: usage.ByDay, From: from})
	if err != nil {
		return "", 0, fmt.Errorf("ask the history of usage: %w", err)
	}
	var set []coordinator.QuotaControl
	for _, c := range usage.Corrections(nodes, rows, q.Location) {
		set = append(set, correctionOf(&c, l.Now()))
	}
	corrections = len(set)
	for len(set) > 0 {
		some := set[:min(correctionsAtOnce, len(set))]
		set = set[len(some):]
		if err := b.Correct(some); err != nil {
			return "", 0, err
		}
	}
	return p.Place, corrections, nil
}

// correctionOf returns a correction as the engine makes it.
func correctionOf(c *usage.Correction, at time.Time) coordinator.QuotaControl {
	one := coordinator.QuotaControl{
		Kind: coordinator.ControlCorrect, Target: c.Node, Key: c.Dimension, Value: strconv.FormatInt(c.By, 10), At: at,
		By: "taskbus", Reason: "taken back from the history of usage, which the journal is behind",
	}
	if c.Dimension == coordinator.DimCost.String() {
		one.Value = strconv.FormatFloat(float64(c.By)/1e6, 'f', -1, 64)
	}
	return one.Named()
}
