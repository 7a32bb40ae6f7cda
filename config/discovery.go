package config

import (
	"strings"
	"time"

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
		d.object(p, readers{
			"enabled":                d.boolean(&enabled),
			"agents":                 words(d, &found.Agents, "patterns of agent ids", globPattern, globRule),
			"capabilities":           words(d, &found.Capabilities, "capabilities", wordPattern, wordRule),
			"queues":                 d.queuePatterns(&found.Queues),
			"max_agents":             whole(d, &found.MaxAgents, 1, 10_000),
			"max_concurrent_tasks":   whole(d, &found.MaxConcurrent, 1, 100_000),
			"forget_after_seconds":   d.seconds(&found.ForgetAfter, 1, 31*day),
			"priority":               whole(d, &template.Rank, 1, 5, "(1 goes first)"),
			"health_check_interval":  d.seconds(&template.HealthCheckInterval, 1, day),
			"timeout_seconds":        d.seconds(&template.Timeout, 1, 7*day),
			"accept_timeout_seconds": d.seconds(&template.AcceptTimeout, 1, day),
			"cost":                   d.number(&template.Cost, 0, maxCost),
			"mode":                   d.mode(&template.Pull),
		})
		if !enabled {
			return
		}
		d.needed(p, "agents", len(found.Agents),
			`no agent could join; list which to admit, e.g. ["worker-*"], or set enabled: false`)
		d.needed(p, "capabilities", len(found.Capabilities),
			"agents that join could offer nothing; list what may be offered, or set enabled: false")
		c.policy.Discovery = &found
		d.later(func() { d.checkAgentTimes(template, p, p, c) })
	}
}

// queuePatterns reads the queues that may be announced. What could admit nothing is
// a fault: it shows that something else was meant.
func (d *decoder) queuePatterns(into *[]string) reader {
	return func(p place) {
		words(d, into, "patterns of queues", queueGlobPattern, queueGlobRule)(p)
		for _, pattern := range *into {
			switch {
			case coordinator.ReservedQueue(pattern):
				d.fault(p, "%s is one of the names Taskbus and RabbitMQ keep for themselves, and no agent can have it; remove it",
					echo(pattern))
			case strings.HasPrefix(pattern, "agent."):
				d.fault(p, "%s: the queue agent.<id> is the agent's own without being listed, and no other can have it; remove it",
					echo(pattern))
			}
		}
	}
}

// needed sees that an allow-list of the enabled section names something. A list
// with a fault of its own is left alone.
func (d *decoder) needed(p place, key string, length int, why string) {
	at := child(p, key, p)
	switch {
	case length > 0 || d.faultyBelow(at.path):
	case has(p.node, key):
		d.fault(at, "is empty while discovery is enabled: %s", why)
	default:
		d.fault(at, "is missing while discovery is enabled: %s", why)
	}
}
