package history

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/postgrestest"
)

// Tasks that use tokens, a coordinator that is killed in the middle of them, twice: the history
// is what the agents have told, to the token; and so it is when it is made anew.
func TestHistoryIsWhatWasTold(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.dir, "state", "history.db")
	p := r.start(file)
	r.work()
	for range 2 {
		r.offer(300)
		r.eventually("some are done", func() (bool, string) {
			r.bill.mu.Lock()
			defer r.bill.mu.Unlock()
			return len(r.bill.calls) > r.sent-150, "too few"
		})
		p.kill()
		p = r.start(file)
	}
	r.offer(100)
	r.done()
	l := p.agrees()
	if len(l.Projection.Gaps) > 0 || l.Projection.Since.IsZero() {
		t.Errorf("the projection is %+v", l.Projection)
	}
	for _, row := range l.Rows {
		// 2 micro-USD for each input token.
		if want := float64(2*row.InputTokens) / 1e6; row.CostUSD != want || row.Settled != row.Calls || row.Source != "task" {
			t.Errorf("%+v: want it to cost %v", row, want)
		}
	}
	var made view.Rebuilt
	if status := p.read(http.MethodPost, "/v1/quota/history/rebuild", "", &made); status != http.StatusOK ||
		made.State != "done" || made.FromDay != "" {
		t.Fatalf("the rebuild answers %d, %+v", status, made)
	}
	l = p.agrees()
	if l.Projection.Rebuilds != 1 {
		t.Errorf("the projection is %+v", l.Projection)
	}
	r.offer(50)
	r.done()
	p.agrees()
}

// The database is killed in the middle: tasks go on as ever, and when it is back the history
// catches up exactly.
func TestHistoryWhileTheDatabaseIsAway(t *testing.T) {
	r := newRig(t)
	server := postgrestest.Start(t)
	p := r.start(server.Database(t))
	r.work()
	r.offer(200)
	r.done()
	p.agrees()

	server.Kill(t)
	began := time.Now()
	r.offer(500)
	r.done()
	t.Logf("500 tasks without the database took %v", time.Since(began))
	if status := p.read(http.MethodGet, "/v1/quota/history", "", nil); status != http.StatusServiceUnavailable {
		t.Errorf("asked for the history it answers %d", status)
	}
	var ready view.Readiness
	if status := p.read(http.MethodGet, "/readyz", "", &ready); status != http.StatusOK {
		t.Errorf("/readyz is %d: %+v", status, ready)
	}

	server.Start(t)
	l := p.agrees()
	if len(l.Projection.Gaps) > 0 {
		t.Errorf("the projection is %+v", l.Projection)
	}
}

// Two coordinators, one of which leads, write to one database; the leader is killed in the middle.
// Everything is in it once.
func TestHistoryOfTwoCoordinators(t *testing.T) {
	r := newRig(t)
	server := postgrestest.Shared(t)
	database := server.Database(t)
	leader, other := r.start(database), r.launch(database)
	r.work()
	r.offer(300)
	r.eventually("some are done", func() (bool, string) {
		r.bill.mu.Lock()
		defer r.bill.mu.Unlock()
		return len(r.bill.calls) > 150, "too few"
	})
	leader.kill()
	r.offer(100)
	r.done()
	other.agrees()
}
