package config

import (
	"maps"
	"strings"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// defaultDiscovery is a discovery section that only says which agents it admits.
func defaultDiscovery() coordinator.Discovery {
	template := defaultAgent("")
	template.Queue = "" // an agent that joins announces its own
	return coordinator.Discovery{
		MaxAgents: 1000, MaxConcurrent: 16, ForgetAfter: time.Hour,
		Template: template,
	}
}

// discovery reads the section `discovery`. While it is not enabled it admits
// no agent, whatever else it says.
func (d *decoder) discovery(c *Config) reader {
	return func(p place) {
		found, enabled := defaultDiscovery(), false
		template := &found.Template
		known := d.ofAgents(template)
		maps.Copy(known, readers{
			"enabled":              d.Bool(&enabled),
			"agents":               d.Words(&found.Agents, "patterns of agent ids", aGlob),
			"capabilities":         d.Words(&found.Capabilities, "capabilities", yamlconf.PlainWord),
			"queues":               d.queuePatterns(&found.Queues),
			"max_agents":           d.Whole(&found.MaxAgents, 1, 10_000),
			"max_concurrent_tasks": d.Whole(&found.MaxConcurrent, 1, 100_000),
			"forget_after_seconds": d.Seconds(&found.ForgetAfter, 1, 31*yamlconf.Day),
		})
		d.Object(p, known)
		if !enabled {
			return
		}
		d.needed(p, "agents", len(found.Agents),
			`no agent could join; list which to admit, e.g. ["worker-*"], or set enabled: false`)
		d.needed(p, "capabilities", len(found.Capabilities),
			"agents that join could offer nothing; list what may be offered, or set enabled: false")
		c.policy.Discovery = &found
		d.Later(func() { d.checkAgentTimes(template, p, p, c) })
	}
}

// queuePatterns reads the queues that may be announced. What could admit nothing is
// a fault: it shows that something else was meant.
func (d *decoder) queuePatterns(into *[]string) reader {
	return func(p place) {
		d.Words(into, "patterns of queues", aQueueGlob)(p)
		for _, pattern := range *into {
			switch {
			case coordinator.ReservedQueue(pattern):
				d.Fault(p, "%s is one of the names Taskbus and RabbitMQ keep for themselves, and no agent can have it; remove it",
					yamlconf.Echo(pattern))
			case strings.HasPrefix(pattern, "agent."):
				d.Fault(p, "%s: the queue agent.<id> is the agent's own without being listed, and no other can have it; remove it",
					yamlconf.Echo(pattern))
			}
		}
	}
}

// needed sees that an allow-list of the enabled section names something. A list
// with a fault of its own is left alone.
func (d *decoder) needed(p place, key string, length int, why string) {
	at := p.Child(key, p)
	switch {
	case length > 0 || d.FaultyBelow(at.Path):
	case p.Has(key):
		d.Fault(at, "is empty while discovery is enabled: %s", why)
	default:
		d.Fault(at, "is missing while discovery is enabled: %s", why)
	}
}
