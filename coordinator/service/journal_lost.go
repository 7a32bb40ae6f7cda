package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/journaling"
	forecast "taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// A journal that was deleted, or was on a disk that is lost, is empty for the coordinator that starts next, as
// on a broker that no coordinator has led yet. What distinguishes the two lies elsewhere: every leader puts a mark
// into task.result, and the history of usage knows up to where it has followed a journal. That it was lost is said in
// the new journal from its first message on (see journal.Epoch), so that every coordinator reports it,
// whichever leads,
// until it is acknowledged.

const (
	// restoreAtOnce is for how long taking over waits for the history of usage; afterwards it is asked again
	// every restoreEvery beside the work.
	restoreAtOnce = 5 * time.Second
	restoreEvery  = 5 * time.Second
	restorePoll   = 50 * time.Millisecond
	// correctionsAtOnce bounds one record of the journal.
	correctionsAtOnce = 500
)

// restored notes what has become of what was used of budgets.
func (r *session) restored(all bool, text string) {
	lost := r.s.loss.Load()
	if lost == nil || lost.Restored == all && lost.Budgets == text {
		return
	}
	next := *lost
	next.Restored, next.Budgets = all, text
	if r.s.loss.CompareAndSwap(lost, &next) { // else it is acknowledged
		r.ledger.LossChanged()
	}
}

// checkJournal returns what /health says of a loss; false: nothing.
func (s *Service) checkJournal() (view.Check, bool) {
	lost := s.loss.Load()
	if lost == nil {
		return view.Check{}, false
	}
	return view.Check{Status: view.Degraded, Detail: "the journal was empty at " + lost.At.UTC().
			Format(time.RFC3339) + ", although " +
			strings.Join(lost.Evidence, ", and ") + "; used budgets: " + lost.Budgets,
			Advice: "put right what docs/howto/backup.md#when-the-journal-is-lost lists, then `taskbus journal acknowledge`"},
		true
}

// AcknowledgeLoss ends that the loss of the journal is reported (see httpapi.Source). It returns when the journal
// says so.
func (s *Service) AcknowledgeLoss(ctx context.Context) error {
	if s.loss.Load() == nil {
		return httpapi.ErrNothingLost
	}
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("acknowledge the loss of the journal: %w", err)
	}
	switch said, err := r.ledger.Acknowledge(ctx); {
	case errors.Is(err, journaling.ErrEnded):
		return fmt.Errorf("acknowledge the loss of the journal: %w; try again", errSessionEnded)
	case err != nil && said:
		return fmt.Errorf("acknowledge the loss of the journal: the broker has not confirmed it yet: %w", err)
	case err != nil:
		return fmt.Errorf("acknowledge the loss of the journal: %w", err)
	}
	s.log.Info().Msg("the loss of the journal is acknowledged")
	return nil
}

// lookForMarks begins to look whether task.result holds anything, while the end of a journal is looked for in
// which the broker counts no message. found, which is to be called when that is over, ends it; where nothing can
// be looked at there is nothing.
func (r *session) lookForMarks(ctx context.Context) (found func() bool) {
	first := make(chan bus.Delivery, 1)
	if r.s.profile() == bus.ProfileClassic || r.bus.Subscribe(ctx, bus.Subscription{
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
		_, _ = r.bus.Unsubscribe(ctx, bus.StreamResult) // the bus reports whatever ends the session
		select {
		case d := <-first:
			r.bus.Requeue(d.Tag) // of a stream this asks for more, which is not read; a queue keeps what it has
			return d.Offset >= 0
		default:
			return false
		}
	}
}

// judgeJournal finds out, for a session that is about to claim the epoch after those before, whether the journal is
// lost: it is empty and was not. behind: it lacks what the history of usage knows for that or another reason: it
// was imported from an older export, or what was used of budgets could not be taken back yet.
func (r *session) judgeJournal(ctx context.Context, before *journaling.Position) (lost *journal.Loss, behind bool) {
	switch {
	case before.Leader.Instance == journal.Imported:
		p, ok := r.s.historyBefore(ctx)
		return nil, ok && p.UpTo.After(before.LastAt)
	case before.Epoch > 0:
		return nil, before.Leader.Lost != nil && !before.Leader.Lost.Restored
	}
	now := r.s.now()
	var evidence []string
	if r.marks {
		evidence = append(evidence, "coordinators have led on this broker before ("+bus.StreamResult+
			" has marks of theirs, or results)")
	}
	if p, ok := r.s.historyBefore(ctx); ok && p.UpTo.Before(now) {
		evidence = append(evidence, fmt.Sprintf("the history of usage in %s has followed a journal up to %s", p.Place,
			p.UpTo.UTC().Format(time.RFC3339)))
	}
	if len(evidence) == 0 {
		return nil, false
	}
	lost = &journal.Loss{At: now, Evidence: evidence, Budgets: "no quotas are configured"}
	if r.s.config.Load().Policy().Quotas != nil {
		lost.Budgets = "they begin at 0"
	}
	return lost, true
}

// historyBefore returns how the history of usage stands, once it is open; false: there is none, it cannot be opened in
// time, or it has followed no journal yet.
func (s *Service) historyBefore(ctx context.Context) (view.Projection, bool) {
	h := s.options.History
	if h == nil || s.config.Load().Policy().Quotas == nil {
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

// lostJournal returns what is reported of the loss of the journal; nil: there is none.
func (s *Service) lostJournal() *view.JournalLost {
	l := s.loss.Load()
	if l == nil {
		return nil
	}
	lost := &view.JournalLost{At: l.At, Evidence: l.Evidence, Budgets: l.Budgets, BudgetsRestored: l.Restored,
		BeginsAnew: []string{
			"which task is with which agent, and the ids of the duplicate window: a task that RabbitMQ delivers again may " +
				"be done twice",
			"success rates, durations and ejections",
			"orders: cordon and drain",
		}}
	if s.config.Load().Policy().Quotas != nil {
		lost.BeginsAnew = append(lost.BeginsAnew,
			"standing changes of quotas (set, boost, registered groups and agents)",
			"what was used of budgets, unless it is taken back from the history of usage")
	}
	return lost
}

// restoreBudgets takes what was used of budgets back from the history, while the session takes no tasks yet. What
// cannot be done at once is tried again beside the work.
func (r *session) restoreBudgets(ctx context.Context) {
	s := r.s
	if s.config.Load().Policy().Quotas == nil {
		return
	}
	if s.options.History == nil {
		r.restored(false, "they begin at 0: no history of usage is kept")
		return
	}
	if r.tryRestore(ctx) {
		return
	}
	r.workers.Go(func() { r.every(restoreEvery, func() bool { return !r.tryRestore(context.Background()) }) })
}

// tryRestore reports whether nothing is left to be done.
func (r *session) tryRestore(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, restoreAtOnce)
	defer cancel()
	place, n, err := r.budgetsFromHistory(ctx)
	switch {
	case errors.Is(err, errNoHistory):
		r.restored(false, "they begin at 0: "+err.Error())
		r.s.log.Error().Err(err).
			Msg("what was used of budgets is not taken back, and counts from 0; `taskbus quota correct` puts it right by hand")
		return true
	case err != nil:
		r.restored(false, fmt.Sprintf(
			"they begin at 0 until the history of usage can be asked, which is tried again every %s: %v", restoreEvery, err))
		return false
	}
	text := fmt.Sprintf("taken back from the history of usage in %s (%d corrections)", place, n)
	r.restored(true, text)
	r.s.log.Warn().Str("place", place).Int("corrections", n).
		Msg(
			"what was used of budgets is taken back from the history of usage; what had been reserved, or was not in it " +
				"yet, is not known")
	return true
}

// errNoHistory: there is nothing to take anything back from, and no other try would change that.
var errNoHistory = errors.New("no history of usage has followed a journal")

// budgetsFromHistory raises what counts as used to what the history says of the periods at hand, and says
// how many corrections that took.
func (r *session) budgetsFromHistory(ctx context.Context) (place string, corrections int, err error) {
	s := r.s
	p, err := s.options.History.Projection(ctx)
	switch {
	case err != nil:
		return "", 0, fmt.Errorf("ask the history of usage: %w", err)
	case p.Place == "" && (p.State == view.HistoryWaiting || p.State == view.HistoryFailing):
		return "", 0, fmt.Errorf("the history of usage is %s: %s", p.State, p.Detail)
	case p.Place == "", p.UpTo.IsZero():
		return "", 0, errNoHistory
	}
	nodes, err := s.reading.Budgets(ctx)
	if err != nil {
		return "", 0, err
	}
	q := s.config.Load().Policy().Quotas
	if q == nil {
		return "", 0, errNoHistory
	}
	from := forecast.RestoreFrom(nodes, q.Location)
	if from == "" {
		return p.Place, 0, nil
	}
	rows, _, err := s.options.History.Usage(ctx, forecast.Query{By: forecast.ByDay, From: from})
	if err != nil {
		return "", 0, fmt.Errorf("ask the history of usage: %w", err)
	}
	var set []coordinator.QuotaControl
	for _, c := range forecast.Corrections(nodes, rows, q.Location) {
		set = append(set, correctionOf(&c, s.now()))
	}
	corrections = len(set)
	for len(set) > 0 {
		some := set[:min(correctionsAtOnce, len(set))]
		set = set[len(some):]
		err := s.order(r, func(now time.Time, token uint64) {
			s.loop.apply(now, coordinator.QuotaControlsRequested{Set: some, Token: token})
		})
		if err != nil {
			return "", 0, err
		}
	}
	return p.Place, corrections, nil
}

// correctionOf returns a correction as the engine makes it.
func correctionOf(c *forecast.Correction, at time.Time) coordinator.QuotaControl {
	one := coordinator.QuotaControl{
		Kind: coordinator.ControlCorrect, Target: c.Node, Key: c.Dimension, Value: strconv.FormatInt(c.By, 10), At: at,
		By: "taskbus", Reason: "taken back from the history of usage, which the journal is behind",
	}
	if c.Dimension == coordinator.DimCost.String() {
		one.Value = strconv.FormatFloat(float64(c.By)/1e6, 'f', -1, 64)
	}
	return one.Named()
}
