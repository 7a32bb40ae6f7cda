package failover

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
)

// ledger is what the journal says, read from its first message as a coordinator that starts
// would read it.
type ledger struct {
	// leaders are the claims that counted, in order.
	leaders []claim
	// records that count, by the epoch of their leader.
	records map[uint64]uint64
	// late are the messages of leaders that came after a higher epoch, but for claims.
	late []journal.Header
	// void counts the claims that did not count: made by a coordinator that had not read the journal
	// to its end, and made again.
	void int
	// decided are the dispatches that count, by dispatch id.
	decided map[string]coordinator.AgentID
}

type claim struct {
	epoch    uint64
	instance string
}

// readJournal reads until the record with this number; what the leader says of itself
// tells how many there are.
func (r *rig) readJournal(upTo uint64) *ledger {
	r.t.Helper()
	return r.readJournalWith(upTo, func([]coordinator.Record) {})
}

// readJournalWith is readJournal that shows the records that count to a function, too.
func (r *rig) readJournalWith(upTo uint64, show func([]coordinator.Record)) *ledger {
	r.t.Helper()
	conn := r.dial()
	defer conn.CloseDeadline(time.Now().Add(patience))
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(100, 0, false)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	messages, err := ch.Consume(bus.StreamJournal, "", false, false, false, false, amqp.Table{"x-stream-offset": "first"})
	if err != nil {
		r.t.Fatalf("read the journal: %v", err)
	}
	l := &ledger{records: map[uint64]uint64{}, decided: map[string]coordinator.AgentID{}}
	reader := journal.NewReader()
	late := time.After(patience)
	for reader.Next() <= upTo {
		select {
		case d, open := <-messages:
			if !open {
				r.t.Fatalf("the journal cannot be read beyond record %d", reader.Next())
			}
			show(l.take(r, reader, &d))
			if err := d.Ack(false); err != nil {
				r.t.Fatal(err)
			}
		case <-late:
			r.t.Fatalf("the journal has %d of %d records", reader.Next()-1, upTo)
		}
	}
	return l
}

func (l *ledger) take(r *rig, reader *journal.Reader, d *amqp.Delivery) []coordinator.Record {
	r.t.Helper()
	header, err := journal.DecodeHeader(d.Body)
	if err != nil {
		r.t.Fatalf("the journal is damaged: %v", err)
	}
	switch {
	case header.Epoch < reader.Epoch() && header.Kind != journal.KindEpoch:
		l.late = append(l.late, header)
	case header.Kind == journal.KindEpoch && header.Epoch <= reader.Epoch():
		l.void++
	}
	before, next := reader.Epoch(), reader.Next()
	offset, _ := d.Headers["x-stream-offset"].(int64)
	records, err := reader.Take(offset, d.Body)
	if err != nil {
		r.t.Fatalf("the journal has a gap: %v", err)
	}
	if epoch := reader.Epoch(); epoch > before {
		leader, _ := reader.Leader()
		l.leaders = append(l.leaders, claim{epoch, leader.Instance})
	}
	l.records[header.Epoch] += reader.Next() - next
	for _, rec := range records {
		if a, ok := rec.(*coordinator.Assigned); ok {
			l.decided[coordinator.DispatchID(a.Task, a.Attempt)] = a.Agent
		}
	}
	return records
}

// verify holds what agents got against the journal: every dispatch was decided by the one that
// led, and journalled; each leader's epoch is the one after that of the leader before.
func (l *ledger) verify(r *rig) {
	r.t.Helper()
	for i, c := range l.leaders {
		if c.epoch != uint64(i+1) {
			r.t.Errorf("leader %d has the epoch %d: %+v", i+1, c.epoch, l.leaders)
		}
	}
	if len(l.late) > 0 {
		r.t.Errorf("%d messages of a leader that had been replaced are in the journal, such as %+v", len(l.late), l.late[0])
	}
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	for id, e := range r.book.tasks {
		for _, got := range e.runs {
			if agent, ok := l.decided[got.dispatch]; !ok || string(agent) != got.agent {
				r.t.Errorf("%s: %s got %s, which the journal gives to %q", id, got.agent, got.dispatch, agent)
			}
		}
	}
}
