package admission

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare"
)

// Takers are the agents that a task may go to.
type Takers struct {
	Usable agentset.Set // those that could have it, and
	Ready  agentset.Set // those that could have something now
	Agents int          // how many there are of all
	// Number is the number of an agent; below 0, or false: it is none of the fleet.
	Number func(coordinator.AgentID) (int, bool)
}

// AgentsDiffer reports whether an agent has quota of its own that a task of the group could be charged to; of
// any group, if that is "".
func (q *Quotas) AgentsDiffer(group string) bool { return len(q.owners[group]) > 0 }

// Owners returns these agents.
func (q *Quotas) Owners(group string) []coordinator.AgentID { return q.owners[group] }

// ownersIn returns the agents that have quota of their own, by group, and all of them under "". What they have in a
// provider's pool is for the groups below theirs, too, where those have quota by agent themselves.
func ownersIn(q *coordinator.Quotas) map[string][]coordinator.AgentID {
	own := make(map[string][]coordinator.AgentID)
	if q == nil {
		return own
	}
	type member struct {
		group string
		agent coordinator.AgentID
	}
	known := make(map[member]bool)
	add := func(group string, agents ...coordinator.AgentID) {
		for _, id := range agents {
			if m := (member{group, id}); !known[m] {
				known[m], own[group] = true, append(own[group], id)
			}
		}
	}
	for i := range q.Nodes {
		if n := &q.Nodes[i]; n.Kind == coordinator.QuotaAgent {
			add(q.Nodes[n.Parent].Name, coordinator.AgentID(n.Name))
			add("", coordinator.AgentID(n.Name))
		}
	}
	for i := range q.Nodes { // parents before children
		n := &q.Nodes[i]
		if n.Kind == coordinator.QuotaGroup && len(own[n.Name]) > 0 && q.Nodes[n.Parent].Kind == coordinator.QuotaGroup {
			add(n.Name, own[q.Nodes[n.Parent].Name]...)
		}
	}
	return own
}

// Refusal is for which agents a task has quota, and what it waits for if for none.
type Refusal struct {
	// Able are the agents that are ready and have quota for it; nil: none, or it makes no difference.
	Able agentset.Set
	// Lacks is what to wait for if there are none; not Refused: nothing but an agent.
	Refused bool
	Lacks   fairshare.Verdict
	// Without are all for which there is no quota, nil: it makes no difference which agent has the task.
	Without *Lacking
}

// Able looks, for a task that was not refused yet, for the agents with which there is quota, as Others does. It lacks
// nothing where there are no quotas (h is nil), or what it takes is reserved.
func (q *Quotas) Able(
	now time.Time, task *coordinator.Task, h *Hold, among Takers, keep bool,
) Refusal {
	if h == nil || h.Open {
		return Refusal{}
	}
	v := q.Judge(now, task, h, "", keep).Verdict
	if v.OK && !q.AgentsDiffer(h.Charge.Group) {
		return Refusal{}
	}
	return q.Others(now, task, h, &v, among, keep)
}

// Affords reports whether there is quota for giving the task to the agent.
func (q *Quotas) Affords(now time.Time, task *coordinator.Task, h *Hold, id coordinator.AgentID) bool {
	return h == nil || h.Open || q.Judge(now, task, h, id, true).Verdict.OK
}

// Exceeds reports whether a task asks for more than its quotas ever allow, with any agent. first is one of those that
// it may go to: all are looked at only if what it exceeds is that one's own.
func (q *Quotas) Exceeds(now time.Time, task *coordinator.Task, h *Hold, first coordinator.AgentID, among Takers) (
	r Refusal, does bool,
) {
	if h == nil || h.Open {
		return r, false
	}
	x := q.Judge(now, task, h, first, true)
	if !x.Verdict.Permanent {
		return r, false
	}
	v := x.Verdict
	own := func(v fairshare.Verdict) bool { return v.Kind == coordinator.QuotaAgent }
	if !own(v) && !slices.ContainsFunc(x.Refused, own) {
		return Refusal{Refused: true, Lacks: v}, true
	}
	r = q.Others(now, task, h, &v, among, true)
	return r, r.Able == nil && r.Lacks.Permanent
}

// RefusedToo notes that the agents that seemed able have no quota either: it has to stand behind another task.
func (q *Quotas) RefusedToo(r *Refusal, v *fairshare.Verdict) {
	r.Without.Agents.Unite(r.Able)
	r.Without.WaitFor(q.Ledger, v)
	r.lacks(v)
}

// lacks notes that a task was refused so by one of its agents, and reports whether it waits for that then: it does for
// what it may have first.
func (r *Refusal) lacks(v *fairshare.Verdict) bool {
	if r.Refused && !endsSooner(v, &r.Lacks) {
		return false
	}
	r.Refused, r.Lacks = true, *v
	return true
}

// Others looks, after a task was refused for one agent or judged without one, for the agents with which there is
// quota: where agents have some of their own, that differs. Agents that have none of their own are judged together.
// What the task is charged to becomes that of several models which has quota first.
func (q *Quotas) Others(
	now time.Time, task *coordinator.Task, h *Hold, refused *fairshare.Verdict, among Takers, keep bool,
) Refusal {
	own, several := q.owners[task.Group], q.Routes(task) != nil
	if len(own) == 0 && !several {
		return Refusal{Refused: true, Lacks: *refused}
	}
	r := Refusal{Without: &Lacking{Agents: agentset.New(among.Agents)}}
	if !refused.OK {
		r.lacks(refused)
		r.Without.WaitFor(q.Ledger, refused)
	}
	busy := false // an agent that is not ready has quota: it may be a matter of waiting for it
	check := func(id coordinator.AgentID, these agentset.Set) {
		at := q.Judge(now, task, h, id, keep)
		if v := at.Verdict; !v.OK {
			r.Without.Agents.Unite(these)
			r.Without.WaitFor(q.Ledger, &v)
			for i := range at.Refused {
				r.Without.WaitFor(q.Ledger, &at.Refused[i])
				r.Without.TryAt(now, at.Refused[i].RetryAt)
			}
			if r.lacks(&v) && several { // it waits in that pool
				h.Take(&at)
			}
			return
		}
		these.Each(func(i int) {
			switch {
			case !among.Ready.Has(i):
				busy = true
			case r.Able == nil:
				r.Able = agentset.New(among.Agents)
				fallthrough
			default:
				r.Able.Add(i)
			}
		})
	}
	rest, one := slices.Clone(among.Usable), agentset.New(among.Agents)
	for _, id := range own {
		number, known := among.Number(id)
		if !known || number < 0 || !rest.Has(number) {
			continue
		}
		rest.Remove(number)
		one.Add(number)
		check(id, one)
		one.Remove(number)
	}
	if !rest.Empty() {
		check("", rest)
	}
	if v := &r.Lacks; busy && v.Permanent {
		*v = fairshare.Verdict{Node: v.Node, Kind: v.Kind, Dimension: v.Dimension, Limit: v.Limit}
	}
	return r
}

// endsSooner reports whether one refusal ends before another.
func endsSooner(a, b *fairshare.Verdict) bool {
	switch {
	case a.Permanent || b.Permanent:
		return !a.Permanent
	case a.RetryAt.IsZero() || b.RetryAt.IsZero():
		return !a.RetryAt.IsZero()
	}
	return a.RetryAt.Before(b.RetryAt)
}
