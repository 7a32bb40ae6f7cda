package coordinator

import (
	"maps"
	"slices"
	"strings"
)

// Admit makes a place in the fleet of what an agent announces in its status;
// false when the rules do not admit it. An announcement names at least one
// capability; without a queue it means agent.<id>, and without a number of slots
// what it says it runs and could run besides. Its labels are taken as they are: they
// admit it to nothing.
func (d *Discovery) Admit(r *AgentReport) (AgentSpec, bool) {
	spec := d.Template
	spec.ID = r.Agent
	spec.Queue = r.Queue
	if spec.Queue == "" {
		spec.Queue = "agent." + string(r.Agent)
	}
	spec.Capabilities = SortedUnique(slices.Clone(r.Capabilities))
	if len(r.Labels) > 0 {
		spec.Labels = maps.Clone(r.Labels)
	}
	spec.MaxConcurrent = r.MaxConcurrent
	if spec.MaxConcurrent <= 0 {
		spec.MaxConcurrent = r.Active + r.Available
	}
	spec.MaxConcurrent = max(1, min(spec.MaxConcurrent, d.MaxConcurrent))
	ok := d.AdmitsAgent(r.Agent) && d.AdmitsCapabilities(spec.Capabilities) && d.AdmitsQueue(r.Agent, spec.Queue)
	return spec, ok
}

// Place is the place of an agent that has joined, under these rules: what it announced
// stays, and what an announcement does not say is theirs.
func (d *Discovery) Place(joined AgentSpec) AgentSpec {
	spec := d.Template
	spec.ID, spec.Queue, spec.Capabilities = joined.ID, joined.Queue, joined.Capabilities
	spec.MaxConcurrent, spec.Labels = joined.MaxConcurrent, joined.Labels
	return spec
}

// AdmitsAgent reports whether an agent of this id may join.
func (d *Discovery) AdmitsAgent(id AgentID) bool {
	return slices.ContainsFunc(d.Agents, func(pattern string) bool { return matches(pattern, string(id)) })
}

// QueueID stands for the agent's own id in [Discovery].Queues.
const QueueID = "{id}"

// AdmitsQueue reports whether an agent may announce this queue. The messages in it are taken away when the
// agent goes: so it must be agent.<id>, which is the agent's by its name, or one that Queues allows.
// Whatever the patterns say, it is never one of Taskbus's own, nor one that bears the name of another
// agent.
func (d *Discovery) AdmitsQueue(id AgentID, queue string) bool {
	switch {
	case ReservedQueue(queue):
		return false
	case strings.HasPrefix(queue, "agent."):
		return queue == "agent."+string(id)
	}
	return slices.ContainsFunc(d.Queues, func(pattern string) bool {
		return matches(strings.ReplaceAll(pattern, QueueID, string(id)), queue) // no id contains a *
	})
}

// AdmitsCapabilities reports whether an agent may offer these: at least one, and none that is not allowed.
func (d *Discovery) AdmitsCapabilities(list []string) bool {
	for _, c := range list {
		if _, ok := slices.BinarySearch(d.Capabilities, c); !ok {
			return false
		}
	}
	return len(list) > 0
}

// matches compares a name with a pattern in which `*` stands for any characters.
func matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, last)
}

// reservedQueues are Taskbus's own queues and streams: an agent that consumed one
// of them would take away tasks or heartbeats.
var reservedQueues = []string{
	"agent.status", "assignment.failed", "coordinator.journal", "coordinator.leader",
	"task.assign", "task.assign.high", "task.dead", "task.progress", "task.reassign", "task.request", "task.result",
}

// ReservedQueue reports whether no agent may announce a queue of this name.
func ReservedQueue(name string) bool {
	return slices.Contains(reservedQueues, name) ||
		strings.HasPrefix(name, "task.lane.") ||
		strings.HasPrefix(name, "amq.") ||
		strings.HasPrefix(name, "agent.") && strings.HasSuffix(name, ".control")
}
