package formula

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// The names that are not terms of package strategy.
const (
	nameLabels     = "labels"
	nameTaskLabels = "task_labels"
	nameTaskType   = "task_type"
	nameAgentID    = "agent_id"
)

// texts are the names that are not numbers.
var texts = map[string]*cel.Type{
	nameLabels:     cel.MapType(cel.StringType, cel.StringType),
	nameTaskLabels: cel.MapType(cel.StringType, cel.StringType),
	nameTaskType:   cel.StringType,
	nameAgentID:    cel.StringType,
}

// Names lists what a formula may speak of, sorted: the numbers that
// strategy.Terms describes, the texts task_type and agent_id, and the labels of
// the agent and of the task, by name. The caller owns the list.
func Names() []string {
	var names []string
	for _, t := range strategy.Terms() {
		names = append(names, t.Name)
	}
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// vocabulary finds terms by their names.
type vocabulary map[string]strategy.Term

func newVocabulary() vocabulary {
	v := make(vocabulary)
	for _, t := range strategy.Terms() {
		v[t.Name] = t
	}
	return v
}

// agent is what a formula speaks of: one agent for one task. It is made for one
// evaluation and computes what it is asked for alone.
type agent struct {
	terms    vocabulary
	task     *coordinator.Case
	view     *coordinator.AgentView
	standing *coordinator.Standing
}

// ResolveName gives the value of a name.
func (a *agent) ResolveName(name string) (any, bool) {
	if t, ok := a.terms[name]; ok {
		return types.Double(t.Value(a.task, a.view, a.standing)), true
	}
	switch name {
	case nameLabels:
		return a.view.Labels, true
	case nameTaskLabels:
		return a.task.Task.Labels, true
	case nameTaskType:
		return a.task.Task.Type, true
	case nameAgentID:
		return string(a.view.ID), true
	}
	return nil, false
}

// Parent is none.
func (a *agent) Parent() cel.Activation { return nil }
