package config

import (
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
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
		"batch":            d.batch(&route.Batch),
		"max_wait_seconds": d.seconds(&route.MaxWait, 0, 7*day),
	})
	d.later(func() { d.checkBatch(p, &route, c) })
	return route
}

// defaultBatchWait is how long the first of a batch waits for others: a tenth of a
// second is not noticed, and long for tasks that are submitted together.
const defaultBatchWait = 100 * time.Millisecond

// batch reads how tasks of one type are decided together.
func (d *decoder) batch(into *coordinator.Batch) reader {
	return func(p place) {
		if isNull(p.node) {
			d.fault(p, "no size is given; write e.g. {max_size: 10}, or remove the key")
			return
		}
		batch := coordinator.Batch{MaxWait: defaultBatchWait}
		d.object(p, readers{
			"max_size":    whole(d, &batch.MaxSize, 2, 1000),
			"max_wait_ms": d.milliseconds(&batch.MaxWait, time.Millisecond, time.Minute),
		})
		if canHaveKeys(p.node) && !has(p.node, "max_size") {
			d.fault(place{p.node, join(p.path, "max_size")}, "is missing; say how many tasks a batch may have (at least 2)")
		}
		*into = batch
	}
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
