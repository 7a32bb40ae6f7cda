package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// warnings are what is allowed in agents.yaml and probably not meant. routes are
// those of the configuration.
func warnings(cfg *config.Config, routes []checkedRoute) []string {
	p := cfg.Policy()
	var found []string
	warn := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	for _, note := range cfg.Notes() {
		warn("%s", note)
	}
	if len(p.Agents) == 0 && p.Discovery == nil {
		warn("no agents: every task will fail with no_eligible_agents")
	}
	for _, r := range routes {
		if r.Agents == 0 && (len(p.Agents) > 0 || p.Discovery != nil) && !joinable(p.Discovery, r.Requires) {
			warn("nobody can serve %s: no agent has all of %s; its tasks will fail with no_eligible_agents", r.Type, strings.Join(r.Requires, ", "))
		}
		for _, id := range r.Preferred {
			if g := agent(p, id); g != nil {
				if lacking := missing(g, r.Requires); len(lacking) > 0 {
					warn("%s prefers %s, which lacks %s and will never get it", r.Type, id, strings.Join(lacking, ", "))
				}
			}
		}
	}
	for i := range p.Agents {
		g := &p.Agents[i]
		// One lost heartbeat must not take an agent out of service.
		if p.Settings.StaleAfter < 2*g.HealthCheckInterval {
			warn("%s reports every %.0f s but counts as offline after %.0f s of silence: one late heartbeat is enough; set stale_agent_threshold_seconds to at least %d",
				g.ID, g.HealthCheckInterval.Seconds(), p.Settings.StaleAfter.Seconds(), 2*g.HealthCheckInterval/time.Second)
		}
		if len(routes) > 0 && !useful(g, routes) {
			warn("%s can serve none of the routes; it gets only tasks that bring required_capabilities of their own", g.ID)
		}
	}
	if s := p.Settings; s.AssignmentTimeout > 0 && 3*s.PriorityAgeing > s.AssignmentTimeout {
		warn("a low task gives way to critical ones for %.0f s (3 × priority_ageing_seconds) but fails after %.0f s: set priority_ageing_seconds to at most a third of assignment_timeout_seconds",
			3*s.PriorityAgeing.Seconds(), s.AssignmentTimeout.Seconds())
	}
	for i := range p.Strategies {
		// An auction takes at most half of the time that is left (see the engine).
		name, m, wait := p.Strategies[i].Name, p.Strategies[i].Market, p.Settings.AssignmentTimeout
		switch {
		case m == nil:
		case wait == 0:
			warn("%s will hold no auctions: with assignment_timeout_seconds: 0 no task waits for bids", name)
		case 2*m.Floor > wait:
			warn("%s will hold no auctions: min_bid_window_ms is %d, more than half of the %.0f s that a task may wait (assignment_timeout_seconds); set it to at most %d",
				name, m.Floor.Milliseconds(), wait.Seconds(), (wait / 2).Milliseconds())
		case 2*m.Ceiling > wait:
			warn("%s may have to cut auctions short: bid_window_ms is %d, more than half of the %.0f s that a task may wait (assignment_timeout_seconds); set it to at most %d",
				name, m.Ceiling.Milliseconds(), wait.Seconds(), (wait / 2).Milliseconds())
		}
	}
	if p.Discovery != nil && cfg.Auth != config.AuthStrict {
		warn("discovery is enabled without agents.auth: strict: whoever may publish a status can join under any id that is admitted, and gets tasks")
	}
	if len(p.Routes) == 0 && len(p.Agents) > 0 {
		warn("no task_routing: a task without required_capabilities will fail with unknown_task_type")
	}
	return found
}

// joinable reports whether an agent that joins by discovery may have all of the
// capabilities.
func joinable(g *coordinator.Discovery, required []string) bool {
	return g != nil && len(missing(&coordinator.AgentSpec{Capabilities: g.Capabilities}, required)) == 0
}

func agent(p *coordinator.Policy, id coordinator.AgentID) *coordinator.AgentSpec {
	for i := range p.Agents {
		if p.Agents[i].ID == id {
			return &p.Agents[i]
		}
	}
	return nil
}

func useful(g *coordinator.AgentSpec, routes []checkedRoute) bool {
	return slices.ContainsFunc(routes, func(r checkedRoute) bool { return len(missing(g, r.Requires)) == 0 })
}
