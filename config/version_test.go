package config

import "testing"

func TestVersionFollowsTheContentAlone(t *testing.T) {
	const base = "agents:\n  a: {max_concurrent_tasks: 1}\n  b: {max_concurrent_tasks: 2}\n"
	version := mustParse(t, base).Policy().Version
	if len(version) != 12 {
		t.Errorf("version %q has %d digits, want 12", version, len(version))
	}
	same := map[string]string{
		"comments":         "# fleet\n" + base,
		"order":            "agents:\n  b: {max_concurrent_tasks: 2}\n  a: {max_concurrent_tasks: 1}\n",
		"spelt-out values": base + "topology: declare\nglobal_settings: {max_load: 0.90, eligible_statuses: [ready]}\n",
		"discovery off":    base + "discovery: {agents: [worker-*], capabilities: [gpu], max_agents: 7}\n",
		"default weights": base +
			"assignment_strategies: {capability_match: , least_loaded: , load_balanced: , market: {invite: sample}, " +
			"priority_based: , reward_rate: {exploration: 0.05}, round_robin: , weighted: {weights: {free: 1.0}}}\n",
		"default learning": base +
			"learning: {prior: 0.9, half_life_hours: 24}\ncircuit_breaker: {enabled: true, consecutive_faults: 5}\n",
		"repeated words": "agents:\n  a: {max_concurrent_tasks: 1, capabilities: []}\n  b: {max_concurrent_tasks: 2}\n",
	}
	for name, text := range same {
		if got := mustParse(t, text).Policy().Version; got != version {
			t.Errorf("%s: version %s, want %s as before", name, got, version)
		}
	}
	versions := map[string]string{version: "base"}
	for _, change := range []string{
		"topology: off\n", "queues: classic\n", "http: {bind: 0.0.0.0}\n", "events: {task_dispatched: true}\n",
		"dedupe: {max_ids: 5}\n", "global_settings: {window: 5}\n", "global_settings: {seed: 5}\n",
		"task_routing: {t: }\n", "task_routing: {u: }\n", "assignment_strategies: {capability_match: }\n",
		"assignment_strategies: {round_robin: {default: true}}\n",
		"global_settings: {poisoned_after_agents: 5}\n",
		"global_settings: {suspect_after_intervals: 3}\n", "global_settings: {dead_after_intervals: 9}\n",
		"global_settings: {refuse_backlogged: true}\n", "global_settings: {slow_start_seconds: 9}\n",
		"global_settings: {explain_dispatches: false}\n",
		"learning: {prior: 0.8}\n", "learning: {half_life_hours: 12}\n", "circuit_breaker: {enabled: false}\n",
		"circuit_breaker: {base_seconds: 10}\n",
		"task_routing: {t: {batch: {max_size: 2}}}\n", "task_routing: {t: {batch: {max_size: 2, max_wait_ms: 1}}}\n",
		"assignment_strategies: {capability_match: , weighted: }\n",
		"assignment_strategies: {capability_match: , weighted: {weights: {free: 2}}}\n",
		"assignment_strategies: {capability_match: , weighted: {session_label: user}}\n",
		"assignment_strategies: {capability_match: , weighted: {affinity_label: user}}\n",
		"assignment_strategies: {capability_match: , reward_rate: {exploration: 0}}\n",
		"assignment_strategies: {capability_match: , reward_rate: }\n",
		"assignment_strategies: {capability_match: , expression: {formula: load}}\n",
		"assignment_strategies: {capability_match: , expression: {formula: -load}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: first_match}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: capability_match}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: first_match, invite: all}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: first_match, fitness: reported}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: first_match, bid_window_ms: 100}}\n",
		"assignment_strategies: {capability_match: , market: {fallback: first_match, min_bid_window_ms: 200}}\n",
		"discovery: {enabled: true, agents: [a*], capabilities: [a]}\n",
		"discovery: {enabled: true, agents: [b*], capabilities: [a]}\n",
		"discovery: {enabled: true, agents: [a*], capabilities: [b]}\n",
		"discovery: {enabled: true, agents: [a*], capabilities: [a], priority: 1}\n",
		"discovery: {enabled: true, agents: [a*], capabilities: [a], cost: 2}\n",
		"discovery: {enabled: true, agents: [a*], capabilities: [a], mode: pull}\n",
		"task_routing: {t: {required_capabilities: [a, b]}}\n", "task_routing: {t: {required_capabilities: [a b]}}\n",
	} {
		got := mustParse(t, base+change).Policy().Version
		if other, taken := versions[got]; taken {
			t.Errorf("%q has the version of %q", change, other)
		}
		versions[got] = change
		if again := mustParse(t, base+change).Policy().Version; again != got {
			t.Errorf("%q has the versions %s and %s", change, got, again)
		}
	}
}

func TestVersionFollowsTheAgents(t *testing.T) {
	versions := make(map[string]string)
	for _, more := range []string{
		"", "success_rate: 0", "success_rate: 0.5", "cost: 0.5", "labels: {zone: a}", "labels: {zone: b}",
		"labels: {rack: a}", "labels: {zone: a, rack: a}",
		"mode: pull", "mode: literal",
	} {
		version := mustParse(t, "agents: {a: {max_concurrent_tasks: 1, "+more+"}}\n").Policy().Version
		if other, taken := versions[version]; taken {
			t.Errorf("%q has the version of %q", more, other)
		}
		versions[version] = more
	}
}
