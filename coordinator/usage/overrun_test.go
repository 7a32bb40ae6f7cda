package usage

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator/view"
)

// What is told: an overrun that follows from three whole days, or from a tenth of the period.
func TestAlarming(t *testing.T) {
	day := func(d, h int) time.Time { return time.Date(2026, 11, d, h, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name      string
		used, cap float64
		from, to  time.Time
		at        time.Time
		days      []float64 // whole days of history, the latest last
		alarming  bool
	}{
		// Of 30 days a tenth are three. 20 in two days are 300 in 30, 31 in three are 310.
		{"a month's pace, too early", 20, 100, day(1, 0), day(31, 0), day(3, 0), nil, false},
		{"a month's pace", 31, 100, day(1, 0), day(31, 0), day(4, 0), nil, true},
		{"a month's pace that lasts", 9, 100, day(1, 0), day(31, 0), day(4, 0), nil, false},
		// 10 a day are 290 by the end of the month, from the first hour on: three days have shown it.
		{"three days of history", 1, 100, day(1, 0), day(31, 0), day(1, 1), []float64{10, 10, 10}, true},
		{"two days of history", 1, 100, day(1, 0), day(31, 0), day(1, 1), []float64{10, 10}, false},
		// Of a day a tenth are 2.4 hours: 15 in two hours are 180, 15 in three are 120.
		{"a day's pace, too early", 15, 100, day(22, 0), day(23, 0), day(22, 2), nil, false},
		{"a day's pace", 15, 100, day(22, 0), day(23, 0), day(22, 3), nil, true},
		{"an hour", 50, 100, day(22, 12), day(22, 13), day(22, 12).Add(6 * time.Minute), nil, true},
		{"half an hour is over too soon", 50, 100, day(22, 12), day(22, 12).Add(30 * time.Minute),
			day(22, 12).Add(6 * time.Minute), nil, false},
		{"used up: that is told already", 100, 100, day(22, 0), day(23, 0), day(22, 12), nil, false},
		{"of nothing", 0, 0, day(22, 0), day(23, 0), day(22, 12), []float64{1, 1, 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes := []view.QuotaNode{{ID: "pool", Kind: "pool", Name: "pool",
				Budgets: []view.QuotaBudget{{Dimension: "total_tokens", Used: c.used, Cap: c.cap, PeriodFrom: c.from,
					ResetTime: c.to}}}}
			var past Past
			for i, tokens := range c.days {
				d := c.at.AddDate(0, 0, i-len(c.days)).Format(time.DateOnly)
				past.Rows = append(past.Rows, Row{Key{Day: d, Group: "g"}, Counts{TotalTokens: int64(tokens)}})
				if past.From == "" {
					past.From = d
				}
				past.To = d
			}
			f := Forecasts(nodes, "", c.at, nil, &past)
			if len(f) != 1 || f[0].Alarming() != c.alarming || f[0].Days != len(c.days) {
				t.Errorf("%+v is alarming: %v, want %v", f, f[0].Alarming(), c.alarming)
			}
		})
	}
}

// Whatever the course: nothing is published of what lasts, of what is used up, or in the first tenth of a
// period without history.
func TestAlarmingIsFounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		period := time.Duration(rapid.Int64Range(1, int64(400*24*time.Hour)).Draw(t, "period"))
		at := from.Add(time.Duration(rapid.Int64Range(0, int64(period)).Draw(t, "so far")))
		b := view.QuotaBudget{Dimension: "requests", Used: rapid.Float64Range(0, 1e6).Draw(t, "used"),
			Cap: rapid.Float64Range(0, 1e6).Draw(t, "cap"), PeriodFrom: from, ResetTime: from.Add(period)}
		nodes := []view.QuotaNode{{ID: "pool", Kind: "pool", Name: "pool", Budgets: []view.QuotaBudget{b}}}
		f := Forecasts(nodes, "", at, nil, &Past{})[0]
		if f.Alarming() && (f.Expected <= b.Cap || b.Used >= b.Cap || period < ShortestTold ||
			at.Sub(from) < period/PartTold || f.OverrunAt.Before(at) || f.OverrunAt.After(b.ResetTime)) {
			t.Fatalf("told of %+v at %s: %+v", b, at, f.Outlook)
		}
	})
}

// Of a history with more rows than may be read the latest days count, those that are whole.
func TestReadPast(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	rows := []Row{{Key: Key{Day: "2026-11-19"}}, {Key: Key{Day: "2026-11-20"}}, {Key: Key{Day: "2026-11-21"}}}
	for _, c := range []struct {
		name     string
		since    time.Time
		rows     []Row
		more     bool
		from, to string
		asked    Query
		n        int
		fails    bool
	}{
		{"no history", time.Time{}, rows, false, "", "", Query{}, 0, false},
		{"it began today", at.Add(-time.Hour), rows, false, "", "", Query{}, 0, false},
		{"it began in the middle of the 18th", at.AddDate(0, 0, -4), rows, false, "2026-11-19", "2026-11-21",
			Query{By: ByDay, From: "2026-11-19", To: "2026-11-21", Limit: mostPastRows}, 3, false},
		// 56 days
		{"a long one", at.AddDate(-1, 0, 0), rows, false, "2026-09-27", "2026-11-21",
			Query{By: ByDay, From: "2026-09-27", To: "2026-11-21", Limit: mostPastRows}, 3, false},
		{"a part of it", at.AddDate(0, 0, -4), rows, true, "2026-11-20", "2026-11-21",
			Query{By: ByDay, From: "2026-11-19", To: "2026-11-21", Limit: mostPastRows}, 2, false},
		{"a part of yesterday", at.AddDate(0, 0, -4), rows[2:], true, "", "",
			Query{By: ByDay, From: "2026-11-19", To: "2026-11-21", Limit: mostPastRows}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked Query
			p, err := ReadPast(at, c.since, nil, nil, func(q Query) ([]Row, bool, error) {
				asked = q
				return c.rows, c.more,
					nil
			})
			if p.From != c.from || p.To != c.to || len(p.Rows) != c.n || asked != c.asked || (err != nil) != c.fails {
				t.Errorf("%+v, %v after %+v", p, err, asked)
			}
		})
	}
}

// Days of which more than an hour is missing say nothing: the 20th here, of which all is, and the
// 17th, of which 61 minutes are in two gaps.
func TestDaysInGapsAreUnknown(t *testing.T) {
	day := func(d, h, m int) time.Time { return time.Date(2026, 11, d, h, m, 0, 0, time.UTC) }
	gaps := []Gap{
		{From: day(19, 23, 0), To: day(21, 1, 0)},
		{From: day(17, 3, 0), To: day(17, 3, 31)}, {From: day(17, 9, 0), To: day(17, 9, 30)},
		{To: day(18, 12, 0)},   // since when is not known
		{From: day(22, 10, 0)}, // it goes on, today
		{From: day(22, 13, 0)}, // of a clock ahead
		{From: day(1, 0, 0).AddDate(-1, 0, 0), To: day(2, 0, 0).AddDate(-1, 0, 0)},
	}
	ask := func(Query) ([]Row, bool, error) { return nil, false, nil }
	p, err := ReadPast(day(22, 12, 0), day(10, 0, 0), gaps, nil, ask)
	if want := map[string]bool{"2026-11-20": true, "2026-11-17": true}; err != nil || !maps.Equal(p.Unknown, want) {
		t.Errorf("unknown are %v, want %v; %v", p.Unknown, want, err)
	}
	n := []view.QuotaNode{{ID: "pool", Kind: "pool", Name: "pool",
		Budgets: []view.QuotaBudget{{Dimension: "requests", Cap: 1000, PeriodFrom: day(1, 0, 0), ResetTime: day(31, 0, 0)}}}}
	if f := Forecasts(n, "", day(22, 12, 0), nil, &p)[0]; f.Days != 9 { // the 11th to the 21st but for two
		t.Errorf("the forecast rests on %d days, want 9", f.Days)
	}
}
