package main

// how the samples of a row become one figure.
type how int

const (
	middle    how = iota // the median, of ratios where there is another benchmark beside it
	extra                // the median of the differences from the other
	most                 // the largest sample
	least                // the smallest
	allocFree            // the median, of what must not allocate
)

// row is one line of the table. Measures are named "BENCHMARK UNIT".
type row struct {
	what, target string
	of, with     string // with is compared with, in the same unit unless it names its own; may be empty
	how          how
	notes        string // other units of both benchmarks, to be shown beside the result
}

var rows = []row{
	{"CPU per task, beyond the relay's", "≤ 20 µs", "assigning/taskbus cpu-µs/task", "assigning/relay", extra, ""},
	{"throughput, of the relay's", "≥ 0.50", "assigning/taskbus tasks/s", "assigning/relay", middle, ""},
	{"p50 at 1000 tasks/s, of the relay's", "≤ 2.0", "latency/taskbus p50-ms", "latency/relay", middle, "max-ms"},
	{"p99 at 1000 tasks/s, of the relay's", "≤ 2.0", "latency/taskbus p99-ms", "latency/relay", middle, ""},
	{"resident, 100 agents, 1000 in flight", "≤ 64 MiB",
		"memory/in-flight resident-MiB", "", most, "with-as-many-waiting-MiB"},
	{"engine, decisions at 100 agents", "≥ 500000", "Apply/agents=100 decisions/s", "", middle, "ns/op B/op allocs/op"},
	{"engine, time from 100 to 100000 agents", "≤ 1000",
		"Apply/agents=100 decisions/s", "Apply/agents=100000", middle, ""},
	{"throughput, of the relay's with reward_rate", "≥ 0.50",
		"assigning/reward_rate tasks/s", "assigning/relay", middle, ""},
	{"CPU per task, beyond the relay's with reward_rate", "≤ 20 µs",
		"assigning/reward_rate cpu-µs/task", "assigning/relay", extra, ""},
	{"choice by load_balanced among 100 agents", "≤ 2000 ns",
		"Choose/load_balanced/agents=100 ns/op", "", allocFree, ""},
	{"choice by load_balanced among 10000 agents", "≤ 10000 ns",
		"Choose/load_balanced/agents=10000 ns/op", "", allocFree, ""},
	{"choice by reward_rate among 100 agents", "≤ 2000 ns", "Choose/reward_rate/agents=100 ns/op", "", allocFree, ""},
	{"choice by reward_rate among 10000 agents", "≤ 10000 ns",
		"Choose/reward_rate/agents=10000 ns/op", "", allocFree, ""},
	{"simulator, events/s in herding", "≥ 200000", "Play/herding/reward_rate events/s", "", middle, ""},
	{"simulator, events/s in ten-thousand", "≥ 200000", "Play/ten-thousand/reward_rate events/s", "", middle, ""},
	{"rate with results, of a bare reader's", "≥ 0.90",
		"results/taskbus tasks/s", "results/bare-reader", middle, "cpu-µs/task"},
	{"whole cycle, 100 SDK agents", "–", "cycle/backlog tasks/s", "", middle, "cpu-µs/task"},
	{"assign to result at 1000 tasks/s", "–", "cycle/steady p50-ms", "", middle, "p99-ms max-ms"},
	{"silent: threshold to waiting tasks redone", "≤ 5000 ms", "detection/departures silent-ms", "", most, ""},
	{"says offline: to waiting tasks redone", "≤ 500 ms", "detection/departures offline-ms", "", most, ""},
	{"killed, its consumer gone: until noticed", "≤ 2000 ms", "detection/departures noticed-ms", "", most, "killed-ms"},
	{"CPU at 1000 agents, idle", "≤ 2 % of a core", "looks/crowd idle-%", "", most, ""},
	{"CPU at 1000 agents, a task each", "≤ 2 % of a core", "looks/crowd busy-%", "", most, ""},
	{"50000 tasks at 150 % load, failed", "0", "burst/overload failed", "", most,
		"seconds p50-ms p99-ms critical-p50-ms critical-p99-ms moved/task cpu-µs/task peak-MiB"},
	{"auction of 50 bidders, p99 beyond its window", "≤ 5 ms", "market/window p99-ms", "", middle,
		"p50-ms max-ms pushed-p50-ms pushed-p99-ms awarded"},
	{"auction that all answer at once", "–", "market/early p50-ms", "", middle, "p99-ms max-ms awarded"},
	{"200 auctions at once, awarded", "≥ 200", "market/at-once awarded", "", least, "seconds bids cpu-µs/task"},
	{"the same, 4 slots of each bidder", "≥ 200", "market/few-slots awarded", "", least, "seconds bids cpu-µs/task"},
	{"granted to 10 agents that claim 50 at most", "≥ 5000", "pull/claimed tasks/s", "", middle, "cpu-µs/task"},
	{"the same, of those pushed", "–", "pull/claimed tasks/s", "pull/pushed", middle, "cpu-µs/task"},
	{"pushing beside 5 auctions and 100 claimed tasks/s", "≥ 0.90",
		"beside/choosing tasks/s", "beside/nothing", middle, ""},
	{"the same, p50 at 1000 tasks/s", "–", "beside/choosing-steady p50-ms", "beside/nothing-steady", middle, "p99-ms"},
	{"throughput with quotas, of that without", "≥ 0.90", "quotas/room tasks/s", "quotas/none", middle, "cpu-µs/task"},
	{"the same where tasks wait for agents", "≥ 0.90",
		"quotas/agents-short tasks/s", "quotas/no-quotas", middle, ofWaiting},
	{"the same where tasks wait for quota", "≥ 0.90",
		"quotas/quota-short tasks/s", "quotas/no-quotas", middle, ofWaiting},
	{"the same where they overflow the window", "–", "quotas/overflow tasks/s", "quotas/no-quotas", middle, ofWaiting},
	ofEngine("nobody waits", "room"), ofEngine("all wait for a rate", "rate"), ofEngine("all wait for seats", "seats"),
	{"check, 3 levels, 4 dimensions, 10000 tenants", "≤ 1000 ns", "Check ns/op", "", allocFree, ""},
	{"throughput, of its own without the journal", "≥ 0.75",
		"assigning/taskbus tasks/s", "assigning/no-journal", middle, ""},
	{"throughput, of the relay's without the journal", "≥ 0.60",
		"assigning/no-journal tasks/s", "assigning/relay", middle, ""},
	{"CPU per task, beyond the relay's without the journal", "≤ 20 µs",
		"assigning/no-journal cpu-µs/task", "assigning/relay", extra, ""},
	{"p99 at 1000 tasks/s", "≤ 10 ms", "latency/taskbus p99-ms", "", middle, "p50-ms"},
	{"the same without the journal", "–", "latency/no-journal p99-ms", "", middle, "p50-ms"},
	{"standby, CPU at 1000 tasks/s", "≤ 5 % of a core", "standby/killed standby-%", "", most, "leader-%"},
	{"standby, behind the leader", "–", "standby/killed behind-records", "", middle, "records/s"},
	{"leader killed under load: until the next leads", "≤ 2000 ms", "standby/killed takeover-ms", "", most, "pause-ms"},
	{"tasks lost in these take-overs", "0", "standby/killed lost", "", most, "tasks twice"},
	{"start with 1000000 tasks in the journal", "≤ 3000 ms", "start/snapshot ready-ms", "", middle, "peak-MiB records"},
	{"the same without a snapshot", "–", "start/whole ready-ms", "", middle, "peak-MiB"},
	{"dedupe window, an id", "≤ 64 B", "DedupeWindow most-B/id", "", middle, "B/id-of-20000 B/id-of-1000000"},
	{"reserve over HTTP, 64 connections: rate, of an echo's", "≥ 0.6",
		"calls/taskbus calls/s", "calls/echo", middle, ""},
	{"the same: p99, of an echo's", "≤ 2", "calls/taskbus p99-ms", "calls/echo", middle, ""},
	{"the same: rate, of a token bucket's in Redis", "–", "calls/taskbus calls/s", "calls/redis", middle, "p99-ms"},
	{"ShouldRateLimit over gRPC: rate, of an echo's", "≥ 0.6",
		"calls/grpc-taskbus calls/s", "calls/grpc-echo", middle, ""},
}

const ofWaiting = "refused/task moved/task cpu-µs/task journal-B/task"

// ofEngine is what a task takes more of the engine alone.
func ofEngine(what, mode string) row {
	name := "Quotas/" + mode + "/groups=1000 "
	what = "engine, 1000 groups, " + what + ", beyond no quotas"
	return row{what, "–", name + "quota-ns/task", name + "plain-ns/task", extra,
		"quota-allocs/task plain-allocs/task quota-journal-B/task plain-journal-B/task"}
}
