package usage

import (
	"fmt"
	"math"
	"time"
)

// How much history a forecast looks at.
const (
	// WeekdaysFrom so many whole days on, each day of the week is expected to be as it was so
	// far; before, all days are as they were on average.
	WeekdaysFrom = 14
	// MostDays is how far back it looks.
	MostDays = 56
)

// Course is the course of one budget.
type Course struct {
	// Used in the period so far, of Cap.
	Used, Cap float64
	// The period, and the time now, which is in it.
	Begin, End, Now time.Time
	// Days is what was used on the whole days before today, the latest last, at most MostDays
	// of them, without gaps: 0 where nothing was, NaN where it is not known.
	Days []float64
	// Location in which days begin; nil: UTC.
	Location *time.Location
}

// Outlook is what will become of it.
type Outlook struct {
	// Expected is how much will be used by the end of the period: what is used, and for every day
	// that is left of it, or part of a day, what such a day uses.
	Expected float64
	// Basis says in words what a day is expected to use, and from what. Days is how many whole
	// days that rests on; 0: the period so far.
	Basis string
	Days  int
	// Overruns reports whether that is more than Cap, and OverrunAt when it will be; Now if it is
	// already. It is zero otherwise.
	Overruns  bool
	OverrunAt time.Time
}

// Forecast says what will be used by the end of the period:
//
//	expected = used + Σ over the days d that are left: rate(d) · (the part of d that is left, 0 to 1)
//
// rate(d) is, of a history of 14 whole days or more, the mean of the same days of the week in
// it; of a shorter one the mean of its days. Without a whole day, and for periods of less than a
// day, it is the pace of this period: used / time so far.
func Forecast(c *Course) Outlook {
	loc := c.Location
	if loc == nil {
		loc = time.UTC
	}
	rate, basis, days := c.rate(loc)
	o := Outlook{Expected: c.Used, Basis: basis, Days: days}
	if c.Used > c.Cap {
		o.Overruns, o.OverrunAt = true, c.Now
	}
	for at := c.Now; at.Before(c.End); {
		day := at.In(loc)
		y, m, d := day.Date()
		begins := time.Date(y, m, d, 0, 0, 0, 0, loc)
		next := time.Date(y, m, d+1, 0, 0, 0, 0, loc)
		if !next.After(at) { // where clocks are put back at midnight
			next = at.Add(time.Hour)
		}
		until := next
		if c.End.Before(until) {
			until = c.End
		}
		whole := next.Sub(begins)
		part := float64(until.Sub(at)) / float64(whole)
		adds := rate(day.Weekday()) * part
		if !o.Overruns && o.Expected+adds > c.Cap {
			o.Overruns = true
			o.OverrunAt = at.Add(time.Duration(float64(until.Sub(at)) * (c.Cap - o.Expected) / adds))
		}
		o.Expected += adds
		at = until
	}
	return o
}

// rate is what a day of the week is expected to use, and from what that follows: in words, and how
// many days. Days of which nothing is known say nothing.
func (c *Course) rate(loc *time.Location) (func(time.Weekday) float64, string, int) {
	const day = 24 * time.Hour
	days := c.Days[max(0, len(c.Days)-MostDays):]
	var sum, n [7]float64
	var total float64
	known, today := 0, c.Now.In(loc).Weekday()
	for i, v := range days {
		if math.IsNaN(v) {
			continue
		}
		w := (int(today) + 7*MostDays - (len(days) - i)) % 7
		sum[w] += v
		n[w]++
		total += v
		known++
	}
	mean := func(time.Weekday) float64 { return total / float64(known) }
	switch {
	case known == 0 || c.End.Sub(c.Begin) < day-2*time.Hour: // a day on which clocks change is one
		so := c.Now.Sub(c.Begin)
		if so <= 0 {
			return func(time.Weekday) float64 { return 0 }, "the period has just begun", 0
		}
		pace := c.Used / float64(so) * float64(day)
		return func(time.Weekday) float64 { return pace }, "pace of the period", 0
	case known < WeekdaysFrom:
		return mean, fmt.Sprintf("mean of %d days", known), known
	}
	return func(w time.Weekday) float64 {
		if n[w] == 0 {
			return mean(w)
		}
		return sum[w] / n[w]
	}, fmt.Sprintf("weekdays of %d days", known), known
}

// Series is what was used on each day from one up to another, both included, of what there is by
// day: 0 where there is nothing, NaN on days of which that is not known. Days are 2006-01-02.
func Series(of map[string]float64, from, to string, unknown map[string]bool) []float64 {
	begin, err := time.Parse(time.DateOnly, from)
	if err != nil {
		return nil
	}
	var all []float64
	for at := begin; at.Format(time.DateOnly) <= to; at = at.AddDate(0, 0, 1) {
		day := at.Format(time.DateOnly)
		v := of[day]
		if unknown[day] {
			v = math.NaN()
		}
		all = append(all, v)
	}
	return all
}
