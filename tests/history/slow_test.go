package history

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"taskbus/coordinator/view"
	"taskbus/tests/support/postgrestest"
)

// The database answers nothing, because its tables are locked: tasks go on as ever, and
// when it answers again the history catches up exactly.
func TestHistoryWhileTheDatabaseHangs(t *testing.T) {
	r := newRig(t)
	server := postgrestest.Shared(t)
	database := server.Database(t)
	p := r.start(database)
	r.work()
	r.offer(100)
	r.done()
	p.agrees()

	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE usage_mark, usage_rows IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	// Longer than a write is waited for before the next: what comes is held back at the broker.
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		r.offer(100)
	}
	r.done()
	var ready view.Readiness
	if status := p.read(http.MethodGet, "/readyz", "", &ready); status != http.StatusOK {
		t.Errorf("/readyz is %d: %+v", status, ready)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := p.agrees(); len(l.Projection.Gaps) > 0 {
		t.Errorf("the projection is %+v", l.Projection)
	}
}

// A history costs tasks next to nothing: without one, and with one in SQLite, tasks are done in
// turn. The times are told for people; how long a busy machine takes proves nothing by itself, but
// a history in the way of tasks would take many times as long.
func TestHistoryIsNotInTheWay(t *testing.T) {
	const tasks, rounds = 2000, 3
	t.Parallel()
	busy.Wait()
	rigs, with := map[bool]*rig{}, (*process)(nil)
	for _, on := range []bool{false, true} {
		r := newRigBeside(t)
		rigs[on] = r
		if place := filepath.Join(r.dir, "history.db"); on {
			with = r.start(place)
		} else {
			r.start("off")
		}
		r.work()
		r.offer(100) // agents are there, connections warm
		r.done()
	}
	best := map[bool]time.Duration{}
	for range rounds {
		for _, on := range []bool{false, true} {
			began := time.Now()
			rigs[on].offer(tasks)
			rigs[on].done()
			if took := time.Since(began); best[on] == 0 || took < best[on] {
				best[on] = took
			}
		}
		with.agrees()
	}
	t.Logf("%d tasks: %v without a history, %v with one in SQLite", tasks, best[false], best[true])
	if best[true] > 3*best[false]+time.Second {
		t.Errorf("%v with a history, %v without", best[true], best[false])
	}
}
