package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/learning"
)

// requirements is what a task asks of its agent, once its own wishes and its
// task type's route are put together.
type requirements struct {
	required  []string
	preferred agentset.Set // nil: none
	strategy  *coordinator.Strategy
	class     *class
	kind      *learning.Type // what is known of the agents with tasks of this type
}

// resolve puts together what the task asks of its agent. It answers with the
// reason and a text when that can never be served, ReasonNone otherwise.
func (e *Engine) resolve(t *openTask) (coordinator.Reason, string) {
	task := t.task
	if longest := e.policy.Settings.MaxTimeout; longest > 0 && task.Timeout > longest {
		return coordinator.ReasonInvalidMessage, fmt.Sprintf(
			"/timeout_seconds: %s is longer than the %s for which the broker lets an agent hold a message; "+
				"raise consumer_timeout in the broker and broker_consumer_timeout_seconds in agents.yaml", task.Timeout, longest)
	}
	if why := e.quotas.Ledger.UnlistedTask(task.Group); why != "" {
		return coordinator.ReasonInvalidMessage, "/group: " + why
	}
	needs := e.routes[task.Type]
	if needs == nil {
		route, known := e.policy.Routes[task.Type]
		if !known && len(task.Required) == 0 {
			return coordinator.ReasonUnknownTaskType, e.unknownType(task.Type)
		}
		needs = &requirements{required: route.Required, preferred: e.fleet.set(route.Preferred)}
		needs.strategy, _ = e.policy.Find(orElse(route.Strategy, e.policy.Strategy))
		needs.kind = e.kind(task.Type)
		of := kin{needs: criteria.OfRoute(&route), asks: needs.strategy.Market != nil}
		needs.class = e.class(of, known || !t.supposed)
		if known { // an unknown type is any producer's invention: not worth remembering
			needs.class.routed = true
			e.routes[task.Type] = needs
		}
	}
	t.needs, t.alone = *needs, e.mustBeAlone(t)
	if task.Strategy != "" && task.Strategy != needs.strategy.Name {
		s, enabled := e.policy.Find(task.Strategy)
		if !enabled {
			return coordinator.ReasonInvalidMessage, fmt.Sprintf("/strategy: %q is not one of the enabled strategies (%s)",
				task.Strategy, strings.Join(e.policy.StrategyNames(), ", "))
		}
		t.needs.strategy = s
	}
	if len(task.Preferred) > 0 {
		t.needs.preferred = e.fleet.set(task.Preferred)
	}
	pool, stays, noTokens := "", false, false
	if h := e.quotaDemand(t); h != nil {
		pool, stays, noTokens = e.quotas.PoolOf(task, h), task.NoBorrowing, h.TakesNoTokens()
	}
	asked := criteria.Needs{
		Task: task, Required: coordinator.MergeSorted(needs.required, task.Required), Barred: t.barredFrom(), Only: e.only(t),
	}
	of := kin{needs: asked, pool: pool, asks: t.asks(), stays: stays, noTokens: noTokens}
	if criteria.Own(of.needs) || of.asks != (needs.strategy.Market != nil) || pool != "" || stays || noTokens {
		t.needs.required, t.needs.class = of.needs.Required, e.class(of, !t.supposed)
		if len(of.needs.Only) > 0 && t.needs.class.unserved() { // none of them can ever have it
			of.needs.Only = nil
			t.needs.class = e.class(of, !t.supposed)
		}
	}
	return coordinator.ReasonNone, ""
}

// barredFrom lists the agents that may not have the task by now, sorted.
func (t *openTask) barredFrom() []coordinator.AgentID {
	had := t.barred()
	if len(had) == 0 {
		return t.task.Excluded
	}
	return coordinator.MergeSorted(t.task.Excluded, coordinator.SortedUnique(slices.Clone(had)))
}

// unknownType says that nothing is known of a task type, and which one may have been meant.
func (e *Engine) unknownType(name string) string {
	text := fmt.Sprintf("task type %q is not in task_routing and the task names no required_capabilities", name)
	if e.types == nil {
		e.types = slices.Sorted(maps.Keys(e.policy.Routes))
	}
	if near := coordinator.DidYouMean(name, e.types); near != "" {
		text += "; " + near
	}
	return text
}

// set numbers a list of agents; nil when none of them is known.
func (f *agents) set(ids []coordinator.AgentID) agentset.Set {
	var b agentset.Set
	for _, id := range ids {
		if a := f.ByID[id]; a != nil {
			if b == nil {
				b = agentset.New(len(f.Agents))
			}
			b.Add(a.Number)
		}
	}
	return b
}

func orElse(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}
