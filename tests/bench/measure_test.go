package main

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 2, 9}, 3}, // (2+4)/2
	} {
		before := slices.Clone(c.values)
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("median changed its argument to %v", c.values)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100) // 1 to 100
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		sorted  []int
		p, want int
	}{
		{nil, 50, 0},
		{[]int{7}, 50, 7},
		{[]int{7}, 99, 7},
		{[]int{1, 2}, 50, 1}, // half of them do not exceed 1
		{[]int{1, 2, 3}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred[:10], 99, 10}, // 9.9 rounded up
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile(%v, %d) = %d, want %d", c.sorted, c.p, got, c.want)
		}
	}
}

func TestParseStat(t *testing.T) {
	const after = " S 1 1 1 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 9 0 100 1000 300"
	for _, c := range []struct{ name, line, state string }{
		{"plain", "42 (taskbus)" + after, "S"},
		{"a name with everything", "42 (a) R (b c)" + after, "S"},
		{"stopped", "42 (taskbus)" + strings.Replace(after, "S", "T", 1), "T"},
	} {
		got, err := parseStat(c.line)
		// 250 + 50 ticks of 10 ms
		if err != nil || got.state != c.state || got.cpu != 3*time.Second {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	for _, line := range []string{"", "42 (taskbus) S 1 1", "42 (taskbus)" + strings.Replace(after, "250", "many", 1)} {
		if got, err := parseStat(line); err == nil {
			t.Errorf("%q gives %+v, want an error", line, got)
		}
	}
}

func TestParseMemory(t *testing.T) {
	now, peak, err := parseMemory("Name:\ttaskbus\nVmPeak:\t  900000 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t9\n")
	if err != nil || now != 1<<20 || peak != 2<<20 {
		t.Errorf("now %d, peak %d, %v; want 1 MiB, 2 MiB", now, peak, err)
	}
	if _, _, err := parseMemory("Name:\tkthreadd\n"); err == nil {
		t.Error("a process without memory gives no error")
	}
}

func TestParseEngine(t *testing.T) {
	got := parseEngine(`goos: linux
BenchmarkApply/agents=100-2  	 1000000	      1250 ns/op	  800000 decisions/s	     320 B/op	       4 allocs/op
BenchmarkApply/100000-2      	  100000	      2000 ns/op	     320 B/op	       4 allocs/op
BenchmarkReport/agents=100-2 	 1000000	       100 ns/op
BenchmarkQuotas/room/groups=10-2 	 5000	        18.5 plain-allocs/task	      0.90 ratio
PASS
`)
	want := []engineRun{
		{Name: "BenchmarkApply/agents=100-2", Agents: 100, NanosPerOp: 1250, DecisionsPerSec: 800_000, BytesPerOp: 320, AllocsPerOp: 4},
		{Name: "BenchmarkApply/100000-2", Agents: 100_000, NanosPerOp: 2000, DecisionsPerSec: 500_000, BytesPerOp: 320, AllocsPerOp: 4}, // 10⁹ / 2,000
		{Name: "BenchmarkQuotas/room/groups=10-2", More: map[string]float64{"plain-allocs/task": 18.5, "ratio": 0.9}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTally(t *testing.T) {
	all := []string{taskID(0) + ".1", taskID(1) + ".1", taskID(2) + ".1"}
	for _, c := range []struct {
		name     string
		arrivals []string
		want     *countError
	}{
		{"each once, in any order", []string{all[2], all[0], all[1]}, nil},
		{"one lost", all[:2], &countError{3, 2, 0, 0}},
		{"one twice", append([]string{all[0]}, all...), &countError{3, 3, 1, 0}},
		{"one lost, one twice: three in all", []string{all[0], all[0], all[1]}, &countError{3, 2, 1, 0}},
		{"a stranger", append([]string{"hello"}, all...), &countError{3, 3, 0, 1}},
		{"of another run", append([]string{taskID(3)}, all...), &countError{3, 3, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally := newTally(3)
			for _, id := range c.arrivals {
				tally.count(id)
			}
			var got *countError
			errors.As(tally.complete(), &got)
			if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("complete() = %v, want %v", got, c.want)
			}
		})
	}
}

func TestProgress(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newProgress(30 * time.Second)
	for _, c := range []struct {
		after time.Duration
		value int
		moved bool
	}{
		{0, 5, true},
		{29 * time.Second, 5, true},
		{30 * time.Second, 4, true}, // it moved in time
		{59 * time.Second, 4, true},
		{60 * time.Second, 4, false},
		{61 * time.Second, 3, true},
	} {
		if got := p.moved(c.value, begin.Add(c.after)); got != c.moved {
			t.Errorf("after %s at %d: %v, want %v", c.after, c.value, got, c.moved)
		}
	}
}

func TestSummarise(t *testing.T) {
	var samples []time.Duration
	for i := range 200 { // 200 ms down to 1 ms
		samples = append(samples, time.Duration(200-i)*time.Millisecond)
	}
	got := summarise("relay", samples)
	// Nearest rank: 50 % of 200 is the 100th, 99 % the 198th.
	if got.Tasks != 200 || got.P50Millis != 100 || got.P99Millis != 198 || got.MaxMillis != 200 {
		t.Errorf("%+v", got)
	}
}
