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

const (
	// writeEvery is how late a change is at most, writeSize how many make one transaction.
	writeEvery = time.Second
	writeSize  = 1000
	// markEvery is how often the mark alone is written, where nothing was used.
	markEvery = 10 * time.Second
	// storeTimeout bounds one transaction.
	storeTimeout = 30 * time.Second
	// lastWrite is how long writing may take when the coordinator ends.
	lastWrite = time.Second
	// journalSilent is how long the journal may take to give the message that it has given before.
	journalSilent = 20 * time.Second
	// besideEvery is how often one that does not write looks whether another one does, and
	// besideFor how long that may write nothing before it writes itself.
	besideEvery = 2 * time.Second
	besideFor   = 15 * time.Second
)

// follower is one time of following.
type follower struct {
	h           *History
	store       *store.Store
	projection  *usage.Projection
	began       time.Time
	told, heard bool // that it reads; the mark is in the journal
	written     time.Time
}

// follow reads on from where the database is, until something is wrong.
func (h *History) follow(ctx context.Context, s *store.Store) error {
	state, err := loadState(ctx, s)
	if err != nil {
		return err
	}
	zone, _ := h.o.Zone()
	now := time.Now()
	f := &follower{h: h, store: s, projection: usage.New(state, zone), began: now, written: now,
		heard: state.Mark.Offset < 0}
	from := bus.First()
	if state.Mark.Offset >= 0 {
		first, err := h.first(ctx)
		if err == nil && state.Mark.BegunAfter(first) {
			err = usage.ErrOtherJournal
		}
		if err != nil {
			return err
		}
		f.began, from = time.Now(), bus.At(state.Mark.Start())
	}
	err = read(ctx, h.o.Bus, h.o.Session, from,
		func(d bus.Delivery) error { return f.take(ctx, d) },
		func() (time.Duration, error) { return f.idle(ctx) })
	if ctx.Err() != nil || errors.Is(err, errEnded) || errors.Is(err, bus.ErrClosed) {
		// What is not written now is read again by the next one, unless the journal is deleted.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
		defer cancel()
		_, _ = f.save(last)
	}
	return err
}

// first is the first message of the journal, which is waited for.
func (h *History) first(ctx context.Context) (body []byte, err error) {
	began := time.Now()
	err = read(ctx, h.o.Bus, h.o.Session, bus.First(), func(d bus.Delivery) error {
		body = d.Body
		return errStop
	}, func() (time.Duration, error) {
		if time.Since(began) > writeEvery {
			h.set(Waiting, "the journal has no message yet")
		}
		return writeEvery / 4, h.ordered()
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return body, err
}

func loadState(ctx context.Context, s *store.Store) (usage.State, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.State(ctx)
}

func (f *follower) take(ctx context.Context, d bus.Delivery) error {
	zone, _ := f.h.o.Zone()
	f.projection.SetLocation(zone)
	mark := f.projection.Mark().Offset
	if err := take(f.projection, d); err != nil {
		return err
	}
	f.heard = f.heard || d.Offset >= mark
	if f.projection.Size() >= writeSize {
		return f.write(ctx)
	}
	return nil
}

func take(p *usage.Projection, d bus.Delivery) error {
	err := p.Take(d.Offset, d.Body)
	var other *journal.VersionError
	if errors.As(err, &other) {
		return fmt.Errorf("the history of usage cannot go on: %w", err)
	}
	return err
}

// idle writes what is due, and says when to come again.
func (f *follower) idle(ctx context.Context) (time.Duration, error) {
	if !f.told && f.heard {
		f.told = true
		f.h.reads()
	}
	if err := f.h.ordered(); err != nil {
		return 0, err
	}
	since := time.Since(f.written)
	if f.projection.Size() > 0 && since >= writeEvery || since >= markEvery {
		if err := f.write(ctx); err != nil {
			return 0, err
		}
	}
	if !f.heard && time.Since(f.began) > journalSilent {
		return 0, fmt.Errorf("the journal does not reach offset %d, up to which it is in the history: %w",
			f.projection.Mark().Offset, usage.ErrOtherJournal)
	}
	return writeEvery / 4, nil
}

// save writes what has changed, if anything has.
func (f *follower) save(ctx context.Context) (changed bool, err error) {
	if err := f.store.Gone(); err != nil {
		return false, err
	}
	b, ok := f.projection.Batch()
	f.written = time.Now()
	if !ok {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return true, f.store.Apply(ctx, &b)
}

func (f *follower) write(ctx context.Context) error {
	changed, err := f.save(ctx)
	if err != nil {
		return err
	}
	if changed || f.heard && f.written.Sub(f.began) >= markEvery { // what comes could be written, or nothing has come
		f.h.set(Following, "")
	}
	return nil
}

// beside looks on while another coordinator writes to the same database.
func (h *History) beside(ctx context.Context, s *store.Store) error {
	var last usage.Mark
	changed := time.Now()
	for time.Since(changed) < besideFor {
		m, err := mark(ctx, s)
		if err != nil {
			return err
		}
		if m != last {
			last, changed = m, time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case order := <-h.rebuilds:
			h.rebuild(ctx, order)
			return nil
		case <-time.After(besideEvery):
		}
	}
	return nil
}

func mark(ctx context.Context, s *store.Store) (usage.Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Gone(); err != nil {
		return usage.Mark{}, err
	}
	return s.Mark(ctx)
}
