package main

import "testing"

func TestJudgeChoosing(t *testing.T) {
	const rate, cpu, lbSmall, lbLarge, rrSmall, rrLarge, herding, large = 0, 1, 2, 3, 4, 5, 6, 7
	choice := func(name string, agents int, nanos, allocs float64) engineRun {
		return engineRun{Name: "BenchmarkChoose/" + name, Agents: agents, NanosPerOp: nanos, DecisionsPerSec: 1e9 / nanos, AllocsPerOp: allocs}
	}
	r := results{
		Throughput: []throughputRun{
			{Subject: "relay", TasksPerSec: 10_000, CPUMicros: 15},
			{Subject: "taskbus", TasksPerSec: 9000, CPUMicros: 16},
			{Subject: learnedStrategy, TasksPerSec: 4900, CPUMicros: 35},
		},
		Choosing: []engineRun{
			choice("load_balanced/agents=100-2", 100, 2000, 0),
			choice("load_balanced/agents=10000-2", 10_000, 10_001, 0),
			choice("reward_rate/agents=100-2", 100, 1000, 1),
			{Name: "BenchmarkPlay/herding/reward_rate-2", EventsPerSec: 200_000},
			{Name: "BenchmarkPlay/ten-thousand/reward_rate-2", EventsPerSec: 199_999},
		},
	}
	got := r.judgeChoosing()
	for _, c := range []struct {
		name         string
		which        int
		word, result string
	}{
		{"4,900/10,000", rate, missed, "0.49"},
		{"35-15", cpu, passed, "20.0 µs"},
		{"just right", lbSmall, passed, "2.0 µs"},
		{"too slow", lbLarge, missed, "10.0 µs"},
		{"fast, but it allocates", rrSmall, missed, "1.0 µs"},
		{"not there", rrLarge, notMeasured, ""},
		{"just right", herding, passed, "200000"},
		{"too slow", large, missed, "199999"},
	} {
		if v := got[c.which]; v.Word != c.word || v.Result != c.result {
			t.Errorf("%s: %s %q (%s), want %s %q", v.What, v.Word, v.Result, c.name, c.word, c.result)
		}
	}
}
