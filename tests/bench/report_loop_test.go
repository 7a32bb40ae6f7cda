package main

import (
	"strings"
	"testing"
)

func TestJudgeLoop(t *testing.T) {
	reads := func(bare, taskbus float64) []resultsRun {
		return []resultsRun{{Reader: "reader", TasksPerSec: bare, CPUMicros: 30}, {Reader: "taskbus", TasksPerSec: taskbus, CPUMicros: 45}}
	}
	const rate, cycle, latency, silent, offline, killed, looks = 0, 1, 2, 3, 4, 5, 6
	for _, c := range []struct {
		name    string
		results results
		which   int
		word    string
		result  string
		note    string
	}{
		{"just right: 9,000/10,000", results{Results: reads(10_000, 9000)}, rate, passed, "0.90", "30.0 and 45.0 µs"},
		{"too slow", results{Results: reads(10_000, 8900)}, rate, missed, "0.89", ""},
		{"in whatever order: median of 0.80, 0.95, 1.00", results{Results: append(append(reads(10, 8), resultsRun{Reader: "taskbus", TasksPerSec: 9.5},
			resultsRun{Reader: "reader", TasksPerSec: 10}), reads(10, 10)...)}, rate, passed, "0.95", "pairs [0.80 0.95 1.00]"},
		{"no results", results{Results: reads(1, 1)[:1]}, rate, notMeasured, "", ""},
		{"cycle, mean of the middle two", results{Cycle: []cycleRun{{TasksPerSec: 4000, Slots: 10, CPUMicros: 50}, {TasksPerSec: 5000, CPUMicros: 60}}},
			cycle, "", "4500 tasks/s", "coordinator 55.0 µs"},
		{"no cycle", results{}, cycle, notMeasured, "", ""},
		{"latency of the cycle", results{Cycle: []cycleRun{{Latency: latencyRun{P50Millis: 3, P99Millis: 9}}}}, latency, "", "p50 3.00 ms", "p99 9.00 ms"},
		{"the slowest counts", results{Detection: detectionResult{SilentMillis: []float64{20, 5000, 30}}}, silent, passed, "5000 ms", "median 30 ms"},
		{"silent too long", results{Detection: detectionResult{SilentMillis: []float64{20, 5001, 30}}}, silent, missed, "5001 ms", ""},
		{"offline", results{Detection: detectionResult{OfflineMillis: []float64{501}}}, offline, missed, "501 ms", ""},
		{"killed", results{Detection: detectionResult{GoneMillis: []float64{2000}, KilledMillis: []float64{2100}}}, killed, passed, "2000 ms", "median 2100 ms"},
		{"looks", results{Looks: looksResult{Agents: 1000, IdlePercent: 1.5, BusyPercent: 2}}, looks, passed, "2.0 %", "idle 1.5 %"},
		{"looks that cost too much", results{Looks: looksResult{Agents: 1000, IdlePercent: 2.1, BusyPercent: 1}}, looks, missed, "2.1 %", ""},
		{"no looks", results{}, looks, notMeasured, "", ""},
		{"no departures", results{}, killed, notMeasured, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.results.judgeLoop()[c.which]
			if v.Word != c.word || v.Result != c.result || !strings.Contains(v.Note, c.note) {
				t.Errorf("%s: %s %q (%s), want %s %q (%s)", v.What, v.Word, v.Result, v.Note, c.word, c.result, c.note)
			}
		})
	}
}

func TestOnlyWhatIsWanted(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "assigning latency results cycle burst market pull quotas calls beside detection looks standby start memory engine"},
		{"--quick", "assigning latency results cycle burst market pull quotas calls beside detection looks standby start memory"},
		{"--only cycle", "cycle"},
		{"--quick --only engine", "engine"},
	} {
		o, err := parseFlags(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		var got []string
		for _, part := range parts {
			if o.wants(part) {
				got = append(got, part)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q measures %s, want %s", c.args, s, c.want)
		}
	}
	if _, err := parseFlags([]string{"--only", "nothing"}); err == nil || !strings.Contains(err.Error(), "the parts are assigning") {
		t.Errorf("an unknown part: %v", err)
	}
}
