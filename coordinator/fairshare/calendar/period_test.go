package calendar

import (
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the zones are those of this Go, not of the machine

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

var (
	perMinute = coordinator.Period{Unit: coordinator.PerMinute}
	perHour   = coordinator.Period{Unit: coordinator.PerHour}
	perDay    = coordinator.Period{Unit: coordinator.PerDay}
	perWeek   = coordinator.Period{Unit: coordinator.PerWeek}
	perMonth  = coordinator.Period{Unit: coordinator.PerMonth}
	perYear   = coordinator.Period{Unit: coordinator.PerYear}
)

func every(d time.Duration) coordinator.Period {
	return coordinator.Period{Unit: coordinator.PerInterval, Interval: d}
}

func TestSpanOf(t *testing.T) {
	tests := []struct {
		name, zone string
		period     coordinator.Period
		at         string
		start, end string // as the clock of the zone shows them
		id         string
	}{
		{"minute", "UTC", perMinute, "2025-11-22T14:05:59.9Z", "2025-11-22T14:05:00Z", "2025-11-22T14:06:00Z",
			"2025-11-22T14:05"},
		{"hour", "UTC", perHour, "2025-11-22T14:05:00Z", "2025-11-22T14:00:00Z", "2025-11-22T15:00:00Z", "2025-11-22T14"},
		{"day", "UTC", perDay, "2025-11-22T14:05:00Z", "2025-11-22T00:00:00Z", "2025-11-23T00:00:00Z", "2025-11-22"},
		{"week: a Saturday", "UTC", perWeek, "2025-11-22T14:05:00Z", "2025-11-17T00:00:00Z", "2025-11-24T00:00:00Z",
			"2025-W47"},
		{"week: a Sunday", "UTC", perWeek, "2025-11-23T23:59:59Z", "2025-11-17T00:00:00Z", "2025-11-24T00:00:00Z",
			"2025-W47"},
		// ISO 8601: the week belongs to the year of its Thursday, which is 2026-01-01.
		{"week: of two years", "UTC", perWeek, "2025-12-30T00:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z",
			"2026-W01"},
		{"month: its last instant", "UTC", perMonth, "2025-11-30T23:59:59.999999999Z", "2025-11-01T00:00:00Z",
			"2025-12-01T00:00:00Z", "2025-11"},
		{"month: February of a leap year", "UTC", perMonth, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z",
			"2028-03-01T00:00:00Z", "2028-02"},
		{"month: December", "UTC", perMonth, "2025-12-31T00:00:00Z", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z",
			"2025-12"},
		{"year", "UTC", perYear, "2025-11-22T14:05:00Z", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2025"},
		{"1970 begins at 0", "UTC", perYear, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z", "1970"},

		// 1,763,820,300 s since the epoch are 489,950 hours and 300 s; 489,950 = 69,992·7 + 6,
		// so 6 h 5 min of a 7 hours' interval are over.
		{"an interval of 7 hours", "Europe/Berlin", every(7 * time.Hour), "2025-11-22T14:05:00Z", "2025-11-22T08:00:00Z",
			"2025-11-22T15:00:00Z", "2025-11-22T08:00:00Z"},
		// FAIR-SHARE's 30 days: 20,414 days since the epoch are 680·30 + 14.
		{"an interval of 30 days", "UTC", every(30 * 24 * time.Hour), "2025-11-22T14:05:00Z", "2025-11-08T00:00:00Z",
			"2025-12-08T00:00:00Z", "2025-11-08T00:00:00Z"},

		{"the day is that of the place", "Asia/Kathmandu", perDay, "2025-11-22T20:00:00Z", "2025-11-23T00:00:00+05:45",
			"2025-11-24T00:00:00+05:45", "2025-11-23"},
		{"so is the hour", "Asia/Kathmandu", perHour, "2025-11-22T20:00:00Z", "2025-11-23T01:00:00+05:45",
			"2025-11-23T02:00:00+05:45", "2025-11-23T01"},

		{"spring: 23 hours", "Europe/Berlin", perDay, "2025-03-30T12:00:00Z", "2025-03-30T00:00:00+01:00",
			"2025-03-31T00:00:00+02:00", "2025-03-30"},
		{"autumn: 25 hours", "Europe/Berlin", perDay, "2025-10-26T12:00:00Z", "2025-10-26T00:00:00+02:00",
			"2025-10-27T00:00:00+01:00", "2025-10-26"},
		{"spring: the hour before the change", "Europe/Berlin", perHour, "2025-03-30T00:59:00Z", "2025-03-30T01:00:00+01:00",
			"2025-03-30T03:00:00+02:00", "2025-03-30T01"},
		{"autumn: 2 o'clock", "Europe/Berlin", perHour, "2025-10-26T00:30:00Z", "2025-10-26T02:00:00+02:00",
			"2025-10-26T02:00:00+01:00", "2025-10-26T02"},
		{"autumn: 2 o'clock again", "Europe/Berlin", perHour, "2025-10-26T01:30:00Z", "2025-10-26T02:00:00+01:00",
			"2025-10-26T03:00:00+01:00", "2025-10-26T02+01:00"},
		{"autumn: a minute again", "Europe/Berlin", perMinute, "2025-10-26T01:30:10Z", "2025-10-26T02:30:00+01:00",
			"2025-10-26T02:31:00+01:00", "2025-10-26T02:30+01:00"},
		{"a month with a change", "Europe/Berlin", perMonth, "2025-10-31T00:00:00Z", "2025-10-01T00:00:00+02:00",
			"2025-11-01T00:00:00+01:00", "2025-10"},

		{"there is no midnight", "America/Sao_Paulo", perDay, "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00",
			"2018-11-05T00:00:00-02:00", "2018-11-04"},
		{"the day before ends there", "America/Sao_Paulo", perDay, "2018-11-04T02:59:59Z", "2018-11-03T00:00:00-03:00",
			"2018-11-04T01:00:00-02:00", "2018-11-03"},
		// At midnight the clock goes back to 23:00, of the same day.
		{"11 o'clock p.m. twice", "America/Sao_Paulo", perDay, "2018-02-18T02:30:00Z", "2018-02-17T00:00:00-02:00",
			"2018-02-18T00:00:00-03:00", "2018-02-17"},
		{"there is no midnight in Cairo", "Africa/Cairo", perDay, "2025-04-25T10:00:00Z", "2025-04-25T01:00:00+03:00",
			"2025-04-26T00:00:00+03:00", "2025-04-25"},
		{"nor does the month begin with one", "Asia/Amman", perMonth, "2022-04-15T10:00:00Z", "2022-04-01T00:00:00+03:00",
			"2022-05-01T00:00:00+03:00", "2022-04"},
		// At 0:01 the clock went back to 23:01: the new day had begun, and goes on.
		{"the evening of the day before, again", "America/St_Johns", perDay, "2010-11-07T03:00:00Z",
			"2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", "2010-11-07"},
		{"2011-12-30 never was: the day before", "Pacific/Apia", perDay, "2011-12-30T09:00:00Z", "2011-12-29T00:00:00-10:00",
			"2011-12-31T00:00:00+14:00", "2011-12-29"},
		{"2011-12-30 never was: the day after", "Pacific/Apia", perDay, "2011-12-30T10:00:00Z", "2011-12-31T00:00:00+14:00",
			"2012-01-01T00:00:00+14:00", "2011-12-31"},

		{"after the tables of zones end: the last day of a leap year", "Europe/Berlin", perYear, "2040-12-31T12:00:00Z",
			"2040-01-01T00:00:00+01:00", "2041-01-01T00:00:00+01:00", "2040"},

		// Half an hour forward at 2, and back at 2 to 1:30.
		{"half an hour is left out", "Australia/Lord_Howe", perHour, "2025-10-04T15:40:00Z", "2025-10-05T02:30:00+11:00",
			"2025-10-05T03:00:00+11:00", "2025-10-05T02"},
		{"half an hour twice", "Australia/Lord_Howe", perHour, "2025-04-05T15:10:00Z", "2025-04-06T01:30:00+10:30",
			"2025-04-06T02:00:00+10:30", "2025-04-06T01+10:30"},
		{"the hour before that", "Australia/Lord_Howe", perHour, "2025-04-05T14:59:00Z", "2025-04-06T01:00:00+11:00",
			"2025-04-06T01:30:00+10:30", "2025-04-06T01"},
		// At 23:30 it became midnight.
		{"half of the last hour is left out", "Asia/Pyongyang", perHour, "2018-05-04T14:45:00Z", "2018-05-04T23:00:00+08:30",
			"2018-05-05T00:00:00+09:00", "2018-05-04T23"},
		// At 0:01 it became 23:01: the hours of both are the same, and go on.
		{"a change within an hour by an hour", "America/St_Johns", perHour, "2010-11-07T02:45:00Z",
			"2010-11-07T00:00:00-02:30", "2010-11-07T00:00:00-03:30", "2010-11-07T00"},
		{"and the next", "America/St_Johns", perHour, "2010-11-07T03:45:00Z", "2010-11-07T00:00:00-03:30",
			"2010-11-07T01:00:00-03:30", "2010-11-07T00-03:30"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			loc := zoneOf(t, tt.zone)
			s := PeriodOf(tt.period, instant(t, tt.at), loc)
			if want := (Span{instant(t, tt.start), instant(t, tt.end)}); s != want {
				t.Errorf("from %s to %s", time.Unix(0, s.Start).In(loc), time.Unix(0, s.End).In(loc))
			}
			if id := Name(tt.period, s, loc); id != tt.id {
				t.Errorf("it is called %s, want %s", id, tt.id)
			}
		})
	}
}

func TestSpanOfWithoutAZoneIsUTC(t *testing.T) {
	at := instant(t, "2025-11-22T23:30:00Z")
	if got, want := PeriodOf(perDay, at, nil), PeriodOf(perDay, at, time.UTC); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if id := Name(perHour, PeriodOf(perHour, at, nil), nil); id != "2025-11-22T23" {
		t.Error(id)
	}
}

func zoneOf(t interface{ Fatal(...any) }, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func instant(t *testing.T, text string) int64 {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

// oddZones are such as have gone wrong elsewhere: changes at midnight, just after it, by
// half an hour, by a day; offsets of parts of an hour; none at all.
var oddZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Africa/Cairo", "Africa/Casablanca",
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", "Pacific/Chatham", "Asia/Kathmandu", "Asia/Kolkata",
	"Asia/Amman", "Asia/Gaza", "Asia/Tehran", "Asia/Pyongyang", "Asia/Beirut", "Australia/Lord_Howe", "America/St_Johns",
	"America/Caracas", "America/Havana", "America/Asuncion", "America/Santiago", "Africa/Monrovia", "Antarctica/Troll",
	"Antarctica/Casey", "Europe/Dublin",
}

// drawInstant draws one from 1970 to 2100, often one near a change of the clock or the turn
// of a year.
func drawInstant(t *rapid.T, loc *time.Location) int64 {
	at := rapid.Int64Range(0, 4_102_444_800).Draw(t, "second")
	near := rapid.OneOf(rapid.Int64Range(-7200, 7200), rapid.Int64Range(-26*3600, 26*3600)).Draw(t, "near")
	switch rapid.IntRange(0, 3).Draw(t, "near what") {
	case 0:
		at = time.Date(time.Unix(at, 0).Year(), time.January, 1, 0, 0, 0, 0, loc).Unix() + near
	case 1, 2:
		if _, change := time.Unix(at, 0).In(loc).ZoneBounds(); !change.IsZero() && change.Year() < 2100 {
			at = change.Unix() + near
		}
	}
	return max(0, at)*int64(time.Second) + rapid.Int64Range(0, 1e9-1).Draw(t, "ns")
}

func drawPeriod(t *rapid.T) coordinator.Period {
	return rapid.OneOf(
		rapid.SampledFrom([]coordinator.Period{perMinute, perHour, perDay, perWeek, perMonth, perYear}),
		rapid.Map(rapid.Int64Range(1, 1e8),
			func(s int64) coordinator.Period { return every(time.Duration(s) * time.Second) }),
	).Draw(t, "period")
}

// Every instant is in one period only, and each begins where the one before it ends.
func TestSpansPartitionTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := zoneOf(t, rapid.SampledFrom(oddZones).Draw(t, "zone"))
		p, at := drawPeriod(t), drawInstant(t, loc)
		s := PeriodOf(p, at, loc)
		if at < s.Start || at >= s.End {
			t.Fatalf("%d is not in %v", at, s)
		}
		for _, in := range []int64{s.Start, s.End - 1, s.Start + rapid.Int64Range(0, s.End-s.Start-1).Draw(t, "within")} {
			if got := PeriodOf(p, in, loc); got != s {
				t.Errorf("%d is in %v, but %d in %v", at, s, in, got)
			}
		}
		before, after := PeriodOf(p, s.Start-1, loc), PeriodOf(p, s.End, loc)
		if before.End != s.Start || after.Start != s.End {
			t.Errorf("%v is between %v and %v", s, before, after)
		}
		names := map[string]bool{Name(p, before, loc): true, Name(p, s, loc): true, Name(p, after, loc): true}
		if len(names) != 3 {
			t.Errorf("three periods have only the names %v", names)
		}
	})
}

// A day begins at the first minute at which the clock shows its date, looked for one by one.
func TestDaysBeginWhenTheirDateIsFirstShown(t *testing.T) {
	date := func(at int64, loc *time.Location) string { return time.Unix(0, at).In(loc).Format(time.DateOnly) }
	rapid.Check(t, func(t *rapid.T) {
		loc := zoneOf(t, rapid.SampledFrom(oddZones).Draw(t, "zone"))
		s := PeriodOf(perDay, drawInstant(t, loc), loc)
		first := date(s.Start, loc)
		for minute := range int64(26 * 60) {
			if at := s.Start - 1 - minute*int64(time.Minute); date(at, loc) >= first {
				t.Fatalf("%s has begun before, at %d", first, at)
			}
		}
		for at := s.Start; at < s.End; at += int64(time.Minute) {
			if date(at, loc) > first {
				t.Fatalf("%s goes on when it is %s", first, date(at, loc))
			}
		}
	})
}

// An hour or minute begins with a whole one on the clock, or with a change of the clock.
func TestTicksBeginWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := zoneOf(t, rapid.SampledFrom(oddZones).Draw(t, "zone"))
		p := rapid.SampledFrom([]coordinator.Period{perMinute, perHour}).Draw(t, "period")
		step := map[coordinator.PeriodUnit]int64{coordinator.PerMinute: 60, coordinator.PerHour: 3600}[p.Unit]
		s := PeriodOf(p, drawInstant(t, loc), loc)
		start := time.Unix(0, s.Start).In(loc)
		_, offset := start.Zone()
		from, to := start.ZoneBounds()
		if whole := (start.Unix()+int64(offset))%step == 0; !whole && !start.Equal(from) {
			t.Errorf("%s is not whole", start)
		}
		if short := s.End-s.Start != step*int64(time.Second); short && !start.Equal(from) && s.End != to.UnixNano() {
			t.Errorf("it lasts %s without a change", time.Duration(s.End-s.Start))
		}
		if s.End-s.Start > step*int64(time.Second) {
			t.Errorf("it lasts %s", time.Duration(s.End-s.Start))
		}
	})
}

// Years have the right number of days, also those that have none left over.
func TestMonthsAndYearsFitTogether(t *testing.T) {
	loc := zoneOf(t, "Europe/Berlin")
	at, months := instant(t, "2000-01-01T00:00:00+01:00"), 0
	for year := range 100 {
		y := PeriodOf(perYear, at, loc)
		days := (y.End - y.Start) / int64(24*time.Hour)
		if leap := (year%4 == 0); days != 365 && !leap || days != 366 && leap { // 2000 is one
			t.Errorf("%d has %d days", 2000+year, days)
		}
		for at < y.End {
			at = PeriodOf(perMonth, at, loc).End
			months++
		}
		if at != y.End {
			t.Errorf("the months of %d end at %d, the year at %d", 2000+year, at, y.End)
		}
	}
	if months != 1200 {
		t.Errorf("%d months, want 1200", months)
	}
}

func TestSpanOfLongestInterval(t *testing.T) {
	now := instant(t, "2025-11-22T14:05:00Z")
	if s := PeriodOf(every(math.MaxInt64), now, nil); s != (Span{0, math.MaxInt64}) {
		t.Errorf("%v", s)
	}
}

func TestSpanOfAllocatesNothing(t *testing.T) {
	loc, at := zoneOf(t, "Europe/Berlin"), instant(t, "2025-11-22T14:05:00Z")
	for _, p := range []coordinator.Period{perMinute, perHour, perDay, perWeek, perMonth, perYear, every(time.Hour)} {
		if n := testing.AllocsPerRun(100, func() { PeriodOf(p, at, loc) }); n > 0 {
			t.Errorf("%v: %v allocations", p, n)
		}
	}
}

func BenchmarkSpanOfMonth(b *testing.B) {
	loc := zoneOf(b, "Europe/Berlin")
	at := int64(1_772_366_400) * int64(time.Second)
	for b.Loop() {
		PeriodOf(perMonth, at, loc)
		at += int64(time.Hour)
	}
}

// Days begin where time.Date does not say: in Havana 8 March 2026 has 23 hours and no midnight.
func TestDayOf(t *testing.T) {
	havana, err := time.LoadLocation("America/Havana")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, start, next string
		zone            *time.Location
	}{
		{"2026-03-08T04:59:59Z", "2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", havana}, // 23:59:59 of the day before
		{"2026-03-08T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", havana}, // the clock shows 01:00
		{"2026-03-09T03:59:59Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", havana},
		{"2026-03-08T04:59:59Z", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z", nil}, // UTC
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		start, next := DayOf(at, c.zone)
		if start.Format(time.RFC3339) != c.start || next.Format(time.RFC3339) != c.next {
			t.Errorf("%s: from %s to %s, want %s to %s", c.at, start.Format(time.RFC3339), next.Format(time.RFC3339), c.start,
				c.next)
		}
	}
}
