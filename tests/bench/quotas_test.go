package main

import (
	"strings"
	"testing"
)

func TestJudgeQuotas(t *testing.T) {
	room := func(without, with float64) []throughputRun {
		return []throughputRun{{Subject: withoutQuotas, TasksPerSec: without}, {Subject: withQuotas, TasksPerSec: with}}
	}
	waiting := func(subject string, rate, refused float64) quotaWaitRun {
		return quotaWaitRun{Subject: subject, Refused: refused, cycleRun: cycleRun{TasksPerSec: rate}}
	}
	engine := func(mode string, quota, plain float64) engineRun {
		return engineRun{Name: "BenchmarkQuotas/" + mode + "/groups=1000-2", More: map[string]float64{
			"quota-ns/task": quota, "plain-ns/task": plain, "quota-journal-B/task": 260, "plain-journal-B/task": 180}}
	}
	check := func(nanos, allocs float64) engineRun {
		return engineRun{Name: "BenchmarkCheck-2", NanosPerOp: nanos, DecisionsPerSec: 1e9 / nanos, AllocsPerOp: allocs}
	}
	const inRoom, forAgents, inWaiting, overflowing, ofEngine, oneCheck = 0, 1, 2, 3, 5, 7
	for _, c := range []struct {
		name         string
		results      results
		which        int
		word, result string
		note         string
	}{
		{"just right: 9,000 of 10,000", results{Quotas: room(10_000, 9000)}, inRoom, passed, "0.90", "9000 and 10000 tasks/s"},
		{"too slow", results{Quotas: room(10_000, 8900)}, inRoom, missed, "0.89", ""},
		{"not measured", results{}, inRoom, notMeasured, "", ""},
		{"waiting: 0.92 and, the other first, 0.96", results{QuotasWaiting: []quotaWaitRun{
			waiting(withoutQuotas, 5000, 0), waiting(scarceQuota, 4600, 0.8), waiting(scarceQuota, 4800, 0.6), waiting(withoutQuotas, 5000, 0),
		}}, inWaiting, passed, "0.94", "each refused 0.70 times"},
		{"waiting for agents: 0.8", results{QuotasWaiting: []quotaWaitRun{
			waiting(withoutQuotas, 5000, 0), waiting(withQuotas, 4000, 0), waiting(scarceQuota, 5000, 1),
		}}, forAgents, missed, "0.80", "4000 and 5000 tasks/s"},
		{"a small window: no target", results{QuotasWaiting: []quotaWaitRun{waiting(withoutQuotas, 5000, 0), waiting(smallWindow, 1000, 0)}},
			overflowing, "", "0.20", "1000 and 5000 tasks/s"},
		{"waiting, not measured", results{}, inWaiting, notMeasured, "", ""},
		{"engine: medians of 12 and 9 µs", results{QuotasEngine: []engineRun{engine("rate", 11_000, 8000), engine("rate", 12_000, 9000), engine("rate", 90_000, 10_000)}},
			ofEngine, "", "3.0 µs more", "1000: 12.0 and 9.0 µs, 0 and 0 allocations, journal 260 and 180 bytes"},
		{"engine, another part", results{QuotasEngine: []engineRun{engine("seats", 1, 1)}}, ofEngine, notMeasured, "", ""},
		{"check, just right: the median of 300, 1,000 and 9,000 ns", results{QuotasCheck: []engineRun{check(9000, 0), check(300, 0), check(1000, 0)}},
			oneCheck, passed, "1.00 µs", "0 allocations"},
		{"check, too slow", results{QuotasCheck: []engineRun{check(1001, 0)}}, oneCheck, missed, "1.00 µs", ""},
		{"check, fast, but it allocates", results{QuotasCheck: []engineRun{check(300, 1)}}, oneCheck, missed, "0.30 µs", "1 allocations"},
		{"check, another benchmark", results{QuotasCheck: []engineRun{{Name: "BenchmarkCheckAll-2", NanosPerOp: 1}}}, oneCheck, notMeasured, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.results.judgeAllQuotas()[c.which]
			if v.Word != c.word || v.Result != c.result || !strings.Contains(v.Note, c.note) {
				t.Errorf("%s: %s %q (%s), want %s %q (%s)", v.What, v.Word, v.Result, v.Note, c.word, c.result, c.note)
			}
		})
	}
}

// The pool is short of what is waited for, and of nothing else.
func TestScarceQuotas(t *testing.T) {
	text := string(scarceQuotas())
	for _, want := range []string{
		"    concurrency: {amount: 990}\n", // 100 agents with 10 slots, all but 10
		"    requests: [{amount: 900000000000000, per: month}, {rate: 20000, per: second, burst: 100}]\n",
		"    input_tokens: [{amount: 900000000000000, per: month}, {rate: 900000000000, per: second}]\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, text)
		}
	}
}

func TestSumOfAMetric(t *testing.T) {
	all := map[string]float64{`a_total{limit="rate"}`: 3, `a_total{limit="seats"}`: 10, "a_total_more": 100, "b": 7}
	if sum := sumOf(all, "a_total"); sum != 13 {
		t.Errorf("%v, want 3 + 10", sum)
	}
}
