package config

import (
	"slices"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// routes reads the section `task_routing`.
func (d *decoder) routes(c *Config) reader {
	return func(p place) {
		d.entries(p, "a mapping of task types to routes", func(key, value place) {
			taskType, ok := d.text(key, wordPattern, wordRule)
			route := d.route(value, c)
			if ok {
				c.policy.Routes[taskType] = route
			}
		})
	}
}

func (d *decoder) route(p place, c *Config) coordinator.Route {
	var route coordinator.Route
	d.object(p, readers{
		"required_capabilities": words(d, &route.Required, "capabilities", wordPattern, wordRule),
		"preferred_agents": func(p place) {
			d.list(p, "agent ids", func(item place) {
				id, ok := d.text(item, idPattern, idRule)
				if !ok {
					return
				}
				route.Preferred = append(route.Preferred, coordinator.AgentID(id))
				d.later(func() { d.checkAgent(item, id, c) })
			})
			route.Preferred = coordinator.SortedUnique(route.Preferred)
		},
		"strategy": func(p place) {
			name, ok := d.strategyName(p)
			if !ok {
				return
			}
			route.Strategy = name
			d.later(func() {
				if text := notEnabled(name, c); text != "" {
					d.fault(p, "%s", text)
				}
			})
		},
	})
	return route
}

// checkAgent sees that a preferred agent is one of the fleet.
func (d *decoder) checkAgent(p place, id string, c *Config) {
	_, known := slices.BinarySearchFunc(c.policy.Agents, id, func(a coordinator.AgentSpec, id string) int {
		return strings.Compare(string(a.ID), id)
	})
	if known {
		return
	}
	d.fault(p, "no agent is called %s%s", id, d.suggest(id, func() []string {
		ids := make([]string, len(c.policy.Agents))
		for i := range c.policy.Agents {
			ids[i] = string(c.policy.Agents[i].ID)
		}
		return ids
	}))
}

// strategyName reads the name of a strategy that exists, enabled or not.
func (d *decoder) strategyName(p place) (string, bool) {
	name := p.node.Value
	if !strategy.Known(name) || !isScalar(p.node) {
		d.fault(p, "no strategy is called %s%s", found(p.node), d.suggest(name, strategy.Names))
		return "", false
	}
	return name, true
}

// notEnabled says why a known strategy may not be chosen; empty if it may.
func notEnabled(name string, c *Config) string {
	if _, enabled := c.policy.Find(name); enabled {
		return ""
	}
	return "the strategy " + name + " is not enabled; list it under assignment_strategies with enabled: true, or choose another"
}

// strategies reads the section `assignment_strategies`. Without it every
// strategy is enabled; with it only those listed and not switched off.
func (d *decoder) strategies(c *Config) reader {
	return func(p place) {
		if isNull(p.node) {
			return
		}
		before := len(d.faults)
		var enabled []string
		var marked string
		d.entries(p, "a mapping of strategy names to settings", func(key, value place) {
			name, known := d.strategyName(key)
			on, isDefault := true, false
			d.object(value, readers{"enabled": d.boolean(&on), "default": d.boolean(&isDefault)})
			switch {
			case !known:
				return
			case isDefault && !on:
				d.fault(child(value, "default", key), "a strategy that is not enabled cannot be the default; enable it or mark another")
			case isDefault && marked != "":
				d.fault(child(value, "default", key), "%s is marked as the default already; only one strategy can be", marked)
			}
			if isDefault && marked == "" {
				marked = name
			}
			if on {
				enabled = append(enabled, name)
			}
		})
		if len(d.faults) > before {
			// What is wrong here must not make the routes look wrong too.
			return
		}
		c.policy.Strategies = nil
		for _, name := range coordinator.SortedUnique(slices.Clone(enabled)) {
			s, err := strategy.Build(name, strategy.Defaults())
			if err != nil {
				d.fault(p, "%s", err)
				return
			}
			c.policy.Strategies = append(c.policy.Strategies, s)
		}
		switch {
		case len(enabled) == 0:
			d.fault(p, "no strategy is enabled; enable at least one of %s, or remove the section to enable all", strings.Join(strategy.Names(), ", "))
		case marked != "":
			c.policy.Strategy = marked
		case !slices.Contains(enabled, strategy.Default):
			d.fault(p, "no strategy is marked as the default, and %s, which would be it, is not enabled; add default: true to one", strategy.Default)
		}
	}
}
