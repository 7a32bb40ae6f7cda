package journaling

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

// How the journal is read.
const (
	// prefetch is how many messages the broker sends before it hears of the first, of 256 KiB each while a
	// snapshot is read. A broker that is busy, or far away, sends only so many for each answer.
	prefetch = 200
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
	// FindsEmpty is how long it takes to find that a journal is empty.
	FindsEmpty = emptyTimeout + lastQuiet
)

// reading is the reading side of a ledger.
type reading struct {
	reader *journal.Reader
	read   uint64 // messages
	nonce  string
	sent   []byte        // the claim that was not read back yet; nil: none
	lost   *journal.Loss // what the claim says of an earlier journal; nil: nothing
	marks  bool          // the journal seemed empty, and task.result was not
	// until is the offset up to which the journal was written when this session began to
	// read it; -1: not known. begun is closed when that has been folded.
	until int64
	begun chan struct{}
	// claimed is closed when our claim was read back, and everything before it given to the sink.
	claimed chan struct{}
	void    chan struct{} // capacity 1: our claim was read back, and another coordinator has led since
	sink    func(*Message)
	// leading: what is read back is our own.
	leading  atomic.Bool
	own      journal.Joiner // of what is read back
	folding  chan struct{}  // a place for each message that is not folded yet
	progress progress
}

func (r *reading) init() {
	r.reader, r.nonce, r.until = journal.NewReader(), RandomID(), -1
	r.begun, r.claimed, r.void = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	r.folding = make(chan struct{}, foldAhead)
	r.progress.until.Store(-1)
	r.progress.from.Store(-1)
}

// Message is what one message of the journal brings. The sink folds it on a goroutine of its own, in order, and says
// so by Folded.
type Message struct {
	At      time.Time
	Records []coordinator.Record
	// Ended: a term has ended at TermEnded, after TermLasted. It is to be reported before the records.
	Ended      bool
	TermEnded  time.Time
	TermLasted time.Duration
	// Leader leads Since then. NewLeader: others than before; NewFiles: it has other files.
	Leader              journal.Epoch
	Since               time.Time
	NewLeader, NewFiles bool

	// SnapshotRead: a part of a snapshot of ours has been read back, and nothing else.
	SnapshotRead bool

	ledger *Ledger
	offset int64
	begins bool // with it all has been read that the journal held at the beginning
}

// NeedsFolding reports whether there is something to fold, or to wait for.
func (m *Message) NeedsFolding() bool { return len(m.Records) > 0 || m.begins }

// UpToDate reports whether nothing is left to read, as far as is known: questions from now on are to see what was
// folded. It is for the goroutine that folds, between the records and Folded.
func (m *Message) UpToDate() bool {
	return m.begins || !m.ledger.progress.reads() && len(m.ledger.folding) == 1
}

// Folded says that the message was folded, or is not to be because the session has ended.
func (m *Message) Folded() {
	l := m.ledger
	l.progress.at.Store(m.offset)
	if m.begins {
		l.progress.until.Store(-1)
		close(l.begun)
	}
	<-l.folding
}

// progress is how far what the journal held when a session began to read it has been folded, as
// offsets; it is read by others meanwhile.
type progress struct{ from, at, until atomic.Int64 }

// reads reports whether there is something left to read.
func (p *progress) reads() bool { return p.until.Load() >= 0 }

// String says it for people; empty: it has all been read.
func (p *progress) String() string {
	from, until := p.from.Load(), p.until.Load()
	switch {
	case until < 0:
		return ""
	case from < 0:
		return "begins to read the journal"
	}
	return fmt.Sprintf("reads the journal: %d of %d messages", max(0, p.at.Load()-from), until-from+1)
}

// Reads says how far reading has come, for people; empty: what there was has all been read.
func (l *Ledger) Reads() string { return l.progress.String() }

// Begin reads what the journal holds, and goes on reading: see follow.
func (l *Ledger) Begin(ctx context.Context, sink func(*Message)) error {
	empty, err := l.empty(ctx)
	if err != nil {
		return err
	}
	found := func() bool { return false }
	if empty {
		found = l.lookForMarks(ctx)
	}
	from, err := l.findStart(ctx, empty)
	if err != nil {
		return err
	}
	l.marks = found()
	return l.follow(ctx, from, sink)
}

// empty reports whether the broker counts no message in the journal.
func (l *Ledger) empty(ctx context.Context) (bool, error) {
	depth, err := l.Bus.Depth(ctx, bus.StreamJournal)
	if err != nil {
		return false, fmt.Errorf("look at the journal %s: %w", bus.StreamJournal, err)
	}
	return depth.Ready == 0, nil
}

// findStart finds where reading begins: where the last message says that the newest snapshot does. empty: the broker
// counts no message.
func (l *Ledger) findStart(ctx context.Context, empty bool) (bus.Position, error) {
	last, err := l.last(ctx, empty)
	if err != nil {
		return bus.Position{}, err
	}
	l.mu.Lock() // a question about the journal may come meanwhile
	defer l.mu.Unlock()
	l.reader.Knows(last)
	return journal.Start(last), nil
}

// follow begins to read, gives what it reads to sink, and waits until what the journal held at the beginning has been
// folded, so that heartbeats meet the tasks that they name. sink is called by one goroutine.
func (l *Ledger) follow(ctx context.Context, from bus.Position, sink func(*Message)) error {
	l.mu.Lock()
	expects := l.until >= 0
	l.sink = sink
	l.mu.Unlock()
	err := l.Bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: prefetch, From: from, Handle: l.onMessage,
	})
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if !expects {
		return nil
	}
	return l.await(ctx, l.begun, "what the journal holds was not read")
}

// last reads the header of the journal's last message; one that names no snapshot where it has none.
// The broker begins with the first of those that it keeps together: an earlier snapshot that this one
// names would not do, as the files may have said something else of quotas until the newest (see
// quotasChanged).
func (l *Ledger) last(ctx context.Context, empty bool) (journal.Header, error) {
	found, ended := make(chan bus.Delivery), make(chan struct{})
	defer close(ended)
	err := l.Bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamJournal, Prefetch: prefetch, From: bus.Last(),
		Handle: func(d bus.Delivery) {
			select {
			case found <- d:
			case <-ended:
			}
			l.Bus.Ack(d.Tag)
		},
	})
	if err != nil {
		return journal.Header{}, fmt.Errorf("read the end of the journal: %w", err)
	}
	last, err := l.readLast(ctx, found, empty)
	if err != nil {
		return last, err
	}
	if _, err := l.Bus.Unsubscribe(ctx, bus.StreamJournal); err != nil {
		return last, fmt.Errorf("read the end of the journal: %w", err)
	}
	return last, nil
}

// readLast takes what is found until nothing comes any more.
func (l *Ledger) readLast(ctx context.Context, found <-chan bus.Delivery, empty bool) (journal.Header, error) {
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
			case err != nil && l.Skipped != nil: // it is logged when it is read again
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
		case <-l.Bus.Done():
			return last, bus.ErrClosed
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// onMessage takes one message of the journal.
func (l *Ledger) onMessage(d bus.Delivery) {
	defer l.Bus.Ack(d.Tag) // in a stream an acknowledgement only asks for more
	if l.leading.Load() {
		l.readBack(&d)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &Message{ledger: l, offset: d.Offset}
	before, since := l.reader.Leader()
	epoch, at, led := l.reader.Epoch(), l.reader.LastAt(), l.reader.Led()
	var err error
	m.Records, err = l.reader.Take(d.Offset, d.Body)
	if err == nil && epoch > 0 && l.reader.Epoch() > epoch {
		m.Ended, m.TermEnded, m.TermLasted = true, at, led
	}
	if err != nil {
		l.Fault(l.fatal(fmt.Errorf("read the journal: %w", err)))
		return
	}
	if l.read++; l.read == 1 {
		l.progress.from.Store(d.Offset)
	}
	m.At = l.reader.LastAt()
	m.Leader, m.Since = l.reader.Leader()
	l.Loss.Store(m.Leader.Lost)
	if l.until >= 0 && d.Offset >= l.until {
		l.until, m.begins = -1, true
	}
	ours, isLeader := l.sent != nil && bytes.Equal(d.Body, l.sent), m.Leader.Nonce == l.nonce
	m.NewLeader = !isLeader && !ours && !m.Since.Equal(since)
	m.NewFiles = !isLeader && !ours && !m.NewLeader && m.Leader != before
	if m.NeedsFolding() {
		select {
		case l.folding <- struct{}{}:
		case <-l.Bus.Done():
			return
		}
	}
	l.sink(m)
	switch {
	case isLeader:
		l.leading.Store(true)
		close(l.claimed)
	case ours: // what was to be read before it was known which coordinator leads has been read now
		l.sent = nil
		l.void <- struct{}{}
	}
}
