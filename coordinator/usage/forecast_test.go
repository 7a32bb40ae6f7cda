package usage

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func repeat(n int, v ...float64) (all []float64) {
	for range n {
		all = append(all, v...)
	}
	return all
}

func TestForecast(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(d, h int) time.Time { return time.Date(2026, 11, d, h, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name     string
		course   Course
		expected float64
		basis    string
		overruns bool
		at       time.Time
	}{
		// 8 and a half days are left of November: 500 + 8.5 · 10.
		{"the mean of the days", Course{Used: 500, Cap: 1000, Begin: day(1, 0), End: day(31, 0), Now: day(22, 12),
			Days: repeat(5, 5, 15)}, 585, "mean of 10 days", false, time.Time{}},
		// The 22nd is a Sunday. Days before: 14, ending with Saturday the 21st: two weeks of Sunday to
		// Saturday with 0 at the week's ends and 20 on the five days between. Left are half the Sunday
		// (0), Monday to Friday (5 · 20), Saturday and Sunday (0), and Monday the 30th (20): 120.
		// 6 days of 10 and 4 that are missing: 500 + 8.5 × 10.
		{"days in a gap", Course{Used: 500, Cap: 1000, Begin: day(1, 0), End: day(31, 0), Now: day(22, 12),
			Days: append(repeat(6, 10), repeat(4, math.NaN())...)}, 585, "mean of 6 days", false, time.Time{}},
		{"nothing but a gap", Course{Used: 10, Cap: 1000, Begin: day(1, 0), End: day(31, 0), Now: day(11, 0),
			Days: repeat(4, math.NaN())}, 30, "pace of the period", false, time.Time{}},
		{"days of the week", Course{Used: 500, Cap: 1000, Begin: day(1, 0), End: day(31, 0), Now: day(22, 12),
			Days: repeat(2, 0, 20, 20, 20, 20, 20, 0)}, 620, "weekdays of 14 days", false, time.Time{}},
		// 5 are used on Sunday afternoon (10 · 0.5), 10 on Monday; of the 20 that are left 5 remain for
		// Tuesday, half of it.
		{"overruns", Course{Used: 80, Cap: 100, Begin: day(1, 0), End: day(31, 0), Now: day(22, 12), Days: repeat(3, 10)},
			165, "mean of 3 days", true, day(24, 12)},
		{"has overrun", Course{Used: 101, Cap: 100, Begin: day(1, 0), End: day(31, 0), Now: day(30, 12), Days: repeat(3, 10)},
			106, "mean of 3 days", true, day(30, 12)},
		{"exactly used up is no overrun", Course{Used: 100, Cap: 100, Begin: day(1, 0), End: day(31, 0), Now: day(30, 12),
			Days: repeat(3, 0)}, 100, "mean of 3 days", false, time.Time{}},
		// 10 in 6 hours are 40 in 24.
		{"no whole day yet", Course{Used: 10, Cap: 30, Begin: day(22, 0), End: day(23, 0), Now: day(22, 6)}, 40,
			"pace of the period", true, day(22, 18)},
		// Of an hour's budget the days say nothing: 10 in 15 minutes are 40 in 60.
		{"an hour", Course{Used: 10, Cap: 50, Begin: day(22, 12), End: day(22, 13), Now: day(22, 12).Add(15 * time.Minute),
			Days: repeat(20, 1)}, 40, "pace of the period", false, time.Time{}},
		{"it begins", Course{Cap: 50, Begin: day(22, 12), End: day(22, 13), Now: day(22, 12)}, 0, "the period has just begun",
			false, time.Time{}},
		{"it ends", Course{Used: 7, Cap: 50, Begin: day(1, 0), End: day(22, 0), Now: day(22, 0), Days: repeat(5, 9)}, 7,
			"mean of 5 days", false, time.Time{}},
		// On 29 March 2026 Berlin has 23 hours; 11 and a half of them are half that day.
		{"a short day", Course{
			Used: 0, Cap: 100, Begin: time.Date(2026, 3, 29, 0, 0, 0, 0, berlin),
			End: time.Date(2026, 3, 30, 0, 0, 0, 0, berlin),
			Now: time.Date(2026, 3, 29, 0, 0, 0, 0, berlin).Add(11*time.Hour + 30*time.Minute), Days: repeat(3, 46),
			Location: berlin,
		}, 23, "mean of 3 days", false, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Forecast(&c.course)
			if math.Abs(o.Expected-c.expected) > 1e-9 || o.Basis != c.basis || o.Overruns != c.overruns ||
				o.OverrunAt.Sub(c.at).Abs() > time.Microsecond {
				t.Errorf("got %+v, want %v, %q, %v at %s", o, c.expected, c.basis, c.overruns, c.at)
			}
		})
	}
}

// Never less than what is used; a day that uses the same every day is forecast exactly; and the
// overrun is where the course meets the cap.
func TestForecastOfASteadyCourse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Course{
			Begin: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
			Cap:  rapid.Float64Range(1, 1e6).Draw(t, "cap"),
			Days: repeat(rapid.IntRange(1, 80).Draw(t, "days"), rapid.Float64Range(0, 1e5).Draw(t, "a day")),
		}
		so := time.Duration(rapid.Int64Range(1, int64(30*24*time.Hour)).Draw(t, "so far"))
		c.Now = c.Begin.Add(so)
		c.Used = c.Days[0] * so.Hours() / 24
		o := Forecast(&c)
		if want := 30 * c.Days[0]; math.Abs(o.Expected-want) > 1e-6*max(1, want) {
			t.Fatalf("%v, want %v", o.Expected, want)
		}
		if o.Overruns != (o.Expected > c.Cap) || o.Overruns && (o.OverrunAt.Before(c.Now) || o.OverrunAt.After(c.End)) {
			t.Fatalf("%+v of %v", o, c.Cap)
		}
	})
}

func TestSeries(t *testing.T) {
	got := Series(map[string]float64{"2026-02-27": 1, "2026-03-01": 2, "2026-03-09": 3}, "2026-02-26", "2026-03-02",
		map[string]bool{"2026-02-28": true})
	want := []float64{0, 1, math.NaN(), 2, 0}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if len(Series(nil, "2026-03-02", "2026-03-01", nil)) != 0 {
		t.Error("a day after the end is in it")
	}
}

func TestCosts(t *testing.T) {
	row := func(group, agent, model string, tokens, cost int64) Row {
		return Row{Key{Group: group, Agent: agent, Provider: "openai", Model: model},
			Counts{TotalTokens: tokens, Cost: cost, Settled: 1}}
	}
	r := Costs([]Row{row("g", "a", "small", 10, 25), row("g", "b", "small", 10, 25), row("h", "a", "large", 5, 150),
		row("h", "a", "free", 7, 0)}, "")
	if r.Total.Cost != 200 || r.Total.TotalTokens != 32 || r.Total.Settled != 4 {
		t.Errorf("in all %+v", r.Total)
	}
	// h: 150 of 200; g: 25 + 25 of 200.
	if g := r.Groups; len(g) != 2 || g[0].Group != "h" || g[0].Share != 0.75 || g[1].Cost != 50 || g[1].Share != 0.25 {
		t.Errorf("groups %+v", g)
	}
	if a := r.Agents; len(a) != 3 || a[0].Group != "h" || a[0].Agent != "a" || a[0].Cost != 150 || a[1].Agent != "a" ||
		a[1].Cost != 25 {
		t.Errorf("agents %+v", a)
	}
	if m := r.Models; len(m) != 3 || m[0].Model != "large" || m[1].Cost != 50 || m[2].Model != "free" || !m[2].Unpriced ||
		m[0].Unpriced {
		t.Errorf("models %+v", m)
	}
	if empty := Costs(nil, ""); len(empty.Groups) != 0 {
		t.Errorf("of nothing %+v", empty)
	}
}
