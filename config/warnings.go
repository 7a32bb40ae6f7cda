package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/criteria"
)

// Warning is something that is allowed in the files and probably not meant.
type Warning = yamlconf.Warning

// Warnings are what is allowed in agents.yaml and probably not meant, in a stable order. It looks at
// every agent for every route.
func (c *Config) Warnings() []Warning {
	p := &c.policy
	var found []Warning
	add := func(fails bool) func(format string, args ...any) {
		return func(format string, args ...any) {
			found = append(found, Warning{Text: fmt.Sprintf(format, args...), Fails: fails})
		}
	}
	fails, advice := add(true), add(false)

	for _, note := range c.Notes() {
		advice("%s", note)
	}
	if len(p.Agents) == 0 && p.Discovery == nil {
		advice("no agents: every task will fail with no_eligible_agents")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Routes)) {
		route := p.Routes[name]
		if !served(p, route) && (len(p.Agents) > 0 || p.Discovery != nil) {
			fails("no agent can serve %s: none has all of %s; its tasks will fail with no_eligible_agents", name,
				strings.Join(route.Required, ", "))
		}
		for _, id := range route.Preferred {
			if i, listed := slices.BinarySearchFunc(p.Agents, id,
				func(g coordinator.AgentSpec, id coordinator.AgentID) int { return cmp.Compare(g.ID, id) }); listed {
				if lacking := criteria.Lacking(&p.Agents[i], route.Required); len(lacking) > 0 {
					fails("%s prefers %s, which lacks %s and will never get it", name, id, strings.Join(lacking, ", "))
				}
			}
		}
	}
	for i := range p.Agents {
		g := &p.Agents[i]
		// One lost heartbeat must not take an agent out of service.
		if p.Settings.StaleAfter < 2*g.HealthCheckInterval {
			fails(
				"%s reports every %.0f s but counts as offline after %.0f s of silence: one late heartbeat is enough; set "+
					"stale_agent_threshold_seconds to at least %d",
				g.ID, g.HealthCheckInterval.Seconds(), p.Settings.StaleAfter.Seconds(), 2*g.HealthCheckInterval/time.Second)
		}
		if len(p.Routes) > 0 && !useful(g, p.Routes) {
			advice("%s can serve none of the routes; it gets only tasks that bring required_capabilities of their own", g.ID)
		}
	}
	for i := range p.Strategies {
		// An auction takes at most half of the time that is left (see the engine).
		name, m, wait := p.Strategies[i].Name, p.Strategies[i].Market, p.Settings.AssignmentTimeout
		switch {
		case m == nil:
		case wait == 0:
			fails("%s will hold no auctions: with assignment_timeout_seconds: 0 no task waits for bids", name)
		case 2*m.Floor > wait:
			fails(
				"%s will hold no auctions: min_bid_window_ms is %d, more than half of the %.0f s that a task may wait "+
					"(assignment_timeout_seconds); set it to at most %d",
				name, m.Floor.Milliseconds(), wait.Seconds(), (wait / 2).Milliseconds())
		case 2*m.Ceiling > wait:
			fails(
				"%s may have to cut auctions short: bid_window_ms is %d, more than half of the %.0f s that a task may wait "+
					"(assignment_timeout_seconds); set it to at most %d",
				name, m.Ceiling.Milliseconds(), wait.Seconds(), (wait / 2).Milliseconds())
		}
	}
	if p.Discovery != nil && c.Auth != AuthStrict {
		advice(
			"discovery is enabled without agents.auth: strict: whoever may publish a status can join under any id that is " +
				"admitted, and gets tasks")
	}
	if len(p.Routes) == 0 && len(p.Agents) > 0 {
		advice("no task_routing: a task without required_capabilities will fail with unknown_task_type")
	}
	return found
}

// feasible reports whether the agent may ever have tasks of the route that ask for nothing else.
func feasible(g *coordinator.AgentSpec, route coordinator.Route) bool {
	return criteria.Check(criteria.OfRoute(&route), g) == coordinator.Eligible
}

// served reports whether an agent that is listed, or one that may join by discovery, may have tasks of the route.
func served(p *coordinator.Policy, route coordinator.Route) bool {
	return p.Discovery != nil && criteria.MayJoin(criteria.OfRoute(&route), p.Discovery) ||
		slices.ContainsFunc(p.Agents, func(g coordinator.AgentSpec) bool { return feasible(&g, route) })
}

func useful(g *coordinator.AgentSpec, routes map[string]coordinator.Route) bool {
	for _, r := range routes {
		if feasible(g, r) {
			return true
		}
	}
	return false
}

// checkServed refuses routes that no agent can serve, where global_settings.refuse_unserved asks for
// that. p is the whole file.
func (d *decoder) checkServed(p place, c *Config) {
	routing := p.Child("task_routing", p)
	if !c.RefuseUnserved || len(d.Faults) > 0 { // other faults may be why
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.policy.Routes)) {
		if route := c.policy.Routes[name]; !served(&c.policy, route) {
			d.Fault(routing.Child(name, routing),
				"no agent has all of %s, and global_settings.refuse_unserved is true; correct the capabilities here or under "+
					"agents, or list an agent that has them",
				yamlconf.Clip(strings.Join(route.Required, ", ")))
		}
	}
}
