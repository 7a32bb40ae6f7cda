package flow

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// TestFlowWindows: what was dispatched counts in its window and the next, over at least ten seconds.
func TestFlowWindows(t *testing.T) {
	f := New()
	f.Dispatched(at(0), "a", 300)
	f.Dispatched(at(1), "b", 100)
	for _, c := range []struct {
		at          float64
		rate, a     float64
		least, most int64
	}{
		{1, 40, 0.75, 100, 300},  // 400 in 10 s
		{20, 20, 0.75, 100, 300}, // 400 in 20 s
		{100, 4, 0.75, 100, 300}, // 400 in 100 s, of the window before
		{119, 400. / 119, 0.75, 100, 300},
		{120, 0, 0, 1, 1}, // two windows later
	} {
		now := f.At(at(c.at))
		rate := now.Rate(at(c.at))
		least, most := now.Bounds()
		if rate != c.rate || now.Part("a") != c.a || least != c.least || most != c.most {
			t.Errorf("after %v s: rate %v, part %v, bounds %d, %d; want %+v", c.at, rate, now.Part("a"), least, most, c)
		}
	}
	if f.Part("b") != 0.25 {
		t.Error("a question has changed it")
	}
	if f.Settled(at(120), &coordinator.Amounts{}, &coordinator.Amounts{}); len(f.of) != 0 {
		t.Errorf("groups of which nothing was dispatched lately are kept: %v", f.of)
	}
}

// TestFlowReported: tokens reserved and used are added up; the window does not begin later than now.
func TestFlowReported(t *testing.T) {
	f := New()
	f.Settled(at(100), &coordinator.Amounts{coordinator.DimTotalTokens: 10},
		&coordinator.Amounts{coordinator.DimTotalTokens: 7})
	f.NotAfter(at(0))
	f.Settled(at(60), &coordinator.Amounts{coordinator.DimTotalTokens: 5},
		&coordinator.Amounts{coordinator.DimTotalTokens: 5})
	if reserved, used := f.Reported(); reserved != 15 || used != 12 {
		t.Errorf("%d reserved, %d used", reserved, used)
	}
	if f.Dispatched(at(60), "", 1200); f.Rate(at(60)) != 20 { // in a minute, by the clock of now
		t.Errorf("rate %v", f.Rate(at(60)))
	}
}

// TestPace: a rate over the time since tasks began to wait, at least a second.
func TestPace(t *testing.T) {
	var p Pace
	if p.Rate(at(0)) != 0 {
		t.Error("a rate of nothing")
	}
	p.Add(at(0))
	p.Restart(at(10))
	for range 6 {
		p.Add(at(10))
	}
	for _, c := range []struct{ at, want float64 }{{10, 6}, {11, 6}, {12, 3}, {70, 0.1}, {129, 6. / 119}, {130, 0}} {
		if got := p.Rate(at(c.at)); got != c.want {
			t.Errorf("after %v s: %v, want %v", c.at, got, c.want)
		}
	}
}
