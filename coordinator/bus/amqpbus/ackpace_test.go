package amqpbus

import (
	"testing"
	"time"
)

func TestAckPace(t *testing.T) {
	start := time.Unix(1000, 0)
	type sent struct {
		at     time.Duration
		frames int
	}
	for _, test := range []struct {
		name string
		sent []sent
		want time.Duration // after start; 0: the channel may be closed at any time
	}{
		{"nothing", nil, 0},
		{"16 at once: with 16 of the period before they are 32", []sent{{0, 16}}, 0},
		{"17 at once", []sent{{0, 17}}, lingerAfterAcks},
		{"16 in each of two periods", []sent{{0, 16}, {lingerAfterAcks, 16}}, 0},
		{"10 + 7 = 17 in one period", []sent{{0, 10}, {300 * time.Millisecond, 7}}, 1300 * time.Millisecond},
		{"a burst, then little: the burst counts", []sent{{0, 500}, {5 * time.Second, 1}}, lingerAfterAcks},
		{"empty flushes count for nothing", []sent{{0, 17}, {900 * time.Millisecond, 0}}, lingerAfterAcks},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pace ackPace
			for _, s := range test.sent {
				pace.sent(start.Add(s.at), s.frames)
			}
			var want time.Time
			if test.want > 0 {
				want = start.Add(test.want)
			}
			if got := pace.quiet(); !got.Equal(want) {
				t.Errorf("quiet at %v, want %v", got, want)
			}
		})
	}
}
