package state

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/queue"
	"taskbus/coordinator/learning"
	"taskbus/coordinator/nearest"
)

// Requirements is what a task asks of its agent, once its own wishes and its
// task type's route are put together.
type Requirements struct {
	Required  []string
	preferred agentset.Set // nil: none
	Strategy  *coordinator.Strategy
	Class     *Class
	kind      *learning.Type // what is known of the agents with tasks of this type
}

// Resolve puts together what the task asks of its agent. It answers with the
// reason and a text when that can never be served, ReasonNone otherwise.
func (s *State) Resolve(t *Task) (coordinator.Reason, string) { return s.Require(t, true) }

// Suppose makes what a task would be that came just now, or came back like an open one. It is for questions: nothing
// but it changes.
func (s *State) Suppose(task *coordinator.Task, like *Task) (*Task, coordinator.Reason, string) {
	t := &Task{Task: task, Due: queue.Due(task), Arrival: math.MaxUint64}
	if like != nil {
		t.Tried, t.Tries, t.Last, t.Attempt = like.Tried, like.Tries, like.Last, like.Attempt
		t.Repeats, t.WaitedForOthers, t.Holdoffs = like.Repeats, like.WaitedForOthers, like.Holdoffs
	}
	reason, text := s.Require(t, false)
	return t, reason, text
}

// Require is resolve; keep: the class that it makes is remembered, because the task may wait in it.
func (s *State) Require(t *Task, keep bool) (coordinator.Reason, string) {
	task := t.Task
	if longest := s.Policy.Settings.MaxTimeout; longest > 0 && task.Timeout > longest {
		return coordinator.ReasonInvalidMessage, fmt.Sprintf(
			"/timeout_seconds: %s is longer than the %s for which the broker lets an agent hold a message; "+
				"raise consumer_timeout in the broker and broker_consumer_timeout_seconds in agents.yaml", task.Timeout, longest)
	}
	if why := s.Quotas.Ledger.UnlistedTask(task.Group); why != "" {
		return coordinator.ReasonInvalidMessage, "/group: " + why
	}
	needs := s.Routes[task.Type]
	if needs == nil {
		route, known := s.Policy.Routes[task.Type]
		if !known && len(task.Required) == 0 {
			return coordinator.ReasonUnknownTaskType, s.unknownType(task.Type)
		}
		needs = &Requirements{Required: route.Required, preferred: s.Fleet.set(route.Preferred)}
		needs.Strategy, _ = s.Policy.Find(cmp.Or(route.Strategy, s.Policy.Strategy))
		if keep {
			needs.kind = s.Kind(task.Type)
		} else {
			needs.kind = s.Learner.Peek(task.Type)
		}
		needs.Class = s.class(kin{needs: criteria.OfRoute(&route), asks: needs.Strategy.Market != nil}, keep)
		if known && keep { // an unknown type is any producer's invention: not worth remembering
			needs.Class.Routed = true
			s.Routes[task.Type] = needs
		}
	}
	t.Needs, t.Alone = *needs, s.MustBeAlone(t)
	if task.Strategy != "" && task.Strategy != needs.Strategy.Name {
		own, enabled := s.Policy.Find(task.Strategy)
		if !enabled {
			return coordinator.ReasonInvalidMessage, fmt.Sprintf("/strategy: %q is not one of the enabled strategies (%s)",
				task.Strategy, strings.Join(s.Policy.StrategyNames(), ", "))
		}
		t.Needs.Strategy = own
	}
	if len(task.Preferred) > 0 {
		t.Needs.preferred = s.Fleet.set(task.Preferred)
	}
	pool, stays, noTokens := "", false, false
	if h := s.QuotaDemand(t); h != nil {
		pool, stays, noTokens = s.Quotas.PoolOf(task, h), task.NoBorrowing, h.TakesNoTokens()
	}
	asked, asks := criteria.Needs{Task: task, Barred: t.barredFrom(), Only: s.only(t)}, t.Asks()
	if criteria.Own(asked) || asks != (needs.Strategy.Market != nil) || pool != "" || stays || noTokens {
		asked.Required = coordinator.MergeSorted(needs.Required, task.Required)
		of := kin{needs: asked, pool: pool, asks: asks, stays: stays, noTokens: noTokens}
		t.Needs.Required, t.Needs.Class = asked.Required, s.class(of, keep)
		if len(of.needs.Only) > 0 && t.Needs.Class.Unserved() { // none of them can ever have it
			of.needs.Only = nil
			t.Needs.Class = s.class(of, keep)
		}
	}
	return coordinator.ReasonNone, ""
}

// barredFrom lists the agents that may not have the task by now, sorted.
func (t *Task) barredFrom() []coordinator.AgentID {
	had := t.Barred()
	if len(had) == 0 {
		return t.Task.Excluded
	}
	return coordinator.MergeSorted(t.Task.Excluded, coordinator.SortedUnique(slices.Clone(had)))
}

// unknownType says that nothing is known of a task type, and which one may have been meant.
func (s *State) unknownType(name string) string {
	text := fmt.Sprintf("task type %q is not in task_routing and the task names no required_capabilities", name)
	if s.Types == nil {
		s.Types = slices.Sorted(maps.Keys(s.Policy.Routes))
	}
	if near := nearest.DidYouMean(name, s.Types); near != "" {
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

// only lists the preferred agents that alone may have the task as yet, sorted; none: any agent may.
func (s *State) only(t *Task) []coordinator.AgentID {
	if t.Widened || t.Task.WidenAfter <= 0 || !s.Now.Before(t.Task.AcceptedAt.Add(t.Task.WidenAfter)) {
		return nil
	}
	preferred := t.Task.Preferred
	if len(preferred) == 0 {
		preferred = s.Policy.Routes[t.Task.Type].Preferred
	}
	return coordinator.SortedUnique(slices.Clone(preferred))
}

// Narrow reports whether the task waits for its preferred agents alone.
func (t *Task) Narrow() bool {
	return (t.Stage == Waiting || t.Stage == Unscored) && t.Needs.Class != nil && len(t.Needs.Class.Only) > 0
}

// ScheduleWiden has a task that begins to wait checked when more agents may have it: any instead of its preferred ones,
// or one that asked for time.
func (s *State) ScheduleWiden(t *Task) {
	at, widens := t.Holdoffs.First(), t.Task.AcceptedAt.Add(t.Task.WidenAfter)
	if t.Narrow() && (at.IsZero() || widens.Before(at)) {
		at = widens
	}
	if at.IsZero() {
		return
	}
	if t.Widen == nil {
		t.Widen = new(NewTimer(DutyWiden, t, nil))
	}
	s.Timers.Schedule(t.Widen, at)
}

func (s *State) CancelWiden(t *Task) {
	if t.Widen != nil {
		s.Timers.Cancel(t.Widen)
	}
}
