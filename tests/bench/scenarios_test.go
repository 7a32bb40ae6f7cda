package main

import (
	"time"

	"taskbus/coordinator/bus"
)

var (
	plain    = fleet(manySlots, skills, patient, settled)
	tenSlots = fleet(sdkSlots, skills, patient, settled)
	// No more than half of a window may wait for the same: here all of the backlog may wait for agents, or for quota.
	wide = fleet(sdkSlots, skills, patient, "global_settings: {window: 65000, max_queue_size: 65000, "+
		"stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n")
	defaults = fleet(sdkSlots, allSkills, "", "global_settings: {assignment_timeout_seconds: 2}\n")
	full     = fleet(sdkSlots, allSkills, patient, settled)
	bare     = plain + "journal: {enabled: false}\n"
	market   = choosers(manySlots, bidWindow, "pull")
	atOnce   = choosers(manySlots, 500*time.Millisecond, "pull")
	fewSlots = choosers(4, 500*time.Millisecond, "pull")
	pushAll  = choosers(manySlots, 500*time.Millisecond, "push")

	roomy = quotas("", "")
	// The pool's concurrency is a little less than all slots, so that tasks wait for what every result gives back; its
	// rate of requests is above all that the fleet can do, but has a small burst.
	scarce = quotas("    concurrency: {amount: 990}\n", "{rate: 20000, per: second, burst: 100}")

	toLight, toSDK = []helper{light(bus.StreamResult)}, []helper{sdk(0)}
	toSleepers     = []helper{sdk(2 * time.Second)}
	toBidders      = []helper{choosing(bid(0))}
	toChoosers     = []helper{choosing(bid(0), claim, traffic)}

	pushed = [2]int{bidders, firstClaimer}
	pulled = [2]int{firstClaimer, fleetSize}
)

// ofWindow is the window of an auctioned task of mixedTask.
func ofWindow(n int) time.Duration { return bidWindow * time.Duration(1-n%2) }

// scenarios are the measures on the broker; rows.go says what they are held against.
var scenarios = []scenario{
	{name: "assigning/relay", relay: true},
	{name: "assigning/taskbus", fleet: plain},
	{name: "assigning/no-journal", fleet: bare},
	{name: "assigning/reward_rate", fleet: plain, env: []string{"ASSIGNMENT_STRATEGY=reward_rate"}},

	{name: "latency/relay", rounds: 2, relay: true, rate: 1000, length: 30 * time.Second, until: delivered},
	{name: "latency/taskbus", rounds: 2, fleet: plain, rate: 1000, length: 30 * time.Second, until: delivered},
	{name: "latency/no-journal", rounds: 2, fleet: bare, rate: 1000, length: 30 * time.Second, until: delivered},

	// Light agents tell the end of every task, to a stream that the service reads, or to one that it does not.
	{name: "results/bare-reader", fleet: plain, beside: []helper{light(bareStream)}, share: 2,
		until: reported, stream: bareStream},
	{name: "results/taskbus", fleet: plain, beside: toLight, share: 2, until: counted},

	{name: "cycle/backlog", rounds: 2, fleet: tenSlots, beats: mute, beside: toSDK, share: 3,
		until: counted},
	{name: "cycle/steady", rounds: 2, fleet: tenSlots, beats: mute, beside: toSDK, rate: 1000, length: 5 * time.Second,
		until: reported},

	// 100 agents with 10 slots do 500 tasks of 2 s a second; what comes is half as much again, with all the defaults
	// but for an assignment timeout that is far shorter than most tasks wait. None may fail.
	{name: "burst/overload", rounds: 1, fleet: defaults, beats: mute, beside: toSleepers, task: overloadTask,
		rate: 750, length: 200 * time.Second / 3, until: reported, class: urgentOf, failing: true},

	// 26 of 50 bidders are late: fewer than the half that would be enough answer, so the window runs out.
	{name: "market/window", rounds: 1, fleet: market, beats: 100, beside: []helper{choosing(bid(26))}, task: mixedTask,
		rate: 33, length: 30 * time.Second, chance: true, until: delivered, class: pushedOf, later: ofWindow, skip: 20},
	{name: "market/early", rounds: 1, fleet: market, beats: 100, beside: toBidders, task: mixedTask,
		rate: 33, length: 30 * time.Second, chance: true, until: delivered, class: pushedOf, skip: 20},
	{name: "market/at-once", rounds: 3, fleet: atOnce, beats: 100, beside: toBidders, task: auctionedTask,
		rate: 200_000, length: time.Millisecond, until: delivered},
	{name: "market/few-slots", rounds: 1, fleet: fewSlots, beats: 100, beside: toBidders, task: auctionedTask,
		rate: 200_000, length: time.Millisecond, until: delivered},

	{name: "pull/pushed", rounds: 3, fleet: pushAll, task: claimedTask, share: 2, until: delivered, agents: pulled},
	{name: "pull/claimed", rounds: 3, fleet: atOnce, beside: []helper{choosing(claim)}, task: claimedTask, share: 2,
		until: delivered, agents: pulled},

	{name: "quotas/none", fleet: plain, task: groupTask},
	{name: "quotas/room", fleet: plain, quotas: roomy, task: groupTask},
	waitingOf("quotas/no-quotas", wide, ""),
	waitingOf("quotas/agents-short", wide, roomy),
	waitingOf("quotas/quota-short", wide, scarce),
	waitingOf("quotas/overflow", tenSlots, roomy),

	{name: "beside/nothing", rounds: 3, fleet: atOnce, share: 2, agents: pushed},
	{name: "beside/choosing", rounds: 3, fleet: atOnce, beside: toChoosers, share: 2, agents: pushed},
	{name: "beside/nothing-steady", rounds: 3, fleet: atOnce, rate: 1000, length: 3 * time.Second,
		until: delivered, agents: pushed},
	{name: "beside/choosing-steady", rounds: 3, fleet: atOnce, beside: toChoosers, rate: 1000, length: 3 * time.Second,
		until: delivered, agents: pushed},

	{name: "calls/echo", rounds: 3, run: echoes("echo", loadHTTP)},
	{name: "calls/taskbus", rounds: 3, fleet: plain, quotas: callQuotas, env: []string{callEnv}, run: reserve},
	{name: "calls/grpc-echo", rounds: 3, run: echoes("grpc-echo", loadRPC)},
	{name: "calls/grpc-taskbus", rounds: 3, fleet: plain, quotas: callQuotas, run: rateLimits},
	{name: "calls/redis", rounds: 3, run: echoes("redis", loadHTTP)},

	{name: "detection/departures", rounds: 3, run: detection},
	{name: "looks/crowd", rounds: 1, run: looks},
	{name: "standby/killed", rounds: 3, fleet: plain, beats: 100, beside: toLight, run: standby},
	{name: "start/journal", rounds: 1, fleet: plain, beats: 100, beside: toLight, run: longJournal},
	{name: "memory/in-flight", rounds: 3, fleet: full, run: resident},
}

// waitingOf has agents of the SDK work off a backlog that is far larger than what they do at a time.
func waitingOf(name, fleet, quotas string) scenario {
	return scenario{name: name, rounds: 3, fleet: fleet, quotas: quotas, beats: mute, beside: toSDK, task: groupTask,
		share: 3, until: counted}
}
