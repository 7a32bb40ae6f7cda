package bus_test

import (
	"errors"
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

func TestClockOffset(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	const tolerance = 10 * time.Minute
	for _, offset := range []time.Duration{
		0, time.Minute, -time.Minute, 11 * time.Minute, -11 * time.Minute, 7 * time.Hour, -7 * time.Hour,
		40 * 24 * time.Hour, -40 * 24 * time.Hour, 50 * 365 * 24 * time.Hour, -50 * 365 * 24 * time.Hour,
	} {
		stored, asked := at.Add(offset), 0
		got, ok, err := bus.ClockOffset(at, tolerance, func(t time.Time) (bool, error) {
			asked++
			return !stored.Before(t), nil
		})
		want, within := offset, offset.Abs()/16+time.Second
		if offset.Abs() <= tolerance {
			want, within = 0, 0
		}
		if !ok || err != nil || (got-want).Abs() > within || asked > 32 {
			t.Errorf("%v: %v, %t, %v after %d questions", offset, got, ok, err, asked)
		}
	}
	for _, always := range []bool{false, true} { // of a queue, or one that is read as it likes
		if got, ok, err := bus.ClockOffset(at, tolerance, func(time.Time) (bool, error) { return always, nil }); got != 0 ||
			ok || err != nil {
			t.Errorf("always %t: %v, %t, %v", always, got, ok, err)
		}
	}
	broken := errors.New("no answer")
	for fails := range 12 {
		n := 0
		got, ok, err := bus.ClockOffset(at, tolerance, func(t time.Time) (bool, error) {
			if n++; n > fails {
				return false, broken
			}
			return t.Before(at.Add(-40 * 24 * time.Hour)), nil
		})
		if ok || !errors.Is(err, broken) || got != 0 {
			t.Errorf("fails after %d: %v, %t, %v", fails, got, ok, err)
		}
	}
}
