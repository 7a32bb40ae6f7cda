package main

// row is one line of the table. Measures are named "BENCHMARK UNIT".
type row struct {
	what, target string
	of, with     string // with is a benchmark beside it, in the same unit; may be empty
	how          how
}

// how the samples of a row become one figure.
type how int

const (
	middle how = iota // the median, of ratios where there is another benchmark beside it
	extra             // the median of the differences from the other
	most              // the largest sample
)

var rows = []row{
	{"tasks/s, of the relay's", "≥ 0.50", "assigning/taskbus tasks/s", "assigning/relay", middle},
	{"CPU per task, beyond the relay's", "≤ 20 µs", "assigning/taskbus cpu-µs/task", "assigning/relay", extra},
	{"tasks/s, of those without the journal", "≥ 0.75", "assigning/taskbus tasks/s", "assigning/no-journal", middle},
	{"tasks/s with reward_rate, of the relay's", "≥ 0.50",
		"assigning/reward_rate tasks/s", "assigning/relay", middle},
	{"p50 at 1000 tasks/s, of the relay's", "≤ 2.0", "latency/taskbus p50-ms", "latency/relay", middle},
	{"p99 at 1000 tasks/s, of the relay's", "≤ 2.0", "latency/taskbus p99-ms", "latency/relay", middle},
	{"p99 at 1000 tasks/s", "≤ 10 ms", "latency/taskbus p99-ms", "", middle},
	{"p99 at 1000 tasks/s without the journal", "–", "latency/no-journal p99-ms", "", middle},
	{"tasks/s with results, of a bare reader's", "≥ 0.90", "results/taskbus tasks/s", "results/bare-reader", middle},
	{"tasks/s with answers of 1 KiB, of those with results", "≥ 0.85",
		"results/answers tasks/s", "results/taskbus", middle},
	{"p50 from result to answer, of the relay's", "≤ 3.0", "results/answer-1000 p50-ms", "results/relay", middle},
	{"assign to result by 100 SDK agents", "–", "cycle/backlog tasks/s", "", middle},
	{"resident, 100 agents, 1000 in flight", "≤ 64 MiB", "memory/in-flight resident-MiB", "", most},
	{"decisions/s at 100 agents", "≥ 500000", "Apply/agents=100 decisions/s", "", middle},
	{"decisions/s, of those at 100000 agents", "≤ 1000",
		"Apply/agents=100 decisions/s", "Apply/agents=100000", middle},
	{"choice by load_balanced among 100 agents", "≤ 2000 ns", "Choose/load_balanced/agents=100 ns/op", "", middle},
	{"choice by reward_rate among 100 agents", "≤ 2000 ns", "Choose/reward_rate/agents=100 ns/op", "", middle},
	{"auction with the bids of 100 agents", "–", "Auctions/all ns/op", "", middle},
	{"task and claim while 10000 agents wait", "–", "WaitingClaims ns/op", "", middle},
	{"reserve of an LLM call over HTTP, beyond an echo", "–", "Reserve/taskbus ns/op", "Reserve/echo", extra},
	{"simulator, events/s in herding", "≥ 200000", "Play/herding/reward_rate events/s", "", middle},
	{"tasks/s with quotas, of those without", "≥ 0.90", "quotas/room tasks/s", "quotas/none", middle},
	{"the same where all wait for quota", "≥ 0.90", "quotas/all-wait tasks/s", "quotas/agents-wait", middle},
	{"check, 3 levels, 4 dimensions, 10000 tenants", "≤ 1000 ns", "Check ns/op", "", middle},
	{"start with 1000000 tasks in the journal", "≤ 3000 ms", "start/snapshot ready-ms", "", middle},
	{"50000 tasks at 150 % load, none may fail: p99", "–", "burst/overload p99-ms", "", most},
	{"the same, of critical ones", "–", "burst/overload critical-p99-ms", "", most},
}
