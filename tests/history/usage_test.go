package history

import (
	"net/http"
	"path/filepath"
	"testing"

	"taskbus/coordinator/httpapi"
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
	var made httpapi.Rebuilt
	if status := p.read(http.MethodPost, "/v1/quota/history/rebuild", "", &made); status != http.StatusOK || made.State != "done" || made.FromDay != "" {
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
