package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/recent"
	forecast "taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// after gives a coordinator that comes after another one, on its broker. It has not begun.
func (r *rig) after(first *rig) *rig {
	r.broker, r.service.options.Bus = first.broker, first.broker
	return r
}

// loses reports whether the loss of the journal is reported, wherever that is to be seen; the log has it with each
// take-over.
func (r *rig) loses() bool {
	r.t.Helper()
	st := r.status()
	seen := []bool{
		st.Journal != nil && st.Journal.Lost != nil,
		st.Health.Checks["journal"].Status == view.Degraded,
		r.value("taskbus_journal_lost") == 1,
	}
	if st.Readiness.State == stateActive && seen[0] {
		seen = append(seen, strings.Contains(r.log.String(), `"message":"the journal is lost`))
	}
	for _, one := range seen {
		if one != seen[0] {
			r.t.Fatalf("in /status, /health, metrics and the log: %v", seen)
		}
	}
	return seen[0]
}

// A loss is reported by every coordinator, after takeovers and restarts, until it is acknowledged, and then
// by none: with the journal read from its beginning, and from a snapshot.
func TestLostJournalIsReportedUntilItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := func(on *rig, instance string) *rig {
			r := newRig(t, fleet).after(on)
			r.service.options.Instance = instance
			r.start()
			return r
		}
		r := newRig(t, fleet)
		r.start()
		r.close()
		r.broker.DeleteQueue(bus.StreamJournal)
		leader := begin(r, "taskbus@1")
		found := leader.status().Journal.Lost
		for i, lives := range []time.Duration{0, 2 * journaling.SnapshotEvery, 0} {
			standby := begin(r, fmt.Sprint("taskbus@", i+2))
			leader.heartbeat("a1", 0)
			leader.task(fmt.Sprint("t-", i), "build", "") // something to snapshot
			leader.pass(lives)
			for _, c := range []*rig{leader, standby} {
				if !c.loses() {
					t.Fatalf("%d: %s says nothing of the loss", i, c.service.options.Instance)
				}
				if lost := c.status().Journal.Lost; !reflect.DeepEqual(lost, found) {
					t.Errorf("%d: %s says %+v, want %+v", i, c.service.options.Instance, lost, found)
				}
			}
			if err := standby.service.AcknowledgeLoss(context.Background()); err == nil ||
				!strings.Contains(err.Error(), "ask the one that leads") {
				t.Errorf("%d: acknowledged where none leads: %v", i, err)
			}
			leader.close()
			standby.pass(time.Second)
			leader = standby
		}
		standby := begin(r, "taskbus@standby")
		if err := leader.service.AcknowledgeLoss(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 2 {
			if leader.loses() || standby.loses() {
				t.Fatal("it is acknowledged, and reported")
			}
			leader.close()
			standby.pass(2 * journaling.SnapshotEvery)
			leader, standby = standby, begin(r, "taskbus@later")
		}
		leader.close()
		standby.close()
	})
}

// An acknowledgement is not answered before the broker has confirmed it.
func TestAcknowledgementIsInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		first.close()
		first.broker.DeleteQueue(bus.StreamJournal)
		r := newRig(t, fleet).after(first)
		r.start()
		r.answers(membus.Withhold)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.service.AcknowledgeLoss(ctx); err == nil || !strings.Contains(err.Error(), "not confirmed") {
			t.Errorf("the broker is silent: %v", err)
		}
		r.answers(membus.Answer)
		r.close()
	})
}

// A coordinator on a new broker, and one that goes on from a journal, report no loss; one that finds the journal
// gone says what begins anew, until that is acknowledged.
func TestLostJournalIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		if first.loses() {
			t.Fatal("a new broker is taken for one that has lost its journal")
		}
		first.close()
		second := newRig(t, fleet).after(first)
		second.start()
		if second.loses() {
			t.Fatal("a journal that is there is taken for a lost one")
		}
		second.close()
		second.broker.DeleteQueue(bus.StreamJournal)
		third := newRig(t, fleet).after(first)
		third.start()
		defer third.close()
		if !third.loses() {
			t.Fatal("nothing is said of a journal that is gone")
		}
		lost := third.status().Journal.Lost
		if len(lost.Evidence) != 1 || !strings.Contains(lost.Evidence[0], bus.StreamResult) || len(lost.BeginsAnew) != 3 ||
			lost.Budgets != "no quotas are configured" {
			t.Errorf("it says %+v", lost)
		}
		if err := third.service.AcknowledgeLoss(context.Background()); err != nil {
			t.Fatal(err)
		}
		if st := third.status(); st.Journal.Lost != nil || third.value("taskbus_journal_lost") != 0 {
			t.Errorf("acknowledged, it is still reported: %+v", st.Journal)
		}
		if _, said := third.status().Health.Checks["journal"]; said {
			t.Error("acknowledged, /health still has it")
		}
		if err := third.service.AcknowledgeLoss(context.Background()); !errors.Is(err, httpapi.ErrNothingLost) {
			t.Errorf("acknowledged twice: %v", err)
		}
	})
}

// The journal is deleted under a coordinator that leads: its session ends with the next record, and the one
// that follows reports it.
func TestJournalLostWhileLeading(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.broker.DeleteQueue(bus.StreamJournal)
		r.pass(time.Minute)
		if !r.loses() {
			t.Errorf("nothing is said of it: %s", r.log)
		}
		r.heartbeat("a1", 0)
		r.task("t-1", "build", "")
		if task, ok := r.service.Task(context.Background(), "t-1"); !ok || task.State != recent.Dispatched {
			t.Errorf("afterwards a task is %+v", task)
		}
	})
}

// keptHistory is a history of usage that has followed a journal which is not there any more.
type keptHistory struct {
	pastOf
	upTo  time.Time
	asked int
	// comes is how often it must be asked before it is there.
	comes int
}

func (h *keptHistory) Projection(context.Context) (view.Projection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked++; h.asked <= h.comes {
		return view.Projection{State: view.HistoryFailing, Detail: "the database is away"}, nil
	}
	return view.Projection{State: "following", Place: "history.db", UpTo: h.upTo}, nil
}

// monthly is a pool and two groups by the month, one of which has a budget of its own for each day.
const monthly = `
pool: {limits: {total_tokens: {amount: 100000, per: month}, cost_usd: {amount: 50, per: month}}}
groups:
  - {id: poor, limits: {total_tokens: {amount: 1000, per: day}}}
  - {id: rich}
agents:
  - {id: a1, group_id: poor}
`

// withHistory is a coordinator under monthly quotas that keeps this history; it has not begun.
func withHistory(t *testing.T, h httpapi.History) *rig { return underWith(t, monthly, h) }

// underWith is withHistory under other quotas.
func underWith(t *testing.T, text string, h httpapi.History) *rig {
	r := newRig(t, quotaFleet)
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.service.controls.Under(r.service.config.Load().WithQuotas(q))
	r.service.options.History = h
	return r
}

// kept is what the history has: virtual time begins at midnight of 2000-01-01, so that everything of the month is
// of this day.
func kept(comes int) *keptHistory {
	return &keptHistory{comes: comes, upTo: time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC),
		pastOf: pastOf{rows: []forecast.Row{
			{Key: forecast.Key{Day: "1999-12-31", Group: "poor", Agent: "a1"},
				Counts: forecast.Counts{TotalTokens: 77777, Cost: 9e6}},
			{Key: forecast.Key{Day: "2000-01-01", Group: "poor", Agent: "a1"},
				Counts: forecast.Counts{TotalTokens: 900, Cost: 1_250_000}},
			{Key: forecast.Key{Day: "2000-01-01", Group: "rich", Agent: "b1"},
				Counts: forecast.Counts{TotalTokens: 5000, Cost: 3_000_000}},
		}}}
}

// usedOf is what counts as used of the budgets of a node.
func (r *rig) usedOf(node string) map[string]float64 {
	r.t.Helper()
	got := make(map[string]float64)
	for _, b := range r.quotas(view.QuotaSelection{})[node].Budgets {
		got[b.Dimension] = b.Used
	}
	return got
}

// What was used of budgets is taken back from the history before the first task is taken, on a broker of which
// nothing else is left, too; and not once more by the next leader.
func TestBudgetsAreTakenBackFromTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withHistory(t, kept(0))
		r.start()
		if !r.loses() {
			t.Fatal("the history has followed a journal, and nothing is said of that")
		}
		check := func(r *rig) {
			t.Helper()
			// 900 and 5,000 tokens, $1.25 and $3 in January; of poor's day the 900.
			if got := r.usedOf("pool"); got["total_tokens"] != 5900 || got["cost_usd"] != 4.25 {
				t.Errorf("of the pool %v are used", got)
			}
			if got := r.usedOf("pool/poor"); got["total_tokens"] != 900 {
				t.Errorf("of poor's budget %v are used", got)
			}
			if got := r.usedOf("pool/rich"); got["total_tokens"] != 5000 {
				t.Errorf("of rich's budget %v are used", got)
			}
		}
		check(r)
		if lost := r.status().Journal.Lost; !lost.BudgetsRestored || !strings.Contains(lost.Budgets, "history.db") ||
			len(lost.BeginsAnew) != 5 {
			t.Errorf("it says %+v", lost)
		}
		r.close()
		next := withHistory(t, kept(0)).after(r)
		next.start()
		defer next.close()
		if !next.loses() || !next.status().Journal.Lost.BudgetsRestored {
			t.Errorf("the next coordinator reports %+v", next.status().Journal.Lost)
		}
		check(next)
	})
}

// Budgets of several periods, one below the other: what was used before today is of the month alone, wherever the
// budget of the day stands.
func TestBudgetsOfSeveralPeriodsAreTakenBack(t *testing.T) {
	for name, quotas := range map[string]string{
		"the pool's of the day": `
pool: {limits: {total_tokens: {amount: 10000, per: day}}}
groups:
  - {id: poor, limits: {total_tokens: {amount: 90000, per: month}}}
`, "the group's of the day": `
pool: {limits: {total_tokens: {amount: 90000, per: month}}}
groups:
  - {id: poor, limits: {total_tokens: {amount: 10000, per: day}}}
`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(10*24*time.Hour + time.Hour) // 2000-01-11 01:00
				h := kept(0)
				h.rows = []forecast.Row{
					{Key: forecast.Key{Day: "2000-01-05", Group: "poor"}, Counts: forecast.Counts{TotalTokens: 4000}},
					{Key: forecast.Key{Day: "2000-01-11", Group: "poor"}, Counts: forecast.Counts{TotalTokens: 900}},
				}
				r := underWith(t, quotas, h)
				r.start()
				defer r.close()
				seen := map[string]int{}
				for id, n := range r.quotas(view.QuotaSelection{}) {
					for _, b := range n.Budgets {
						if b.Limit == 0 && b.Cap == 0 {
							continue
						}
						days := b.ResetTime.Sub(b.PeriodFrom).Hours() / 24
						seen[map[bool]string{true: "day", false: "month"}[days == 1]]++
						if want := map[bool]float64{true: 900, false: 4900}[days == 1]; b.Used != want {
							t.Errorf("%s for %v days: %v are used, want %v", id, days, b.Used, want)
						}
					}
				}
				if seen["day"] == 0 || seen["month"] == 0 {
					t.Errorf("the periods are %v", seen)
				}
			})
		})
	}
}

// A history that cannot be asked holds up nothing: budgets begin at 0, which is said, and are taken back once it can
// be asked.
func TestBudgetsAreTakenBackLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, quotaFleet)
		first.start()
		first.close()
		first.broker.DeleteQueue(bus.StreamJournal)
		h := kept(3) // asked for evidence, when taking over, and 5 s later
		r := withHistory(t, h).after(first)
		r.start()
		defer r.close()
		if lost := r.status().Journal.Lost; lost == nil || lost.BudgetsRestored ||
			!strings.Contains(lost.Budgets, "the database is away") || r.usedOf("pool")["total_tokens"] != 0 {
			t.Errorf("while it is away: %+v, used %v", lost, r.usedOf("pool"))
		}
		r.pass(2*journaling.RestoreEvery + time.Second)
		if lost := r.status().Journal.Lost; lost == nil || !lost.BudgetsRestored || r.usedOf("pool")["total_tokens"] != 5900 {
			t.Errorf("once it is there: %+v, used %v", lost, r.usedOf("pool"))
		}
	})
}

// A leader that ends before it could take the budgets back leaves that to the next one.
func TestBudgetsAreTakenBackByTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, quotaFleet)
		first.start()
		first.close()
		first.broker.DeleteQueue(bus.StreamJournal)
		r := withHistory(t, kept(1<<30)).after(first)
		r.start()
		if lost := r.status().Journal.Lost; lost == nil || lost.BudgetsRestored {
			t.Errorf("while it is away: %+v", lost)
		}
		r.close()
		next := withHistory(t, kept(0)).after(first)
		next.start()
		defer next.close()
		if lost := next.status().Journal.Lost; lost == nil || !lost.BudgetsRestored ||
			next.usedOf("pool")["total_tokens"] != 5900 {
			t.Errorf("the next one: %+v, used %v", lost, next.usedOf("pool"))
		}
	})
}

// Without a history nothing can be taken back, which is said.
func TestBudgetsBeginAnewWithoutAHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := withHistory(t, nil)
		first.start()
		first.close()
		first.broker.DeleteQueue(bus.StreamJournal)
		r := withHistory(t, nil).after(first)
		r.start()
		defer r.close()
		if lost := r.status().Journal.Lost; lost == nil || lost.BudgetsRestored ||
			!strings.Contains(lost.Budgets, "no history of usage is kept") {
			t.Errorf("it says %+v", lost)
		}
	})
}
