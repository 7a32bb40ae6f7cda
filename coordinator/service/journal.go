package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/journal"
)

// How the journal is read.
const (
	prefetchJournal = 50 // of 256 KiB each while a snapshot is read
	// foldAhead is how many messages may be decoded and not folded yet: a snapshot is
	// read faster than it is folded, and should not be in memory twice.
	foldAhead = 4
	// lastTimeout is for the last message of a journal that has some, emptyTimeout where the broker
	// counts none: its count may be some seconds old.
	lastTimeout  = 10 * time.Second
	emptyTimeout = 300 * time.Millisecond
	// lastQuiet without a message, after the first: that was the end. lastMost bounds the search for
	// it where a leader writes all the time.
	lastQuiet = 100 * time.Millisecond
	lastMost  = 2 * time.Second
	// claimTimeout is for the claim to be read back once everything before it has been,
	// and as long again while there is something to read.
	claimTimeout = 10 * time.Second
)

// readProgress is how far what the journal held when a session began to read it has been folded, as
// offsets; it is read by others meanwhile.
type readProgress struct{ from, at, until atomic.Int64 }

// reads reports whether there is something left to read.
func (p *readProgress) reads() bool { return p.until.Load() >= 0 }

// String says it for people; empty: it has all been read.
func (p *readProgress) String() string {
	from, until := p.from.Load(), p.until.Load()
	switch {
	case until < 0:
		return ""
	case from < 0:
		return "begins to read the journal"
	}
	return fmt.Sprintf("reads the journal: %d of %d messages", max(0, p.at.Load()-from), until-from+1)
}

// ledger is a session's hand on the journal: it folds what others write and, once the
// session leads, writes.
type ledger struct {
	r *session

	mu     sync.Mutex // held for reader
	reader *journal.Reader
	taken  uint64 // messages
	nonce  string
	sent   []byte // the claim that was not read back yet; nil: none
	// until is the offset up to which the journal was written when this session began to
	// read it; -1: not known. begun is closed when that has been folded.
	until int64
	begun chan struct{}
	// claimed is closed when our claim was read back, and everything before it posted.
	claimed chan struct{}
	void    chan struct{} // capacity 1: our claim was read back, and another coordinator has led since
	// marks: the journal seemed empty, and task.result was not. lost is what was found to be the loss of
	// an earlier journal, for the claim; nil: none.
	marks bool
	lost  *journal.Loss
	// leading: what is read back is our own.
	leading atomic.Bool
	own     journal.Joiner // of what is read back
	// owed is how much of a recording is still to be written and not with the transport yet: messages of
	// inputs, and the snapshot that it begins with.
	owed atomic.Int64
	// broken: the broker has refused a message, and nothing that follows counts.
	broken   atomic.Bool
	folding  chan struct{} // a place for each message that is not folded yet
	progress readProgress

	// written is the number of the record that comes next, offset how far results had
	// been dealt with, as of the latest commit; 0: this session does not lead.
	epoch   uint64 // of ours, once it is claimed
	written atomic.Uint64
	offset  atomic.Int64

	writer   ledgerWriter
	snapshot snapshotting
}

func newLedger(r *session) *ledger {
	l := &ledger{r: r, reader: journal.NewReader(), nonce: randomID(), claimed: make(chan struct{}),
		void: make(chan struct{}, 1), until: -1, begun: make(chan struct{}), folding: make(chan struct{}, foldAhead)}
	l.progress.until.Store(-1)
	l.progress.from.Store(-1)
	l.writer.queue, l.writer.inputs = make(chan written, roomInQueue), make(chan []byte, inputsAhead)
	l.writer.news, l.writer.acknowledged = make(chan struct{}, 1), make(chan chan<- struct{})
	if r.s.options.SkipCorrupt {
		l.reader.SkipCorrupt(r.s.observe.journalSkipped)
	}
	return l
}

// follow begins to read: where the last message says that the newest snapshot begins.
func (l *ledger) follow(ctx context.Context) error {
	depth, err := l.r.bus.Depth(ctx, bus.StreamJournal)
	if err != nil {
		return fmt.Errorf("look at the journal %s: %w", bus.StreamJournal, err)
	}
	found := func() bool { return false }
	if depth.Ready == 0 {
		found = l.r.lookForMarks(ctx)
	}
	last, err := l.last(ctx, depth.Ready == 0)
	if err != nil {
		return err
	}
	l.marks = found()
	l.mu.Lock() // a question about the journal may come meanwhile
	l.reader.Knows(last)
	expects := l.until >= 0
	l.mu.Unlock()
	err = l.r.bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: prefetchJournal, From: journal.Start(last), Handle: l.onMessage,
	})
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if !expects {
		return nil
	}
	return l.awaitBegun(ctx)
}

// awaitBegun waits until what the journal held at the beginning has been folded, so that
// heartbeats meet the tasks that they name.
func (l *ledger) awaitBegun(ctx context.Context) error {
	return l.await(ctx, l.begun, "what the journal holds was not read")
}

// last reads the header of the journal's last message; one that names no snapshot where it has none.
// The broker begins with the first of those that it keeps together: an earlier snapshot that this one
// names would not do, as the files may have said something else of quotas until the newest (see
// quotasChanged).
func (l *ledger) last(ctx context.Context, empty bool) (journal.Header, error) {
	found, ended := make(chan bus.Delivery), make(chan struct{})
	defer close(ended)
	err := l.r.bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: prefetchJournal, From: bus.Last(),
		Handle: func(d bus.Delivery) {
			select {
			case found <- d:
			case <-ended:
			}
			l.r.bus.Ack(d.Tag)
		},
	})
	if err != nil {
		return journal.Header{}, fmt.Errorf("read the end of the journal: %w", err)
	}
	last, err := l.readLast(ctx, found, empty)
	if err != nil {
		return last, err
	}
	if _, err := l.r.bus.Unsubscribe(ctx, bus.StreamJournal); err != nil {
		return last, fmt.Errorf("read the end of the journal: %w", err)
	}
	return last, nil
}

// readLast takes what is found until nothing comes any more.
func (l *ledger) readLast(ctx context.Context, found <-chan bus.Delivery, empty bool) (journal.Header, error) {
	last, wait := journal.Header{SnapshotOffset: -1}, lastTimeout
	if empty {
		wait = emptyTimeout
	}
	quiet := time.NewTimer(wait)
	defer quiet.Stop()
	var enough <-chan time.Time // from the first on
	for {
		select {
		case d := <-found:
			l.until = d.Offset
			l.progress.until.Store(d.Offset)
			h, err := journal.DecodeHeader(d.Body)
			switch {
			case err != nil && l.r.s.options.SkipCorrupt: // it is logged when it is read again
			case err != nil:
				return h, l.fatal(fmt.Errorf("read the last message of the journal, at offset %d: %w", d.Offset, err))
			case h.Epoch >= last.Epoch: // others are void
				last = h
			}
			if enough == nil {
				enough = time.After(lastMost)
			}
			quiet.Reset(lastQuiet)
		case <-quiet.C:
			if enough == nil && !empty {
				return last, fmt.Errorf("read the end of the journal: nothing came within %s", wait)
			}
			return last, nil
		case <-enough:
			return last, nil
		case <-l.r.bus.Done():
			return last, bus.ErrClosed
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// fatal marks what will not pass by itself: it ends the process instead of the session.
func (l *ledger) fatal(err error) error {
	var newer *journal.NewerError
	var damaged *journal.CorruptError
	var gap *journal.GapError
	if errors.As(err, &newer) || errors.As(err, &damaged) && !l.r.s.options.SkipCorrupt || errors.As(err, &gap) {
		return &unusable{err}
	}
	return err
}

// unusable is a journal that cannot be used as it is.
type unusable struct{ error }

func (u *unusable) Unwrap() error { return u.error }

// onMessage takes one message of the journal.
func (l *ledger) onMessage(d bus.Delivery) {
	defer l.r.bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	if l.leading.Load() {
		l.readBack(&d)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, since := l.reader.Leader()
	epoch, at, led := l.reader.Epoch(), l.reader.LastAt(), l.reader.Led()
	records, err := l.reader.Take(d.Offset, d.Body)
	if err == nil && epoch > 0 && l.reader.Epoch() > epoch {
		l.succeed(at, led)
	}
	if err != nil {
		l.r.fault(l.fatal(fmt.Errorf("read the journal: %w", err)))
		return
	}
	if l.taken++; l.taken == 1 {
		l.progress.from.Store(d.Offset)
	}
	leader, from := l.reader.Leader()
	l.r.s.loss.Store(leader.Lost)
	if len(records) > 0 {
		l.fold(l.reader.LastAt(), d.Offset, records)
	}
	if l.until >= 0 && d.Offset >= l.until {
		l.until = -1
		l.r.s.loop.enqueue(envelope{call: func(time.Time) {
			if l.r.s.loop.session == l.r.number {
				l.r.s.foldControls()
			}
			l.progress.until.Store(-1)
			close(l.begun)
		}})
	}
	switch ours := l.sent != nil && bytes.Equal(d.Body, l.sent); {
	case leader.Nonce == l.nonce:
		l.leading.Store(true)
		close(l.claimed)
	case ours: // what was to be read before it was known which coordinator leads has been read now
		l.sent = nil
		l.void <- struct{}{}
	case !from.Equal(since):
		l.r.s.ledBy(leader, from)
	case leader != before: // its files have changed
		l.r.s.filesOf(leader)
	}
}

// succeed reports to the engine that a term has ended.
func (l *ledger) succeed(at time.Time, lasted time.Duration) {
	l.r.s.loop.within(l.r.number, func(time.Time) { l.r.s.loop.engine.Succeed(at, lasted) })
}

// fold lets the loop fold the records of a message, and waits while too many wait for that.
func (l *ledger) fold(at time.Time, offset int64, records []coordinator.Record) {
	select {
	case l.folding <- struct{}{}:
	case <-l.r.bus.Done():
		return
	}
	l.r.s.loop.enqueue(envelope{call: func(time.Time) {
		defer func() { <-l.folding }()
		if l.r.s.loop.session != l.r.number {
			return
		}
		for _, rec := range records {
			l.r.s.foldRecord(at, rec)
		}
		l.r.s.history.follow(at, records)
		l.progress.at.Store(offset)
		if !l.progress.reads() && len(l.folding) == 1 { // questions from now on are to see it
			l.r.s.foldControls()
		}
	}})
}

// journalStatus says which coordinator leads and how far the journal is.
func (s *Service) journalStatus(st *httpapi.Status) {
	r := s.current.Load()
	if r == nil || r.ledger == nil {
		return
	}
	p := r.ledger.position()
	st.Journal = &httpapi.Journal{
		Records: p.next - 1, SnapshotOffset: p.snapshot, ResultOffset: p.resultOffset, LastRecord: p.lastAt,
	}
	if next := r.ledger.written.Load(); next > 0 {
		st.Journal.Records, st.Journal.SnapshotOffset = next-1, r.ledger.snapshot.complete.Load()
		st.Journal.ResultOffset, st.Journal.LastRecord = r.ledger.offset.Load(), time.Time{}
	}
	st.Journal.Lost = s.lostJournal()
	if p.leader.Instance != "" {
		st.Leader = &httpapi.Leader{
			Instance: p.leader.Instance, Address: p.leader.Address, Version: p.leader.Version, Epoch: p.epoch, Since: p.since,
		}
	}
}

// imageOf copies the engine's state, with everything that has gathered written before.
func (l *ledger) imageOf(now time.Time) *engine.Image {
	lp := l.r.s.loop
	lp.commits.rest(now)
	return lp.engine.Image(now)
}
