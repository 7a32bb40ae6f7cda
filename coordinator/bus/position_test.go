package bus_test

import (
	"testing"
	"time"

	"taskbus/coordinator/bus"
)

func TestPositions(t *testing.T) {
	for _, test := range []struct {
		name   string
		at     bus.Position
		kind   bus.PositionKind
		ago    time.Duration
		offset int64
	}{
		{"nothing said", bus.Position{}, bus.PositionNext, 0, -1},
		{"a time", bus.Ago(time.Minute), bus.PositionAgo, time.Minute, -1},
		{"now", bus.Ago(0), bus.PositionNext, 0, -1},
		{"a time to come", bus.Ago(-time.Second), bus.PositionNext, 0, -1},
		{"a time of day", bus.Since(time.Unix(7, 0)), bus.PositionSince, 0, -1},
		{"the first", bus.First(), bus.PositionFirst, 0, -1},
		{"the last", bus.Last(), bus.PositionLast, 0, -1},
		{"offset 0", bus.At(0), bus.PositionAt, 0, 0},
		{"an offset", bus.At(1 << 40), bus.PositionAt, 0, 1 << 40},
		{"before every offset", bus.At(-7), bus.PositionAt, 0, 0},
	} {
		if test.at.Kind() != test.kind || test.at.Ago() != test.ago || test.at.Offset() != test.offset {
			t.Errorf("%s: kind %d, %v ago, offset %d; want %d, %v, %d", test.name,
				test.at.Kind(), test.at.Ago(), test.at.Offset(), test.kind, test.ago, test.offset)
		}
	}
}
