package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
)

const day = 24 * 60 * 60 // in seconds

// maxCost bounds an agent's cost: far beyond any price, and finite.
const maxCost = 1e9

// What names may look like. The JSON Schema holds the same patterns.
var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	wordPattern = regexp.MustCompile(`^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]{0,126}[^\x00-\x20\x7f])?$`)
	// Labels are as those of messages.
	labelPattern      = regexp.MustCompile(`^[^\x00-\x1f\x7f]{1,64}$`)
	labelValuePattern = regexp.MustCompile(`^[^\x00-\x1f\x7f]{0,256}$`)
	queuePattern      = regexp.MustCompile(`^[!-~]{1,255}$`)
	// queueGlobPattern is a pattern of queues: it begins with what stands for
	// itself, so that none admits whatever there is in the virtual host.
	queueGlobPattern = regexp.MustCompile(`^[A-Za-z0-9]([!-z|~]|\{id\}){0,254}$`)
	// globPattern is a pattern of ids: those of idPattern in which * stands for
	// any characters, also none.
	globPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:*-]{0,127}$`)
)

// maxLabels is how many labels a message may have, and so an agent.
const maxLabels = 32

const (
	labelRule      = "a label's name of 1 to 64 characters, none of them a control character"
	labelValueRule = "a text of at most 256 characters, none of them a control character (true, false and null in quotes)"
	idRule         = "an id of 1 to 128 letters, digits and . _ : -, beginning with a letter or digit"
	wordRule       = "a word of 1 to 128 printable characters without a space at either end"
	queueRule      = "a queue name of 1 to 255 printable ASCII characters without spaces"
	queueGlobRule  = "a pattern of queues such as work.{id} or work.*: 1 to 255 printable characters without spaces, beginning with a letter or digit, with braces only in {id}"
	globRule       = "a pattern of ids such as worker-* (in quotes if it begins with *): 1 to 128 letters, digits and . _ : - *, beginning with a letter, digit or *"
)

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
		if isNull(p.node) {
			d.fault(p, "no agent is given; write `agents: {}` if that is meant")
			return
		}
		var all fleet
		d.entries(p, "a mapping of agent ids to agents", func(key, value place) {
			if key.node.Value == "auth" && isScalar(value.node) {
				oneOf(d, &c.Auth, AuthOff, AuthWarn, AuthStrict)(value)
				return
			}
			d.text(key, idPattern, idRule)
			id := key.node.Value
			if id == "status" || strings.HasSuffix(id, ".control") {
				d.fault(key,
					"an agent may not be called status or end in .control: its queue would be one of Taskbus's own; choose another id")
			}
			all.specs = append(all.specs, d.agent(coordinator.AgentID(id), key, value))
			all.keys, all.values = append(all.keys, key), append(all.values, value)
		})
		d.checkQueues(&all)
		d.later(func() { d.checkTimes(&all, c) })
		c.policy.Agents = all.specs
		slices.SortFunc(c.policy.Agents, func(a, b coordinator.AgentSpec) int {
			return strings.Compare(string(a.ID), string(b.ID))
		})
	}
}

// agent reads one entry.
func (d *decoder) agent(id coordinator.AgentID, key, p place) coordinator.AgentSpec {
	spec := defaultAgent(id)
	d.object(p, readers{
		"id": func(p place) {
			if given, ok := d.text(p, idPattern, idRule); ok && given != key.node.Value {
				d.fault(p, "must be the same as the key %s it stands under, not %s; correct one, or leave id out",
					clip(key.node.Value), given)
			}
		},
		"queue": func(p place) {
			if queue, ok := d.text(p, queuePattern, queueRule); ok {
				spec.Queue = queue
			}
		},
		"capabilities":           words(d, &spec.Capabilities, "capabilities", wordPattern, wordRule),
		"max_concurrent_tasks":   whole(d, &spec.MaxConcurrent, 1, 100_000),
		"priority":               whole(d, &spec.Rank, 1, 5, "(1 goes first)"),
		"health_check_interval":  d.seconds(&spec.HealthCheckInterval, 1, day),
		"timeout_seconds":        d.seconds(&spec.Timeout, 1, 7*day),
		"accept_timeout_seconds": d.seconds(&spec.AcceptTimeout, 1, day),
		"success_rate": func(p place) {
			before := len(d.faults)
			d.number(&spec.SuccessRate, 0, 1)(p)
			spec.SuccessStated = len(d.faults) == before
		},
		"cost":   d.number(&spec.Cost, 0, maxCost),
		"labels": d.labels(&spec.Labels),
		"mode":   d.mode(&spec.Pull),
	})
	if canHaveKeys(p.node) && !has(p.node, "max_concurrent_tasks") {
		d.fault(place{key.node, p.path + ".max_concurrent_tasks"},
			"is missing; say how many tasks the agent may have at once (at least 1)")
	}
	return spec
}

// mode reads how an agent comes by its tasks.
func (d *decoder) mode(into *coordinator.PullMode) reader {
	return func(p place) {
		modes := [...]coordinator.PullMode{coordinator.PullOff, coordinator.PullShared, coordinator.PullLiteral}
		var words [len(modes)]string
		for i, m := range modes {
			words[i] = m.String()
		}
		var word string
		oneOf(d, &word, words[:]...)(p)
		if i := slices.Index(words[:], word); i >= 0 {
			*into = modes[i]
		}
	}
}

// labels reads the labels of an agent; nil for none.
func (d *decoder) labels(into *map[string]string) reader {
	return func(p place) {
		labels := make(map[string]string)
		d.entries(p, "a mapping of labels to texts", func(key, value place) {
			name, nameOK := d.text(key, labelPattern, labelRule)
			text, textOK := d.text(value, labelValuePattern, labelValueRule)
			if nameOK && textOK {
				labels[name] = text
			}
		})
		if len(labels) > maxLabels {
			d.fault(p, "has %d labels; %d are the most, as in messages", len(labels), maxLabels)
		}
		if len(labels) > 0 {
			*into = labels
		}
	}
}

// words reads a list of names into a sorted list without duplicates.
func words[S ~string](d *decoder, into *[]S, what string, pattern *regexp.Regexp, rule string) reader {
	return func(p place) {
		var list []S
		d.list(p, what, func(item place) {
			if word, ok := d.text(item, pattern, rule); ok {
				list = append(list, S(word))
			}
		})
		*into = coordinator.SortedUnique(list)
	}
}

// checkQueues sees that every agent has a queue of its own.
func (d *decoder) checkQueues(all *fleet) {
	owner := make(map[string]int, len(all.specs))
	for i := range all.specs {
		queue := all.specs[i].Queue
		at := child(all.values[i], "queue", all.keys[i])
		if coordinator.ReservedQueue(queue) && has(all.values[i].node, "queue") {
			d.fault(at, "%s is one of the names Taskbus and RabbitMQ keep for themselves; choose another, e.g. agent.%s",
				echo(queue), clip(string(all.specs[i].ID)))
		}
		if first, shared := owner[queue]; shared {
			d.fault(at, "the queue %s belongs to agent %s (line %d) already; give each agent its own", echo(queue),
				clip(string(all.specs[first].ID)), all.keys[first].node.Line)
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
	stale, staleKnown := c.policy.Settings.StaleAfter, !d.faulty("global_settings.stale_agent_threshold_seconds")
	limit, limitKnown := c.maxTaskTimeout(), !d.faulty("global_settings.broker_consumer_timeout_seconds")
	if staleKnown && spec.HealthCheckInterval >= stale {
		d.fault(child(value, "health_check_interval", key),
			"%d is not below global_settings.stale_agent_threshold_seconds (%d): the agent would count as stale between two reports; lower this or raise that",
			spec.HealthCheckInterval/time.Second, stale/time.Second)
	}
	if limitKnown && spec.Timeout > limit {
		d.fault(child(value, "timeout_seconds", key),
			"%d is more than %d, global_settings.broker_consumer_timeout_seconds less 120: the broker would take the task away while the agent works; lower this, or raise consumer_timeout in the broker and that setting here",
			spec.Timeout/time.Second, limit/time.Second)
	}
}
