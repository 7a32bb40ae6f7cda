package main

import (
	"bytes"
	"strings"
	"testing"
)

// pair is one run of each.
func pair(relayRate, relayCPU, taskbusRate, taskbusCPU float64) []throughputRun {
	return []throughputRun{
		{Subject: "relay", TasksPerSec: relayRate, CPUMicros: relayCPU},
		{Subject: "taskbus", TasksPerSec: taskbusRate, CPUMicros: taskbusCPU},
	}
}

func latencies(relayP50, relayP99, taskbusP50, taskbusP99 float64) []latencyRun {
	return []latencyRun{
		{Subject: "relay", P50Millis: relayP50, P99Millis: relayP99},
		{Subject: "taskbus", P50Millis: taskbusP50, P99Millis: taskbusP99},
	}
}

func TestJudge(t *testing.T) {
	good := func() results {
		return results{
			Throughput: pair(10_000, 15, 5000, 35),
			Latency:    latencies(1, 5, 2, 10),
			Memory:     memoryResult{InFlight: 1000, RSSBytes: 64 << 20, WaitingRSSBytes: 70 << 20},
			Engine: []engineRun{
				{Agents: 100, DecisionsPerSec: 500_000},
				{Agents: 100_000, DecisionsPerSec: 501},
			},
		}
	}
	const cpu, rate, p50, p99, memory, decisions, growth = 0, 1, 2, 3, 4, 5, 6
	for _, c := range []struct {
		name   string
		change func(*results)
		which  int
		word   string
		result string
	}{
		{"CPU just right: 35-15", func(*results) {}, cpu, passed, "20.0 µs"},
		{"CPU too much", func(r *results) { r.Throughput = pair(10_000, 15, 5000, 35.1) }, cpu, missed, "20.1 µs"},
		{"median of three pairs: 10, 20, 90", func(r *results) {
			r.Throughput = append(append(pair(1, 10, 1, 100), pair(1, 10, 1, 30)...), pair(1, 10, 1, 20)...)
		}, cpu, passed, "20.0 µs"},
		{"rate just right: 5,000/10,000", func(*results) {}, rate, passed, "0.50"},
		{"rate too low", func(r *results) { r.Throughput = pair(10_000, 15, 4900, 35) }, rate, missed, "0.49"},
		{"p50 just right: 2/1", func(*results) {}, p50, passed, "2.00×"},
		{"p50 too slow", func(r *results) { r.Latency = latencies(1, 5, 2.1, 10) }, p50, missed, "2.10×"},
		{"p99 just right: 10/5", func(*results) {}, p99, passed, "2.00×"},
		{"p99 too slow", func(r *results) { r.Latency = latencies(1, 5, 2, 15) }, p99, missed, "3.00×"},
		{"memory just right", func(*results) {}, memory, passed, "64.0 MiB"},
		{"memory too much", func(r *results) { r.Memory.RSSBytes = 65 << 20 }, memory, missed, "65.0 MiB"},
		{"decisions just right", func(*results) {}, decisions, passed, "500000/s"},
		{"decisions too slow", func(r *results) { r.Engine[0].DecisionsPerSec = 499_999 }, decisions, missed, "499999/s"},
		{"median of three: 400,000, 500,000, 900,000", func(r *results) {
			r.Engine = append(r.Engine, engineRun{Agents: 100, DecisionsPerSec: 900_000}, engineRun{Agents: 100, DecisionsPerSec: 400_000})
		}, decisions, passed, "500000/s"},
		{"growth below linear: 500,000/501", func(*results) {}, growth, passed, "998.0×"},
		{"growth linear", func(r *results) { r.Engine[1].DecisionsPerSec = 500 }, growth, missed, "1000.0×"},
		{"no throughput", func(r *results) { r.Throughput = r.Throughput[:1] }, cpu, notMeasured, ""},
		{"no latency", func(r *results) { r.Latency = nil }, p99, notMeasured, ""},
		{"no memory", func(r *results) { r.Memory = memoryResult{} }, memory, notMeasured, ""},
		{"no engine", func(r *results) { r.Engine = nil }, growth, notMeasured, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.change(&r)
			r.judge()
			if v := r.Verdicts[c.which]; v.Word != c.word || v.Result != c.result {
				t.Errorf("%s: %s %q, want %s %q", v.What, v.Word, v.Result, c.word, c.result)
			}
		})
	}
}

func TestPrintSaysWhetherAllArrived(t *testing.T) {
	const all = "Every task of every run arrived exactly once."
	for _, c := range []struct {
		fault string
		says  bool
	}{{"", true}, {"throughput: 1 lost", false}} {
		r := results{Fault: c.fault}
		r.judge()
		var out bytes.Buffer
		if err := r.print(&out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), all); got != c.says {
			t.Errorf("with the fault %q it says so: %v", c.fault, got)
		}
	}
}
