package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/store"
)

// rebuildQuiet without a message: that was the end of the journal. Should it not have been, what
// follows is read as ever.
const rebuildQuiet = 3 * time.Second

// rebuild is an order to make the rows anew. It is an error to end the reading with.
type rebuild struct {
	done chan struct{}
	made Rebuilt
	err  error
}

func (*rebuild) Error() string { return "the history is to be made anew" }

// Rebuilt is what came of making the rows anew.
type Rebuilt struct {
	// Since is from when on the journal has what the rows are made of.
	Since time.Time
	// From is the first day that was made anew, empty: all were. Kept: rows of before stay, for
	// the journal holds nothing of their time any more.
	From string
	Kept bool
	// Rows that were made, up to the journal's offset.
	Rows   int
	Offset int64
}

// Rebuild makes the rows anew, as far as the journal reaches back, and waits for that until
// ctx ends; it goes on all the same.
func (h *History) Rebuild(ctx context.Context) (Rebuilt, error) {
	order := &rebuild{done: make(chan struct{})}
	select {
	case h.rebuilds <- order:
	case <-ctx.Done():
		return Rebuilt{}, fmt.Errorf("the history cannot be made anew now: %s", h.why())
	}
	select {
	case <-order.done:
		return order.made, order.err
	case <-ctx.Done():
		return Rebuilt{}, ErrGoesOn
	}
}

// ErrGoesOn says that what was ordered is being done.
var ErrGoesOn = errors.New("the history is being made anew")

func (h *History) why() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.detail != "" {
		return h.detail
	}
	return "it is " + h.state
}

// rebuild does it, and answers the order.
func (h *History) rebuild(ctx context.Context, order *rebuild) {
	defer close(order.done)
	s, err := h.opened(ctx)
	if err == nil {
		h.set(Rebuilding, "")
		order.made, err = h.anew(ctx)
	}
	if order.err = err; err != nil {
		h.o.Logger.Warn().Err(err).Msg("the history of usage was not made anew")
		return
	}
	h.set(Following, "") // it goes on from there
	m := &order.made
	h.o.Logger.Info().Str("place", s.Name()).Time("since", m.Since).Str("from", m.From).Bool("kept", m.Kept).
		Int("rows", m.Rows).Int64("offset", m.Offset).
		Msg("the history of usage was made anew from the journal")
}

// adopt has the rows go on with another journal where it is known which of that is in them (see usage.Onward):
// usage.ErrOtherJournal, it is not known.
func (h *History) adopt(ctx context.Context, s *store.Store) error {
	state, err := loadState(ctx, s)
	if err != nil {
		return err
	}
	old, onward, last := state.Mark, usage.NewOnward(state.Mark), time.Now()
	err = read(ctx, h.o.Bus, h.o.Session, bus.First(), func(d bus.Delivery) error {
		last = time.Now()
		more, err := onward.Take(d.Offset, d.Body)
		if err == nil && !more {
			return errStop
		}
		return err
	}, func() (time.Duration, error) {
		if time.Since(last) >= rebuildQuiet {
			return 0, errStop
		}
		return rebuildQuiet, h.ordered()
	})
	switch {
	case !errors.Is(err, errStop):
		return err
	case !onward.Found():
		return usage.ErrOtherJournal
	}
	gap := between(&old, onward.From, onward.To.Offset)
	b := usage.Batch{From: old, To: onward.To, Gaps: []usage.Gap{gap}}
	for i := 0; onward.Begun && i < len(state.Open); i++ {
		b.Drop = append(b.Drop, state.Open[i].ID)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Apply(ctx, &b); err != nil {
		return err
	}
	h.o.Logger.Warn().Time("since", gap.To).Int64("offset", gap.Offset).
		Msg("the journal is another one; the history of usage keeps what it has, and goes on with the new one")
	return nil
}

// ordered is the error that ends reading when the rows are to be made anew; nil: they are not.
func (h *History) ordered() error {
	select {
	case order := <-h.rebuilds:
		return order
	default:
		return nil
	}
}

// anew reads the journal from its beginning, and puts what that makes in place of what there is.
func (h *History) anew(ctx context.Context) (made Rebuilt, err error) {
	s, err := h.opened(ctx)
	if err != nil {
		return made, err
	}
	old, err := mark(ctx, s)
	if err != nil {
		return made, err
	}
	zone, _ := h.o.Zone()
	p := usage.New(usage.State{Mark: usage.NoMark()}, zone)
	// At least until it is where the rows are, or is known to be another journal: what is behind that comes by following.
	last, first := time.Now(), int64(-1)
	other, compared, imported := false, old.Offset < 0, time.Time{}
	err = read(ctx, h.o.Bus, h.o.Session, bus.First(), func(d bus.Delivery) error {
		if last = time.Now(); first < 0 {
			first = d.Offset
		}
		if !compared && d.Offset >= old.Offset {
			other, compared = old.Other(d.Offset, d.Body), true
		}
		if err := take(p, d); err != nil {
			return err
		}
		if at := journal.ImportedAt(d.Body); at.After(imported) {
			imported = at
		}
		h, err := journal.DecodeHeader(d.Body)
		if !compared && err == nil && h.Kind != journal.KindEpoch && h.Kind != journal.KindPiece &&
			h.Epoch >= p.Mark().Epoch && h.At.After(old.At) {
			other, compared = true, true // all up to its offset was written before the mark's
		}
		if p.Whole() && old.Offset >= 0 && compared {
			return errStop
		}
		return nil
	}, func() (time.Duration, error) {
		if time.Since(last) >= rebuildQuiet {
			return 0, errStop
		}
		return rebuildQuiet, nil
	})
	if !errors.Is(err, errStop) {
		return made, err
	}
	b, ok := p.Batch()
	if !ok {
		return made,
			errors.New(
				"the journal holds neither its beginning nor a complete snapshot, so that nothing can be made of it; the " +
					"history is as it was")
	}
	if b.To.Offset < old.Offset && !other && !b.To.Since.After(old.At) {
		return made,
			fmt.Errorf(
				"the journal was read up to offset %d only, and the history is up to %d: order it again, or, if it is another "+
					"broker's, name another TASKBUS_HISTORY; the history is as it was", b.To.Offset, old.Offset)
	}
	if other && !imported.IsZero() && b.To.Since.Before(old.At) {
		return made, errors.New("the journal was imported from an export, of which the history may hold some: " +
			"stop the coordinator, and copy it the history of the one with whose TASKBUS_HISTORY it was imported; the " +
			"history is as it was")
	}
	made = Rebuilt{Since: b.To.Since, Offset: b.To.Offset, Rows: len(b.Rows)}
	whole := b.To.Since // from when on all is in the journal: the export may lack what came behind it
	if imported.After(whole) {
		whole = imported
	}
	switch {
	case old.Offset < 0:
	case other, b.To.Since.After(old.At): // nothing of what the rows are made of is in it, or any more
		made.Kept = true
		b.Gaps = append([]usage.Gap{between(&old, b.To.Since, first)}, b.Gaps...)
	case old.Since.Before(whole): // the day on which it begins is only in part in it
		made.From, made.Kept = firstWhole(whole, zone), true
	}
	ctx, cancel := context.WithTimeout(ctx, 10*storeTimeout)
	defer cancel()
	if err := s.Replace(ctx, &b, made.From, made.Kept && made.From == ""); err != nil {
		return made, err
	}
	return made, s.Gone() // what cannot be found was not made
}

// between is the gap between the rows that stay and those that another journal, or what is left of
// this one, has made: of what was used after the mark of the former nothing is known.
func between(old *usage.Mark, to time.Time, first int64) usage.Gap {
	if to.Before(old.At) { // the clock of its leader was behind
		to = old.At
	}
	return usage.Gap{From: old.At, To: to, Offset: first,
		Reason: "the journal that was followed until then was deleted, or what had followed was, before it was read"}
}

// firstWhole is the first day that begins after a time.
func firstWhole(t time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}
