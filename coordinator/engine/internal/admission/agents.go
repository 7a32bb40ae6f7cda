package admission

import (
	"slices"
	"time"

	"taskbus/coordinator/agentset"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
)

// Agents may have quota of their own. Then it differs which of them lack it, and a task waits for what comes
// back to any of them.

// Lacking are the agents for which a task lacks quota.
type Lacking struct {
	Agents agentset.Set
	// nodes are those at which something must come back before one of them has it: of groups and above. That
	// of an agent stands under its group's (fairshare.Ledger.GroupNode).
	nodes []string
	// again is when one of the models that the task may go to may have room by itself; zero: none, or it
	// has no choice.
	again time.Time
}

// WaitFor notes where it comes back what was refused so.
func (l *Lacking) WaitFor(ledger *fairshare.Ledger, v *fairshare.Verdict) {
	for _, id := range [2]string{ledger.GroupNode(v.Node), ledger.GroupNode(v.Behind)} {
		if !slices.Contains(l.nodes, id) {
			l.nodes = append(l.nodes, id)
		}
	}
}

// TryAt sets that the task tries by itself at that time, if not sooner; zero: it need not.
func (l *Lacking) TryAt(now, at time.Time) {
	if at.IsZero() {
		return
	}
	if !at.After(now) { // what is refused is not asked again at once
		at = now.Add(time.Millisecond)
	}
	if l.again.IsZero() || at.Before(l.again) {
		l.again = at
	}
}

// agentWaits are those for which it differs which agent has the task.
type agentWaits struct {
	all    []*Wait
	behind map[string][]*Wait // by their nodes (see Lacking)
	woken  []*Wait            // those that are yet to try what was given back
	lost   []lostHead         // of queues that were without a head for a moment at least
}

// lostHead is a head that a queue had, of that level.
type lostHead struct {
	queue lackKey
	level int
}

func (a *agentWaits) add(w *Wait) {
	a.all = append(a.all, w)
	for _, node := range w.Without.nodes {
		a.behind[node] = append(a.behind[node], w)
	}
}

func (a *agentWaits) remove(w *Wait) {
	if a.all = minus(a.all, w); w.woken {
		a.woken, w.woken = minus(a.woken, w), false
	}
	for _, node := range w.Without.nodes {
		removeFrom(a.behind, node, w)
	}
}

// wake lets those waits try that have an agent for which something may have come back at the node.
func (a *agentWaits) wake(node string) { a.wakeLevels(node, 0, fairqueue.Levels-1) }

func (a *agentWaits) wakeLevels(node string, least, most int) {
	for _, w := range a.behind[node] {
		if !w.woken && least <= w.Level && w.Level <= most {
			a.woken, w.woken = append(a.woken, w), true
		}
	}
}

// wakeHeadless lets those try that may have waited behind the head of a queue and do not any more: it was served, has
// left, or lacks something else, and there is none now, or one of a lower level. false: there is none.
func (q *Waits) wakeHeadless() bool {
	for _, lost := range q.agents.lost {
		node := q.ledger.GroupNode(lost.queue.node)
		switch k := q.queues[lost.queue]; {
		case k == nil || k.head == nil:
			q.agents.wake(node)
		case lost.queue.limit == fairshare.LimitRate: // behind others nothing stands that waits elsewhere (see Ahead)
			q.agents.wakeLevels(node, k.head.Level+1, lost.level)
		}
	}
	q.agents.lost = q.agents.lost[:0]
	return len(q.agents.woken) > 0
}

// next returns the one that has its turn among those that are to try: of the highest priority first.
func (a *agentWaits) next(s *fairqueue.Shares) *Wait {
	best := a.woken[0]
	for _, w := range a.woken[1:] {
		if w.Level > best.Level || w.Level == best.Level && s.Before(w.Leaf, best.Leaf) {
			best = w
		}
	}
	return best
}

// RetryWith removes the waits for which it differs which agent has the task, that this one could take, and
// that did not lack anything for it: their leaves are to be unparked. The result is good until the next call. Others
// may serve them, too: Begin returns them again.
func (q *Waits) RetryWith(agent int) []*Wait {
	q.round.unpark = q.round.unpark[:0]
	for i := 0; i < len(q.agents.all); {
		if w := q.agents.all[i]; w.Class.TakenBy(agent) && !w.Without.Agents.Has(agent) {
			q.Remove(w)
			q.round.unpark = append(q.round.unpark, w)
		} else {
			i++
		}
	}
	q.retried = append(q.retried, q.round.unpark...)
	return q.round.unpark
}
