package main

import (
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/brokertest"
)

func TestOffsetOfIsWhereTheSnapshotBegins(t *testing.T) {
	b := open(t, brokertest.Vhost(t).URL)
	if err := b.declareStream(bus.StreamJournal); err != nil {
		t.Fatal(err)
	}
	f, err := b.feed(bus.StreamJournal)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	claim := journal.AppendEpoch(nil, journal.Header{Epoch: 1, First: 1, At: at}, journal.Epoch{Nonce: "n"})
	for range 3 { // offsets 0 to 2
		if err := f.send(journalled(claim)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if f, err = b.feed(bus.StreamJournal); err != nil {
		t.Fatal(err)
	}
	offset, err := b.offsetOf(func() error {
		if err := f.send(journalled(claim)); err != nil { // 3: of another kind
			return err
		}
		return f.send(journalled(journal.AppendSnapshot(nil, journal.Header{Epoch: 1, First: 1, At: at}, journal.Chunk{Snapshot: "s"}, nil)))
	}, journal.KindSnapshot)
	if err != nil || offset != 4 {
		t.Errorf("the snapshot begins at %d (%v), want 4", offset, err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}

// The load knows how many tasks it has sent, and which of them ended, once or twice.
func TestLoadHearsEveryResult(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := &bench{broker: open(t, url), url: url}
	if err := b.broker.declare(bus.QueueAssign); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.declareStream(bus.StreamResult); err != nil {
		t.Fatal(err)
	}
	consumer, channel, err := dial(url, "agents")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := channel.Consume(bus.QueueAssign, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := b.broker.feed(bus.StreamResult)
	if err != nil {
		t.Fatal(err)
	}
	done, enough := make(chan int, 1), make(chan struct{})
	go func() {
		n := 0
		for d := range tasks {
			number, _ := taskNumber(d.MessageId)
			p := dispatched(number)
			p.Type = bus.StreamResult
			times := 1
			if number == 7 {
				times = 2
			}
			for range times {
				if f.send(p) != nil {
					break
				}
			}
			if n++; n == 250 {
				close(enough)
			}
		}
		done <- n
	}()
	l, err := startLoad(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	<-enough
	tally, err := l.finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Close(); err != nil {
		t.Fatal(err)
	}
	n := <-done
	if n < 250 || len(tally.seen) != n || tally.arrived != n || tally.twice != 1 || tally.strange != 0 {
		t.Errorf("%d tasks were sent, and %d ended, %d of them twice; want %d, all, and one twice", len(tally.seen), tally.arrived, tally.twice, n)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}

func TestPauseIsTheLongestSinceItWasAskedFor(t *testing.T) {
	l := &load{last: time.Now().Add(-2 * time.Second), longest: 5 * time.Second}
	if got := l.pause(); got != 5*time.Second {
		t.Errorf("the longest is %s, want 5 s", got)
	}
	l.last = time.Now().Add(-3 * time.Second) // nothing came since
	if got := l.pause(); got < 3*time.Second || got > 4*time.Second {
		t.Errorf("while nothing comes it is %s, want 3 s and a little", got)
	}
}
