package calendar

import (
	"fmt"
	"math"
	"time"

	"taskbus/coordinator"
)

// Span is a period of time in ns since the Unix epoch: start belongs to it, end does not.
type Span struct{ Start, End int64 }

// Meets reports whether two spans have anything in common.
func (s Span) Meets(o Span) bool { return s.Start < o.End && o.Start < s.End }

// PeriodOf finds the period that the instant is in; nil is UTC. Instants are of 1970 to 2116.
//
// Every instant is in exactly one period, and one begins where the one before it ends:
//
//   - A day, week (from Monday), month or year begins when the clock of the place first
//     shows its date. So on the days when the clock is changed a day has 23 or 25 hours;
//     where there is no midnight it begins at what is there instead; a date that is left out
//     has no period; and when the clock goes back over midnight, the new day goes on.
//   - An hour or minute begins whenever the clock shows a whole one, and so there are two
//     when it shows one twice. Where the clock is changed by a part of an hour, one more
//     begins with the change, shorter than others are.
//   - An interval begins at a multiple of itself from 1970-01-01 in UTC.
//
// It allocates nothing, and takes about half a microsecond for each of the two ends: keep it.
func PeriodOf(p coordinator.Period, at int64, loc *time.Location) Span {
	if loc == nil {
		loc = time.UTC
	}
	switch p.Unit {
	case coordinator.PerMinute:
		return tick(at, int64(time.Minute), loc)
	case coordinator.PerHour:
		return tick(at, int64(time.Hour), loc)
	case coordinator.PerInterval:
		start := floorTo(at, int64(p.Interval))
		return Span{start, start + int64(p.Interval)}
	}
	first := firstDay(p.Unit, time.Unix(0, at).In(loc))
	next := following(p.Unit, first)
	s := Span{begin(first, loc), begin(next, loc)}
	for at >= s.End { // the clock shows a date again that is over
		next = following(p.Unit, next)
		s = Span{s.End, begin(next, loc)}
	}
	return s
}

// DayOf returns the day of that place (nil: UTC) that the instant is in, from its beginning up to that of the
// next one, which is always later than the instant: days are those that budgets have.
func DayOf(at time.Time, loc *time.Location) (start, next time.Time) {
	s := PeriodOf(coordinator.Period{Unit: coordinator.PerDay}, at.UnixNano(), loc)
	return time.Unix(0, s.Start).UTC(), time.Unix(0, s.End).UTC()
}

// QuotaDay returns the day that the instant is in where these quotas count days; nil: there are none, UTC.
func QuotaDay(at time.Time, q *coordinator.Quotas) (start, next time.Time) {
	if q == nil {
		return DayOf(at, nil)
	}
	return DayOf(at, q.Location)
}

// Longest returns how long a period may be.
func Longest(p coordinator.Period) time.Duration {
	const day = 24 * time.Hour
	switch p.Unit {
	case coordinator.PerMinute:
		return time.Minute
	case coordinator.PerHour:
		return time.Hour
	case coordinator.PerDay:
		return day + time.Hour // when the clock goes back
	case coordinator.PerWeek:
		return 7*day + time.Hour
	case coordinator.PerMonth:
		return 31*day + time.Hour
	case coordinator.PerYear:
		return 366*day + time.Hour
	default:
		return p.Interval
	}
}

// tick returns the hour or minute that the instant is in. Offsets from UTC that differ by whole
// steps have their steps in common; where one with others comes, one ends and one begins.
func tick(at, step int64, loc *time.Location) Span {
	zone := zoneAt(at, loc)
	start := floorTo(at+zone.offset, step) - zone.offset
	s := Span{start, start + step}
	for z := zone; z.start > s.Start; {
		before := zoneAt(z.start-1, loc)
		if (z.offset-before.offset)%step != 0 {
			s.Start = z.start
			break
		}
		z = before
	}
	for z := zone; z.end < s.End; {
		after := zoneAt(z.end, loc)
		if (after.offset-z.offset)%step != 0 {
			s.End = z.end
			break
		}
		z = after
	}
	return s
}

// firstDay returns the first day of the period that the clock shows, as midnight in UTC: a date
// to count with, not an instant.
func firstDay(unit coordinator.PeriodUnit, t time.Time) time.Time {
	year, month, day := t.Date()
	switch unit {
	case coordinator.PerWeek:
		day -= (int(t.Weekday()) + 6) % 7 // since Monday
	case coordinator.PerMonth:
		day = 1
	case coordinator.PerYear:
		month, day = time.January, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// following returns the first day of the next period.
func following(unit coordinator.PeriodUnit, first time.Time) time.Time {
	switch unit {
	case coordinator.PerWeek:
		return first.AddDate(0, 0, 7)
	case coordinator.PerMonth:
		return first.AddDate(0, 1, 0)
	case coordinator.PerYear:
		return first.AddDate(1, 0, 0)
	default:
		return first.AddDate(0, 0, 1)
	}
}

// begin returns the first instant at which the clock shows the date or a later one.
// (time.Date answers with either side of a midnight that does not exist.)
func begin(date time.Time, loc *time.Location) int64 {
	want := date.UnixNano()
	// A day before that no clock on earth is as far: offsets are below 16 hours.
	for at := want - int64(24*time.Hour); ; {
		zone := zoneAt(at, loc)
		if at = max(at, want-zone.offset); at < zone.end {
			return at
		}
		at = zone.end
	}
}

// zone is a time, in ns since the Unix epoch, in which the offset from UTC, in ns, does not
// change.
type zone struct{ start, end, offset int64 }

func zoneAt(at int64, loc *time.Location) zone {
	t := time.Unix(0, at).In(loc)
	_, offset := t.Zone()
	z := zone{math.MinInt64, math.MaxInt64, int64(offset) * int64(time.Second)}
	from, to := t.ZoneBounds() // zero: without end
	if !from.IsZero() && from.Unix() > math.MinInt64/int64(time.Second) {
		z.start = from.UnixNano()
	}
	if !to.IsZero() && to.Unix() < math.MaxInt64/int64(time.Second) {
		z.end = to.UnixNano()
	}
	if z.end <= at {
		// Where zones follow a rule instead of a table, as they do from 2038 on, ZoneBounds
		// takes every year for 365 days: on the last day of a leap year it names an end
		// that is over. No rule changes the clock on that day.
		z.end += int64(24 * time.Hour)
	}
	return z
}

// floorTo returns the largest multiple of step that is not above x.
func floorTo(x, step int64) int64 {
	rest := x % step
	if rest < 0 {
		rest += step
	}
	return x - rest
}

// Name names a period for people: 2025, 2025-11, 2025-W47 (ISO 8601), 2025-11-22,
// 2025-11-22T14, 2025-11-22T14:05, and for an interval its beginning in UTC. An hour or
// minute that the clock shows for the second time has its offset with it, as in
// 2025-10-26T02+01:00. Periods of one unit and place never share a name.
func Name(p coordinator.Period, s Span, loc *time.Location) string {
	if loc == nil {
		loc = time.UTC
	}
	t := time.Unix(0, s.Start).In(loc)
	layout := "2006-01-02"
	switch p.Unit {
	case coordinator.PerMinute:
		layout = "2006-01-02T15:04"
	case coordinator.PerHour:
		layout = "2006-01-02T15"
	case coordinator.PerWeek:
		year, week := t.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case coordinator.PerMonth:
		layout = "2006-01"
	case coordinator.PerYear:
		layout = "2006"
	case coordinator.PerInterval:
		return t.UTC().Format(time.RFC3339)
	}
	if p.Unit <= coordinator.PerHour && shownBefore(s.Start, loc) {
		layout += "Z07:00"
	}
	return t.Format(layout)
}

// shownBefore reports whether the clock has shown the same before the latest change.
func shownBefore(at int64, loc *time.Location) bool {
	zone := zoneAt(at, loc)
	if zone.start == math.MinInt64 {
		return false
	}
	before := zoneAt(zone.start-1, loc)
	return at+zone.offset-before.offset < zone.start
}
