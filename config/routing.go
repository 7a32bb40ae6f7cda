package config

import (
	"slices"
	"strings"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// routes reads the section `task_routing`.
func (d *decoder) routes(c *Config) reader {
	return func(p place) {
		d.Entries(p, "a mapping of task types to routes", func(key, value place) {
			taskType, ok := d.Take(key, yamlconf.PlainWord)
			route := d.route(value, c)
			if ok {
				c.policy.Routes[taskType] = route
			}
		})
	}
}

func (d *decoder) route(p place, c *Config) coordinator.Route {
	var route coordinator.Route
	d.Object(p, readers{
		"required_capabilities": d.Words(&route.Required, "capabilities", yamlconf.PlainWord),
		"preferred_agents": func(p place) {
			d.List(p, "agent ids", func(item place) {
				id, ok := d.Take(item, yamlconf.ID)
				if !ok {
					return
				}
				route.Preferred = append(route.Preferred, coordinator.AgentID(id))
				d.Later(func() { d.checkAgent(item, id, c) })
			})
			route.Preferred = coordinator.SortedUnique(route.Preferred)
		},
		"strategy": func(p place) {
			route.Strategy = d.strategyName(p)
			d.Later(func() {
				if text := notEnabled(route.Strategy, c); text != "" && route.Strategy != "" {
					d.Fault(p, "%s", text)
				}
			})
		},
		"batch":            d.batch(&route.Batch),
		"max_wait_seconds": d.Seconds(&route.MaxWait, 0, 7*yamlconf.Day),
	})
	d.Later(func() { d.checkBatch(p, &route, c) })
	return route
}

// defaultBatchWait is how long the first of a batch waits for others: a tenth of a
// second is not noticed, and long for tasks that are submitted together.
const defaultBatchWait = 100 * time.Millisecond

// batch reads how tasks of one type are decided together.
func (d *decoder) batch(into *coordinator.Batch) reader {
	return func(p place) {
		if p.Null() {
			d.Fault(p, "no size is given; write e.g. {max_size: 10}, or remove the key")
			return
		}
		batch := coordinator.Batch{MaxWait: defaultBatchWait}
		d.Object(p, readers{
			"max_size":    d.Whole(&batch.MaxSize, 2, 1000),
			"max_wait_ms": d.Milliseconds(&batch.MaxWait, time.Millisecond, time.Minute),
		})
		d.Need(p, "max_size", "; say how many tasks a batch may have (at least 2)")
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
	d.Fault(p, "no agent is called %s%s", id, d.Suggest(id, func() []string {
		ids := make([]string, len(c.policy.Agents))
		for i := range c.policy.Agents {
			ids[i] = string(c.policy.Agents[i].ID)
		}
		return ids
	}))
}
