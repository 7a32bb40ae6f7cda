package state

import (
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/engine/internal/choice"
)

// Asks reports whether the task is offered before it is given to an agent.
func (t *Task) Asks() bool { return t.Needs.Strategy.Market != nil && !t.Alone }

// MayGive reports whether the task may be given to an agent now, or be offered: one that is for the market is while
// more slots are free in its class than its lots seek.
func (s *State) MayGive(t *Task) bool {
	c := t.Needs.Class
	seeking := c.Lots.Seeking()
	return !t.Asks() || seeking == 0 || t.Lot.Next(t, s.MarketView()) != nil || s.Fleet.FreeBeyond(c.Usable, seeking)
}

// Choose finds the agent for a task that has been resolved; nil when there is none.
func (s *State) Choose(t *Task) (*Agent, *coordinator.Decision) {
	return s.ChooseAmong(t, t.Needs.Class.Usable)
}

// ChooseAmong finds the agent for a task among those given; nil when there is none.
func (s *State) ChooseAmong(t *Task, able agentset.Set) (*Agent, *coordinator.Decision) {
	q := s.Question(t)
	q.Among = able
	winner, d := q.Choose()
	if d == nil {
		return nil, nil
	}
	return s.Fleet.Agents[winner], d
}

// Question is what is asked of the fleet for a task that has been resolved. It is
// valid until the next.
func (s *State) Question(t *Task) *choice.Question {
	n, q := &t.Needs, &s.Asking
	q.Case = coordinator.Case{Task: t.Task, Required: len(n.Required), MaxCost: s.Fleet.MaxCost}
	q.Strategy, q.Kind, q.Attempt, q.Seed = n.Strategy, n.kind, t.Attempt, s.Policy.Settings.Seed
	q.Met, q.Usable, q.Among, q.Preferred = &n.Class.Criteria, n.Class.Usable, n.Class.Usable, n.preferred
	q.Free, q.Alone = s.FreeFor(t), t.Alone
	q.Prepare()
	return q
}

// trackRecords are how well the agents do with such tasks as one that has been resolved.
func (s *State) trackRecords(t *Task) choice.TrackRecords {
	return s.Asking.Fleet.TrackRecords(t.Task, t.Attempt, t.Needs.kind, t.Needs.Strategy, s.Policy.Settings.Seed)
}

// NoChoice is the decision for an agent that was the only one in question.
func (s *State) NoChoice(strategy string, a *Agent) *coordinator.Decision {
	return &coordinator.Decision{
		Strategy: strategy, Agent: a.Spec.ID, Fleet: len(s.Fleet.Agents), Eligible: 1,
		Candidates: []coordinator.Candidate{{Agent: a.Spec.ID, Load: a.Load(), Free: a.Free()}},
	}
}

// NeedsRoom reports whether the task waits only if the backlog has room for it. What comes out of a
// lane has it, and what may be moved to one makes it.
func (s *State) NeedsRoom(t *Task) bool { return t.From == "" && !s.MayMove(t) }

// Unscored reports, of a task for which no agent was chosen, whether there are some that could have it now.
func (s *State) Unscored(t *Task) bool {
	c := t.Needs.Class
	return c.Usable.Common(s.Fleet.Ready) > 0
}

// Explain makes a full pass over the fleet for why each agent may not have the task; a detailed one lists them,
// bounded.
func (s *State) Explain(now time.Time, t *Task, detailed bool) *coordinator.Decision {
	asked, claiming, q := t.AskedOf(), 0, s.Question(t)
	met := s.Fleet.Index.Meet(asked)
	q.Met, q.Usable = &met, s.Ejections.Usable(met.Set, asked.Required)
	x := q.Explain(asked.Required, detailed)
	for i, a := range s.Fleet.Agents {
		r := coordinator.Refusal{Agent: a.Spec.ID, Why: q.Ineligibility(i)}
		switch {
		case r.Why == coordinator.Full:
			r.FreeIn = s.FreeIn(now, a)
		case r.Why == coordinator.Pulling && a.Seat.Waits():
			claiming++
		}
		x.Add(i, r)
	}
	d := x.Decision()
	d.Claiming = claiming
	return d
}

// ReasonOf turns the explanation of a refusal into the reason the task fails with
// when it can wait no longer, and its text. What no agent of the fleet offers is not
// out of reach where one that does may join: it is not online, no more is known.
func (s *State) ReasonOf(d *coordinator.Decision, t *Task) (coordinator.Reason, string) {
	reason, text := choice.Reason(d), d.Text()
	if reason == coordinator.ReasonNoEligibleAgents && d.Refused[coordinator.Unscored] == 0 &&
		s.Fleet.MayBring(t.AskedOf()) {
		return coordinator.ReasonNoAgentsOnline, text + "; discovery admits agents that could take it, and none has joined"
	}
	return reason, text
}

// AskedOf is what a task that has been resolved asks of its agent.
func (t *Task) AskedOf() criteria.Needs {
	n := &t.Needs
	return criteria.Needs{Task: t.Task, Required: n.Required, Barred: t.barredFrom(), Only: n.Class.Only}
}

// BatchKey is what the tasks of one batch have in common: everything that the choice
// of an agent looks at, but for priority and age.
type BatchKey struct {
	taskType, class, strategy string
	preferred                 string // the task's own; empty: its route's
	affinity                  string
	session                   uint64
}

// BatchKeyOf gives the key of a task that has been resolved. Its preferred agents are
// separated by what no id contains.
func BatchKeyOf(t *Task) BatchKey {
	n := &t.Needs
	k := BatchKey{taskType: t.Task.Type, class: n.Class.Key, strategy: n.Strategy.Name}
	if len(t.Task.Preferred) > 0 {
		var b strings.Builder
		for _, id := range t.Task.Preferred {
			b.WriteString(string(id))
			b.WriteByte(0)
		}
		k.preferred = b.String()
	}
	if n.Strategy.Prepare != nil {
		c := coordinator.Case{Task: t.Task, Required: len(n.Required)}
		n.Strategy.Prepare(&c)
		k.affinity, k.session = c.Affinity, c.Session
	}
	return k
}

// BatchLimits returns the limits of the batch that the task may share; false: it goes alone.
func (s *State) BatchLimits(t *Task) (limits coordinator.Batch, batched bool) {
	if !t.Fresh || t.Asks() { // bids are for one task
		return limits, false
	}
	return s.Batches.Limits(t.Task.Type)
}
