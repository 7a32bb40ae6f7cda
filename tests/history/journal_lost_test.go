package history

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/usage/history"
)

// offerEach publishes tasks one by one, so that each has messages of the journal of its own.
func (r *rig) offerEach(n int, pause time.Duration) {
	r.t.Helper()
	for range n {
		r.offer(1)
		time.Sleep(pause)
	}
}

// loses deletes the journal while coordinators run, and waits until the one that leads has found that out and taken
// back what was used.
func (p *process) loses() {
	p.r.t.Helper()
	deleted := time.Now()
	p.r.broker.DeleteQueue(p.r.t, "coordinator.journal")
	p.r.eventually("the loss is reported", func() (bool, string) {
		lost := p.lost()
		return lost != nil && lost.At.After(deleted) && lost.BudgetsRestored, "not yet"
	})
	p.counts()
}

// TestJournalIsLostTwice: the journal is deleted under coordinators that have work without a pause, and is shorter for
// a long time than the one before. The history of each goes on with the new one within half a minute all the same,
// so that what was used stands after another loss.
func TestJournalIsLostTwice(t *testing.T) {
	r := newRig(t)
	p, standby := r.start(filepath.Join(r.dir, "history.db")), r.launch(filepath.Join(r.dir, "standby.db"))
	r.work()
	r.offerEach(200, 20*time.Millisecond)
	r.done()
	p.agrees()
	standby.agrees()
	for range 2 {
		p.loses()
		before := r.told()
		began := time.Now()
		for _, one := range []*process{p, standby} {
			for {
				r.offerEach(1, 300*time.Millisecond)
				if _, got, _ := one.history(); got.tokens() > before.tokens() {
					break
				}
				if time.Since(began) > 30*time.Second {
					l, got, _ := one.history()
					t.Fatalf("the history stays at %v tokens of %v; it says %+v", got.tokens(), r.tokens(), l.Projection)
				}
			}
		}
		r.done()
		for _, one := range []*process{p, standby} {
			if l := one.agrees(); l.Projection.State != history.Following {
				t.Errorf("it is %+v", l.Projection)
			}
		}
		p.counts()
	}
}

// TestRestoreBesideAStandby: an export is imported as the manual says, after the journal was lost and work went on.
// What was used stands, also by tasks that were in work at the backup and have ended since: their results are read
// once more; and the history of the standby, of which the import knows nothing, goes on as well.
func TestRestoreBesideAStandby(t *testing.T) {
	r := newRig(t)
	o := r.operator()
	file := filepath.Join(r.dir, "standby.db")
	standby := r.launch(file)
	r.work()
	r.offerEach(100, 20*time.Millisecond)
	resume := r.pause()
	r.offer(10)
	r.begins()
	o.do(commandsIn(t, "backup"))
	resume()
	r.offerEach(100, 20*time.Millisecond)
	r.done()
	o.service.agrees()
	standby.agrees()
	o.service.loses()
	r.offerEach(20, 20*time.Millisecond)
	r.done()
	o.service.agrees()
	standby.agrees()

	standby.stop()
	o.do(commandsIn(t, "restore"))
	standby = r.launch(file)
	o.service.counts()
	r.offerEach(20, 100*time.Millisecond)
	r.done()
	o.service.agrees()
	standby.agrees()
	o.service.counts()
	for _, one := range []*process{o.service, standby} {
		if n := strings.Count(one.log.String(), "the history of usage follows the journal again"); n != 0 {
			t.Errorf("it is told %d times that the history follows again: %s", n, one.log.Tail(20))
		}
	}
	p := standby
	o.service.stop()
	r.eventually("the standby leads", func() (bool, string) { return p.used() > 0, "not yet" })
	p.counts()
	p.loses() // what its own history knows is enough
}

// tokens is the sum of all.
func (s sums) tokens() (n float64) {
	for _, one := range s { // order does not matter: they are whole numbers
		n += float64(one.TotalTokens)
	}
	return n
}
