package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// maxCost bounds an agent's cost: far beyond any price, and finite.
const maxCost = 1e9

// maxLabels is how many labels a message may have, and so an agent.
const maxLabels = 32

// fleet is the agents section while it is being read.
type fleet struct {
	specs []coordinator.AgentSpec
	// keys and values are the places of the agents, in the order of specs.
	keys, values []place
}

// agents reads the section `agents`: every entry that is a mapping is an agent;
// the one scalar allowed is `auth`.
func (d *decoder) agents(c *Config) reader {
	return func(p place) {
		if p.Null() {
			d.Fault(p, "no agent is given; write `agents: {}` if that is meant")
			return
		}
		var all fleet
		d.Entries(p, "a mapping of agent ids to agents", func(key, value place) {
			if key.Node.Value == "auth" && value.Scalar() {
				d.OneOf(&c.Auth, string(AuthOff), string(AuthWarn), string(AuthStrict))(value)
				return
			}
			d.Take(key, yamlconf.ID)
			id := key.Node.Value
			if id == "status" || strings.HasSuffix(id, ".control") {
				d.Fault(key,
					"an agent may not be called status or end in .control: its queue would be one of Taskbus's own; choose another id")
			}
			all.specs = append(all.specs, d.agent(coordinator.AgentID(id), key, value))
			all.keys, all.values = append(all.keys, key), append(all.values, value)
		})
		d.checkQueues(&all)
		d.Later(func() { d.checkTimes(&all, c) })
		c.policy.Agents = all.specs
		slices.SortFunc(c.policy.Agents, func(a, b coordinator.AgentSpec) int {
			return strings.Compare(string(a.ID), string(b.ID))
		})
	}
}

// agent reads one entry.
func (d *decoder) agent(id coordinator.AgentID, key, p place) coordinator.AgentSpec {
	spec := defaultAgent(id)
	known := d.ofAgents(&spec)
	maps.Copy(known, readers{
		"id": func(p place) {
			if given, ok := d.Take(p, yamlconf.ID); ok && given != key.Node.Value {
				d.Fault(p, "must be the same as the key %s it stands under, not %s; correct one, or leave id out",
					yamlconf.Clip(key.Node.Value), given)
			}
		},
		"queue":                d.Text(&spec.Queue, aQueue),
		"capabilities":         d.Words(&spec.Capabilities, "capabilities", yamlconf.PlainWord),
		"max_concurrent_tasks": d.Whole(&spec.MaxConcurrent, 1, 100_000),
		"success_rate": func(p place) {
			before := len(d.Faults)
			d.Number(&spec.SuccessRate, 0, 1)(p)
			spec.SuccessStated = len(d.Faults) == before
		},
		"labels": d.labels(&spec.Labels),
	})
	d.Object(p, known)
	d.NeedAt(key, p, "max_concurrent_tasks", "; say how many tasks the agent may have at once (at least 1)")
	return spec
}

// defaultAgent is the agent of an entry that gives nothing but the required keys.
func defaultAgent(id coordinator.AgentID) coordinator.AgentSpec {
	return coordinator.AgentSpec{
		ID:                  id,
		Queue:               "agent." + string(id),
		Rank:                3,
		HealthCheckInterval: 30 * time.Second,
		Timeout:             300 * time.Second,
		AcceptTimeout:       60 * time.Second,
	}
}

// ofAgents are the keys that every agent has in its entry, and all agents that join have under `discovery`.
func (d *decoder) ofAgents(spec *coordinator.AgentSpec) readers {
	return readers{
		"priority":               d.Whole(&spec.Rank, 1, 5, "(1 goes first)"),
		"health_check_interval":  d.Seconds(&spec.HealthCheckInterval, 1, yamlconf.Day),
		"timeout_seconds":        d.Seconds(&spec.Timeout, 1, 7*yamlconf.Day),
		"accept_timeout_seconds": d.Seconds(&spec.AcceptTimeout, 1, yamlconf.Day),
		"cost":                   d.Number(&spec.Cost, 0, maxCost),
		"mode":                   d.OneOf(&spec.Pull, modes...),
	}
}

// modes are how an agent comes by its tasks, by coordinator.PullMode.
var modes = []string{coordinator.PullOff.String(), coordinator.PullShared.String(), coordinator.PullLiteral.String()}

// labels reads the labels of an agent; nil for none.
func (d *decoder) labels(into *map[string]string) reader {
	return func(p place) {
		labels := make(map[string]string)
		d.Entries(p, "a mapping of labels to texts", func(key, value place) {
			name, nameOK := d.Take(key, aLabel)
			text, textOK := d.Take(value, aLabelValue)
			if nameOK && textOK {
				labels[name] = text
			}
		})
		if len(labels) > maxLabels {
			d.Fault(p, "has %d labels; %d are the most, as in messages", len(labels), maxLabels)
		}
		if len(labels) > 0 {
			*into = labels
		}
	}
}

// checkQueues sees that every agent has a queue of its own.
func (d *decoder) checkQueues(all *fleet) {
	owner := make(map[string]int, len(all.specs))
	for i := range all.specs {
		queue := all.specs[i].Queue
		at := all.values[i].Child("queue", all.keys[i])
		if coordinator.ReservedQueue(queue) && all.values[i].Has("queue") {
			d.Fault(at, "%s is one of the names Taskbus and RabbitMQ keep for themselves; choose another, e.g. agent.%s",
				yamlconf.Echo(queue), yamlconf.Clip(string(all.specs[i].ID)))
		}
		if first, shared := owner[queue]; shared {
			d.Fault(at, "the queue %s belongs to agent %s (line %d) already; give each agent its own", yamlconf.Echo(queue),
				yamlconf.Clip(string(all.specs[first].ID)), all.keys[first].Node.Line)
			continue
		}
		owner[queue] = i
	}
}

// checkTimes holds the agents' intervals against the global settings.
func (d *decoder) checkTimes(all *fleet, c *Config) {
	for i := range all.specs {
		d.checkAgentTimes(&all.specs[i], all.values[i], all.keys[i], c)
	}
}

// checkAgentTimes holds the intervals of one agent, written at value or at key,
// against the global settings. A setting that is itself at fault is not held
// against any agent.
func (d *decoder) checkAgentTimes(spec *coordinator.AgentSpec, value, key place, c *Config) {
	stale, staleKnown := c.policy.Settings.StaleAfter, !d.Faulty("global_settings.stale_agent_threshold_seconds")
	limit, limitKnown := c.maxTaskTimeout(), !d.Faulty("global_settings.broker_consumer_timeout_seconds")
	if staleKnown && spec.HealthCheckInterval >= stale {
		d.Fault(value.Child("health_check_interval", key),
			"%d is not below global_settings.stale_agent_threshold_seconds (%d): the agent would count as stale between two "+
				"reports; lower this or raise that",
			spec.HealthCheckInterval/time.Second, stale/time.Second)
	}
	if limitKnown && spec.Timeout > limit {
		d.Fault(value.Child("timeout_seconds", key),
			"%d is more than %d, global_settings.broker_consumer_timeout_seconds less 120: the broker would take the task "+
				"away while the agent works; lower this, or raise consumer_timeout in the broker and that setting here",
			spec.Timeout/time.Second, limit/time.Second)
	}
}
