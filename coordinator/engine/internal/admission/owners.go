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

// Able looks, for a task that was not refused yet, for the agents with which there is quota, as Others does.
func (q *Quotas) Able(
	now time.Time, task *coordinator.Task, h *Hold, among Takers,
) (able agentset.Set, lacks *fairshare.Verdict, without *Lacking) {
	v := q.Judge(now, task, h, "").Verdict
	if v.OK && !q.AgentsDiffer(h.Charge.Group) {
		return nil, nil, nil
	}
	return q.Others(now, task, h, &v, among)
}

// Others looks, after a task was refused for one agent or judged without one, for the agents with which there is
// quota: where agents have some of their own, that differs. able are those that are ready, nil: none. lacks is
// what to wait for if there are none, nil: nothing but an agent. without are all for which there is no quota, nil:
// it makes no difference which agent has the task. Agents that have none of their own are judged together. What
// the task is charged to becomes that of several models which has quota first.
func (q *Quotas) Others(
	now time.Time, task *coordinator.Task, h *Hold, refused *fairshare.Verdict, among Takers,
) (able agentset.Set, lacks *fairshare.Verdict, without *Lacking) {
	own, several := q.owners[task.Group], q.Routes(task) != nil
	if len(own) == 0 && !several {
		return nil, refused, nil
	}
	if without = (&Lacking{Agents: agentset.New(among.Agents)}); !refused.OK {
		lacks = refused
		without.WaitFor(q.Ledger, refused)
	}
	busy := false // an agent that is not ready has quota: it may be a matter of waiting for it
	check := func(id coordinator.AgentID, these agentset.Set) {
		at := q.Judge(now, task, h, id)
		if v := at.Verdict; !v.OK {
			without.Agents.Unite(these)
			without.WaitFor(q.Ledger, &v)
			for i := range at.Refused {
				without.WaitFor(q.Ledger, &at.Refused[i])
				without.TryAt(now, at.Refused[i].RetryAt)
			}
			if lacks == nil || Sooner(&v, lacks) {
				if lacks = &v; several { // it waits in that pool
					h.Take(&at)
				}
			}
			return
		}
		these.Each(func(i int) {
			switch {
			case !among.Ready.Has(i):
				busy = true
			case able == nil:
				able = agentset.New(among.Agents)
				fallthrough
			default:
				able.Add(i)
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
	if busy && lacks != nil && lacks.Permanent {
		lacks = &fairshare.Verdict{Node: lacks.Node, Kind: lacks.Kind, Dimension: lacks.Dimension, Limit: lacks.Limit}
	}
	return able, lacks, without
}

// Sooner reports whether one refusal ends before another.
func Sooner(a, b *fairshare.Verdict) bool {
	switch {
	case a.Permanent || b.Permanent:
		return !a.Permanent
	case a.RetryAt.IsZero() || b.RetryAt.IsZero():
		return !a.RetryAt.IsZero()
	}
	return a.RetryAt.Before(b.RetryAt)
}
