package main

import (
	"time"

	"taskbus/coordinator/bus"
)

var (
	plain = fleet(manySlots, skills, patient, settled)
	bare  = plain + "journal: {enabled: false}\n"
	ten   = fleet(sdkSlots, skills, patient, settled)
	// No more than half of a window may wait for the same: here all of the backlog may wait for agents, or for quota.
	wide = fleet(sdkSlots, skills, patient, "global_settings: {window: 65000, max_queue_size: 65000, "+
		"stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n")
	defaults = fleet(sdkSlots, allSkills, "", "global_settings: {assignment_timeout_seconds: 2}\n")

	// The pool's concurrency is a little less than all slots, so that tasks wait for what every result gives back; its
	// rate of requests is above all that the fleet can do, but has a small burst.
	scarce = quotasOf("    concurrency: {amount: 990}\n", "{rate: 20000, per: second, burst: 100}")

	toLight, toAnswer = []helper{light(bus.StreamResult)}, []helper{answering}
	toSDK, toSleepers = []helper{sdk(0)}, []helper{sdk(2 * time.Second)}
)

// scenarios are the measures on the broker; rows.go says what they are held against.
var scenarios = []scenario{
	{name: "assigning/relay", relay: true},
	{name: "assigning/taskbus", fleet: plain},
	{name: "assigning/no-journal", fleet: bare},
	{name: "assigning/reward_rate", fleet: plain, env: []string{"ASSIGNMENT_STRATEGY=reward_rate"}},

	{name: "latency/relay", rounds: 2, relay: true, rate: 1000, length: 30 * time.Second, until: delivered},
	{name: "latency/taskbus", rounds: 2, fleet: plain, rate: 1000, length: 30 * time.Second, until: delivered},
	{name: "latency/no-journal", rounds: 2, fleet: bare, rate: 1000, length: 30 * time.Second, until: delivered},

	// Light agents report the end of every task, to a stream that the service reads, or to one that it does not.
	{name: "results/bare-reader", fleet: plain, beside: []helper{light(bareStream)}, share: 2,
		until: reported, stream: bareStream},
	{name: "results/taskbus", fleet: plain, beside: toLight, share: 2, until: counted},
	// The same with an output of 1 KiB, and an answer to the producer of each task; then the way of the answers alone.
	{name: "results/answers", fleet: plain, beside: toAnswer, task: askingTask, share: 2, until: answered},
	{name: "results/relay", relay: true, rate: 1000, length: 10 * time.Second, until: delivered},
	{name: "results/answer-1000", fleet: plain, beside: toAnswer, task: askingTask, rate: 1000, length: 10 * time.Second,
		until: answered},

	{name: "cycle/backlog", rounds: 2, fleet: ten, beats: mute, beside: toSDK, share: 3, until: counted},

	// 100 agents with 10 slots do 500 tasks of 2 s a second; what comes is half as much again, with all the defaults
	// but for an assignment timeout that is far shorter than most tasks wait. None may fail.
	{name: "burst/overload", rounds: 1, fleet: defaults, beats: mute, beside: toSleepers, task: overloadTask,
		rate: 750, length: 200 * time.Second / 3, until: reported, class: urgency},

	{name: "quotas/none", fleet: plain, task: groupTask},
	{name: "quotas/room", fleet: plain, quotas: quotasOf("", "{rate: 900000000000, per: second}"), task: groupTask},
	// Agents of the SDK work off a backlog that is far larger than what they do at a time.
	{name: "quotas/agents-wait", rounds: 3, fleet: wide, beats: mute, beside: toSDK, task: groupTask, share: 3,
		until: counted},
	{name: "quotas/all-wait", rounds: 3, fleet: wide, quotas: scarce, beats: mute, beside: toSDK, task: groupTask,
		share: 3, until: counted},

	{name: "start/journal", rounds: 1, fleet: plain, beats: 100, beside: toLight, run: longJournal},
	{name: "memory/in-flight", rounds: 3, fleet: fleet(sdkSlots, allSkills, patient, settled), run: resident},
}
