package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator/httpapi"
	forecast "taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/schemas"
)

// heardAlerts keeps the alerts that a coordinator passes on.
type heardAlerts struct {
	mu  sync.Mutex
	all []Alert
}

// told are the alerts heard so far. They come from a session's goroutine, also between two reads.
func (h *heardAlerts) told() []Alert {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

func (h *heardAlerts) String() string {
	var b strings.Builder
	for _, a := range h.told() {
		b.WriteString("\n" + a.ID + " " + a.Text)
	}
	return b.String()
}

func (h *heardAlerts) hear(a Alert) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, a)
}

// forecasting is a coordinator with quotas for each day, or hour, whose alerts are heard. It has not
// begun.
func forecasting(t *testing.T, per string, history httpapi.History) (*rig, *heardAlerts) {
	return underQuotas(t, strings.ReplaceAll(limited, "per: day", "per: "+per), history)
}

func underQuotas(t *testing.T, text string, history httpapi.History) (*rig, *heardAlerts) {
	r, heard := newRig(t, quotaFleet), new(heardAlerts)
	q, err := quotas.Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("quotas of the test: %v", err)
	}
	r.service.controls.Under(r.service.config.Load().WithQuotas(q))
	r.service.options.History, r.service.options.Alerted = history, heard.hear
	return r, heard
}

// Of 1,000 tokens an hour 300 are used in the first seconds: that is nothing to go by, until a tenth
// of the hour is over. Then people are told once, and in the next hour again.
func TestOverrunIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heard := forecasting(t, "hour", nil)
		r.start()
		defer r.close()
		set, err := schemas.Compile()
		if err != nil {
			t.Fatal(err)
		}
		bindAll(r)
		r.uses("t-1", "poor", 300)
		begins := time.Now().UTC().Truncate(time.Hour)
		at := func(since time.Duration) { t.Helper(); r.pass(time.Until(begins.Add(since))) }
		at(5*time.Minute + 59*time.Second)
		if told := r.events(schemas.QuotaOverrun); len(told) != 0 {
			t.Fatalf("told after 5 min 59 s: %v", told)
		}
		at(6*time.Minute + 11*time.Second) // the looks are 10 s after each minute
		told := r.events(schemas.QuotaOverrun)
		if len(told) != 2 { // of the group, and of its agent's part, which is all of it
			t.Fatalf("told: %v", told)
		}
		m := told[0]
		// 300 in 370.3 s (the session began after emptyTimeout) are 2,917 in 3,600; 1,000 are used
		// after 1,234.3 s.
		meets := begins.Add(1234 * time.Second)
		overrun, err := time.Parse(time.RFC3339, m.text("overrun_at"))
		if m.text("node") != "pool/poor" || m.text("kind") != "group" || m.text("dimension") != "total_tokens" ||
			m.fields["used"] != 300. || m.fields["limit"] != 1000. ||
			m.fields["expected"] != 2917. || m.text("basis") != "pace of the period" ||
			!strings.HasPrefix(m.text("period_start"), begins.Format("2006-01-02T15:04:05")) ||
			err != nil || overrun.Before(meets) || overrun.After(meets.Add(time.Second)) || m.RoutingKey != "quota.overrun" ||
			told[1].text("node") != "pool/poor/a1" {
			t.Errorf("told: %v, %v", m.fields, err)
		}
		for i, m := range told {
			if err := set.Validate(schemas.QuotaOverrun, any(m.fields)); err != nil {
				t.Errorf("%v\n%s", err, m.Body)
			}
			if a := heard.told()[i]; a.ID != m.Properties.MessageID || a.Type != "quota.overrun" ||
				string(a.Body) != string(m.Body) || !strings.HasPrefix(a.ID, "quota-") {
				t.Errorf("heard %s %s, published %s as %s", a.ID, a.Body, m.Body, m.Properties.MessageID)
			}
		}
		if want :=
			"The budget of pool/poor in total_tokens will not last until 2000-01-01 01:00 UTC: 2917 of 1000 are expected " +
				"(pace of the period), and it is used up at about 2000-01-01 00:20 UTC."; heard.told()[0].Text != want {
			t.Errorf("it says %q", heard.told()[0].Text)
		}
		if n := strings.Count(r.log.String(), "a quota will not last until its period ends"); n != 2 {
			t.Errorf("%d lines of it in the log", n)
		}
		at(59 * time.Minute)
		if told := r.events(schemas.QuotaOverrun); len(told) != 2 {
			t.Errorf("told again: %v", told)
		}
		at(65 * time.Minute)
		r.uses("t-2", "poor", 300)
		at(68 * time.Minute)
		again := r.events(schemas.QuotaOverrun)
		if len(again) != 4 || again[2].Properties.MessageID == m.Properties.MessageID {
			t.Errorf("told in the next hour: %v", again)
		}
		if got := r.quotaMetrics()["taskbus_quota_overruns_total"]; got != 4 {
			t.Errorf("%v are counted", got)
		}
	})
}

// The next leader cannot know what was published, and publishes it again under the same id.
func TestOverrunToldAgainHasTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, heard := forecasting(t, "hour", nil)
		first.start()
		first.uses("t-1", "poor", 300)
		first.pass(10 * time.Minute)
		first.close()
		second, again := forecasting(t, "hour", nil)
		second.broker = first.broker
		second.service.options.Bus = first.broker
		second.start()
		second.pass(2 * overrunsPeriod)
		second.close()
		if len(heard.told()) != 2 || len(again.told()) != 2 || heard.told()[0].ID != again.told()[0].ID ||
			heard.told()[1].ID != again.told()[1].ID || heard.told()[0].ID == heard.told()[1].ID {
			t.Errorf("first %s\nthen %s", heard, again)
		}
	})
}

// pastOf is a history of whole days.
type pastOf struct {
	httpapi.History
	rows []forecast.Row

	mu    sync.Mutex
	state string
	err   error
}

// is has it be so from now on.
func (h *pastOf) is(state string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.err = state, err
}

func (h *pastOf) Usage(context.Context, forecast.Query) ([]forecast.Row, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows, false, h.err
}

func (h *pastOf) Projection(context.Context) (view.Projection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return view.Projection{State: h.state, Since: time.Date(1999, 12, 28, 12, 0, 0, 0, time.UTC)}, nil
}

// Three days of 2,000 tokens each say enough of a day that has just begun. A history that cannot
// say it just now is waited for; people are told once it does.
func TestOverrunByHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(pastOf)
		for _, day := range []string{"1999-12-29", "1999-12-30", "1999-12-31"} {
			h.rows = append(h.rows, forecast.Row{Key: forecast.Key{Day: day, Group: "poor"},
				Counts: forecast.Counts{TotalTokens: 2000}})
		}
		r, heard := forecasting(t, "day", h)
		h.is("following", errors.New("the database is away"))
		r.start()
		defer r.close()
		r.pass(overrunsFirst + overrunsPeriod)
		h.is("rebuilding", nil)
		r.pass(overrunsPeriod)
		if len(heard.told()) != 0 {
			t.Fatalf("told without its history: %s", heard)
		}
		h.is("following", nil)
		r.pass(overrunsPeriod)
		if len(heard.told()) != 1 || !strings.Contains(heard.told()[0].Text, "pool/poor in total_tokens") ||
			!strings.Contains(heard.told()[0].Text, "(mean of 3 days)") {
			t.Errorf("told: %s", heard)
		}
	})
}

// A standby tells nothing.
func TestStandbyTellsNoOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, told := forecasting(t, "hour", nil)
		second, heard := forecasting(t, "hour", nil)
		second.broker = first.broker
		second.service.options.Bus, second.service.options.Instance = first.broker, "taskbus@second"
		first.start()
		second.start()
		first.uses("t-1", "poor", 850) // of 1,000: 80 %
		first.pass(10 * time.Minute)
		// 80 % of the group and of its only agent, told of the group; that neither will last, told of both.
		if len(told.told()) != 3 || told.told()[0].Type != schemas.QuotaReached ||
			told.told()[1].Type != schemas.QuotaOverrun || len(heard.told()) != 0 {
			t.Errorf("the leader tells %s\nthe standby %s", told, heard)
		}
		if want := "pool/poor at 80 %: 850 of 1000 total_tokens, resets 1 Jan 01:00 UTC"; told.told()[0].Text != want {
			t.Errorf("it says %q", told.told()[0].Text)
		}
		first.close()
		second.close()
	})
}

// A hundred and fifty groups that will not last, with more nodes than one turn of the loop copies: every
// node is looked at once, and people hear of a hundred groups with one look, of the others with the next.
func TestOverrunsOfManyNodes(t *testing.T) {
	const groups, agents = 150, 40
	var quotas strings.Builder
	h := new(pastOf)
	h.is("following", nil)
	quotas.WriteString("groups:\n")
	for g := range groups {
		id := fmt.Sprintf("g%03d", g)
		fmt.Fprintf(&quotas, "  - {id: %s, limits: {total_tokens: {amount: 1000, per: day}}}\n", id)
		for _, day := range []string{"1999-12-29", "1999-12-30", "1999-12-31"} {
			h.rows = append(h.rows, forecast.Row{Key: forecast.Key{Day: day, Group: id},
				Counts: forecast.Counts{TotalTokens: 2000}})
		}
	}
	quotas.WriteString("agents:\n")
	for i := range groups * agents {
		fmt.Fprintf(&quotas, "  - {id: a%d, group_id: g%03d}\n", i, i/agents)
	}
	synctest.Test(t, func(t *testing.T) {
		r, heard := underQuotas(t, quotas.String(), h)
		r.start()
		defer r.close()
		nodes, err := r.service.reading.Budgets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[string]bool)
		for _, n := range nodes {
			if seen[n.ID] || n.Parent != "" && !seen[n.Parent] {
				t.Fatalf("%s comes twice, or before %q", n.ID, n.Parent)
			}
			seen[n.ID] = true
		}
		// the pool, and groups with their agents
		if want := 1 + groups*(1+agents); len(nodes) != want || want <= 5000 {
			t.Errorf("%d nodes, want %d, which are more than 5000", len(nodes), want)
		}
		r.pass(overrunsFirst + time.Second)
		if n := len(heard.told()); n != 100 {
			t.Errorf("the first look tells of %d", n)
		}
		r.pass(overrunsPeriod)
		told := make(map[string]bool)
		for _, a := range heard.told() {
			told[a.ID] = true
		}
		if len(heard.told()) != groups || len(told) != groups {
			t.Errorf("the second look has told of %d in all, %d of them different", len(heard.told()), len(told))
		}
	})
}
