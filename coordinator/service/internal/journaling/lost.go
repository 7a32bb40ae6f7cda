package journaling

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// A journal that was deleted, or was on a disk that is lost, is empty for the coordinator that starts next, as
// on a broker that no coordinator has led yet. What distinguishes the two lies elsewhere: every leader puts a mark
// into task.result, and the history of usage knows up to where it has followed a journal. That it was lost is said in
// the new journal from its first message on (see journal.Epoch), so that every coordinator reports it,
// whichever leads, until it is acknowledged.

// History is what is asked of the history of usage (see httpapi.History).
type History interface {
	Usage(ctx context.Context, q usage.Query) (rows []usage.Row, more bool, err error)
	Projection(ctx context.Context) (view.Projection, error)
}

// Past is what else knows whether there has been a journal, and what was used of budgets.
type Past struct {
	// Marks: task.result is a stream in which leaders leave marks.
	Marks   bool
	History History // nil: none is kept
	// Quotas returns those in force; nil: there are none.
	Quotas func() *coordinator.Quotas
}

const restorePoll = 50 * time.Millisecond

// lookForMarks begins to look whether task.result holds anything, while the end of a journal is looked for in
// which the broker counts no message. found, which is to be called when that is over, ends it; where nothing can
// be looked at there is nothing.
func (l *Ledger) lookForMarks(ctx context.Context) (found func() bool) {
	first := make(chan bus.Delivery, 1)
	if !l.Past.Marks || l.Bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamResult, Prefetch: 1, From: bus.Last(), Handle: func(d bus.Delivery) {
			select {
			case first <- d:
			default:
			}
		},
	}) != nil {
		return func() bool { return false }
	}
	return func() bool {
		_, _ = l.Bus.Unsubscribe(ctx, bus.StreamResult) // the bus reports whatever ends the session
		select {
		case d := <-first:
			l.Bus.Requeue(d.Tag) // of a stream this asks for more, which is not read; a queue keeps what it has
			return d.Offset >= 0
		default:
			return false
		}
	}
}

// judge finds out, for a session that is about to claim the epoch after those before, whether the journal is
// lost: it is empty and was not. behind: it lacks what the history of usage knows for that or another reason: it
// was imported from an older export, or what was used of budgets could not be taken back yet.
func (l *Ledger) judge(ctx context.Context) (lost *journal.Loss, behind bool) {
	before := l.Position()
	switch {
	case before.Leader.Instance == journal.Imported:
		p, ok := l.historyBefore(ctx)
		return nil, ok && p.UpTo.After(before.LastAt)
	case before.Epoch > 0:
		return nil, before.Leader.Lost != nil && !before.Leader.Lost.Restored
	}
	now := l.Now()
	var evidence []string
	if l.marks {
		evidence = append(evidence, "coordinators have led on this broker before ("+bus.StreamResult+
			" has marks of theirs, or results)")
	}
	if p, ok := l.historyBefore(ctx); ok && p.UpTo.Before(now) {
		evidence = append(evidence, fmt.Sprintf("the history of usage in %s has followed a journal up to %s", p.Place,
			p.UpTo.UTC().Format(time.RFC3339)))
	}
	if len(evidence) == 0 {
		return nil, false
	}
	lost = &journal.Loss{At: now, Evidence: evidence, Budgets: "no quotas are configured"}
	if l.Past.Quotas() != nil {
		lost.Budgets = "they begin at 0"
	}
	return lost, true
}

// historyBefore returns how the history of usage stands, once it is open; false: there is none, it cannot be opened in
// time, or it has followed no journal yet.
func (l *Ledger) historyBefore(ctx context.Context) (view.Projection, bool) {
	h := l.Past.History
	if h == nil || l.Past.Quotas() == nil {
		return view.Projection{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, restoreAtOnce)
	defer cancel()
	for {
		p, err := h.Projection(ctx)
		switch {
		case err == nil && p.Place != "":
			return p, !p.UpTo.IsZero()
		case err == nil && p.State != view.HistoryWaiting: // off, stopped, or failing to open
			return p, false
		}
		select {
		case <-ctx.Done():
			return p, false
		case <-time.After(restorePoll):
		}
	}
}
