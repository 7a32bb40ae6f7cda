package main

import (
	"slices"
	"strings"
	"testing"
)

func TestJudgeJournal(t *testing.T) {
	rates := func(relay, bare, taskbus float64) []throughputRun {
		return []throughputRun{
			{Subject: "relay", TasksPerSec: relay, CPUMicros: 15},
			{Subject: "taskbus", TasksPerSec: taskbus, CPUMicros: 40},
			{Subject: withoutJournal, TasksPerSec: bare, CPUMicros: 35},
		}
	}
	p99 := func(relay, bare, taskbus float64) []latencyRun {
		return []latencyRun{
			{Subject: "relay", P50Millis: 1, P99Millis: relay}, {Subject: withoutJournal, P50Millis: 2, P99Millis: bare},
			{Subject: "taskbus", P50Millis: 3, P99Millis: taskbus},
		}
	}
	starts := func(millis ...float64) startResult {
		r := startResult{Tasks: 1_000_000, Records: 4_000_000, Messages: 250_000}
		for _, m := range millis {
			r.Runs = append(r.Runs, startRun{Snapshot: true, Millis: m, PeakRSSBytes: 200 << 20})
		}
		return r
	}
	withLast := func(r startResult, run startRun) startResult {
		r.Runs = append(r.Runs, run)
		return r
	}
	const itself, bareRate, bareCPU, latency, cpu, behind, takeOver, lost, start, all, window = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
	for _, c := range []struct {
		name    string
		results results
		which   int
		word    string
		result  string
		note    string
	}{
		{"just right: 6,000/8,000", results{Throughput: rates(10_000, 8000, 6000)}, itself, passed, "0.75", "35.0 µs without, 40.0 with it"},
		{"too slow: 5,900/8,000", results{Throughput: rates(10_000, 8000, 5900)}, itself, missed, "0.74", ""},
		{"in whatever order: median of 0.70, 0.80, 0.90", results{Throughput: slices.Concat(rates(1, 10, 8), reversed(rates(1, 10, 7)), rates(1, 10, 9))},
			itself, passed, "0.80", "pairs [0.80 0.70 0.90]"},
		{"one of the two is missing", results{Throughput: rates(1, 1, 1)[:2]}, itself, notMeasured, "", ""},
		{"without the journal, just right", results{Throughput: rates(10_000, 6000, 5000)}, bareRate, passed, "0.60", ""},
		{"without the journal, too slow", results{Throughput: rates(10_000, 5900, 5000)}, bareRate, missed, "0.59", ""},
		{"without the journal, 35-15", results{Throughput: rates(1, 1, 1)}, bareCPU, passed, "20.0 µs", ""},
		{"p99 just right", results{Latency: p99(6, 8, 10)}, latency, passed, "10.00 ms", "relay 1.00/6.00, without the journal 2.00/8.00, with it 3.00/10.00 ms"},
		{"p99 too slow, though the relay is no better", results{Latency: p99(12, 12, 10.1)}, latency, missed, "10.10 ms", ""},
		{"p99 of the middle of two: (8+11)/2", results{Latency: append(p99(1, 1, 8), p99(1, 1, 11)...)}, latency, passed, "9.50 ms", ""},
		{"no latency", results{}, latency, notMeasured, "", ""},
		{"CPU just right", results{Standby: standbyResult{PerSecond: 1000, CPUShare: 0.05, LeaderCPUShare: 0.2}}, cpu, passed, "5.0 %", "the leader 20.0 %"},
		{"CPU too much", results{Standby: standbyResult{PerSecond: 1000, CPUShare: 0.051}}, cpu, missed, "5.1 %", ""},
		{"no standby", results{}, cpu, notMeasured, "", ""},
		{"behind: median of 4, 9, 100", results{Standby: standbyResult{Behind: []float64{100, 4, 9}, RecordsPerSecond: 4000}}, behind, "", "9 records", "the most of 3 samples 100; of 4000 records/s"},
		{"the slowest take-over counts", results{Standby: standbyResult{TakeOverMillis: []float64{300, 2001}, PauseMillis: []float64{350, 2100}}},
			takeOver, missed, "2001 ms", "longest time without a result 2100 ms"},
		{"take-over just right", results{Standby: standbyResult{TakeOverMillis: []float64{2000}}}, takeOver, passed, "2000 ms", ""},
		{"no take-over", results{}, takeOver, notMeasured, "", ""},
		{"nothing lost", results{Standby: standbyResult{Tasks: 5000, Twice: 3}}, lost, passed, "0", "of 5000; 3 had a second result"},
		{"one lost", results{Standby: standbyResult{Tasks: 5000, Lost: 1}}, lost, missed, "1", ""},
		{"start: the median counts", results{Start: starts(2900, 3500, 3000)}, start, passed, "3000 ms", "200 MiB at most; 199000 records"},
		{"start too slow", results{Start: starts(3001)}, start, missed, "3001 ms", ""},
		{"start without a snapshot is another matter", results{Start: withLast(starts(2000), startRun{Millis: 20_000, PeakRSSBytes: 300 << 20})}, start, passed, "2000 ms", "200 MiB"},
		{"and is shown", results{Start: withLast(starts(2000), startRun{Millis: 20_000, PeakRSSBytes: 300 << 20})}, all, "", "20000 ms", "all 4000000 records in 250000 messages; 300 MiB"},
		{"no start", results{}, start, notMeasured, "", ""},
		{"the size at which an id takes most", results{Window: windowResult{{20_000, 64}, {100_000, 50}}}, window, passed, "64.0 bytes", "64.0 at 20000, 50.0 at 100000 ids"},
		{"an id takes too much", results{Window: windowResult{{20_000, 60}, {100_000, 64.1}}}, window, missed, "64.1 bytes", ""},
		{"no window", results{}, window, notMeasured, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.results.judgeJournal()[c.which]
			if v.Word != c.word || v.Result != c.result || !strings.Contains(v.Note, c.note) {
				t.Errorf("%s: %s %q (%s), want %s %q (%s)", v.What, v.Word, v.Result, v.Note, c.word, c.result, c.note)
			}
		})
	}
}

func reversed(runs []throughputRun) []throughputRun {
	slices.Reverse(runs)
	return runs
}

// A figure of the window that is not of the ids would be of no use.
func TestWindowMemory(t *testing.T) {
	got := windowMemory()
	if len(got) != len(windowSizes) {
		t.Fatalf("%d sizes were measured, want %d", len(got), len(windowSizes))
	}
	for i, run := range got {
		// 40 bytes are the record alone; 200 would be a map's.
		if run.IDs != windowSizes[i] || run.BytesPerID < 40 || run.BytesPerID > 200 {
			t.Errorf("%+v", run)
		}
	}
}
