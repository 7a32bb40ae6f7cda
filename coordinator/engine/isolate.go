package engine

import (
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/isolation"
)

// A task that crashes its agent takes with it the other tasks that the agent has in hand. None of them is certain
// to be the cause: all are suspected. A task that is suspected until one more failure would end it gets an agent to
// itself: if that one crashes as well, the task was the cause, each time.
//
// Package isolation stores the pending tasks that must be alone, except those whose strategy gives no score to the
// agents that they could have: these are checked again later.

// aloneGroup is such tasks that the same agents could take and that wait for the same quota.
type aloneGroup = isolation.Group[*openTask, *class]

func newIsolated() isolation.Groups[*openTask, *class] {
	return isolation.New(byDue, func(t *openTask) *isolation.Ticket[*openTask, *class] { return &t.isolation })
}

// nextAlone returns the first, by priority and then by when it is due, of the tasks that wait for no quota and are
// first in one of those groups; nil: there is none. A task that others wait behind is not among them either, until
// it is to try again: each refusal lets it try anew (admission.Waits.Left), so that Apply would never end.
func (e *Engine) nextAlone(of func(*aloneGroup) bool) *openTask {
	next, _ := e.isolated.First(of, func(t *openTask) bool { return !e.waitsForQuota(t) && !e.parked(t) })
	return next
}

// mustBeAlone reports whether the task is suspected, and one more failure may end it.
func (e *Engine) mustBeAlone(t *openTask) bool {
	n, s := len(t.suspected), &e.policy.Settings
	return n > 0 && n+len(t.failed) >= max(1, min(s.PoisonedAfter, s.MaxRetryAttempts)-1)
}

// spareSuspected lets a task that must be alone, and that all its agents have had, go once more to the agents with
// which it failed while they had other tasks.
func (e *Engine) spareSuspected(t *openTask) {
	if !e.mustBeAlone(t) {
		return
	}
	if reason, _ := e.resolve(t); reason == coordinator.ReasonNone && t.needs.class.unserved() {
		t.tried = slices.DeleteFunc(slices.Clone(t.tried), func(id coordinator.AgentID) bool {
			return slices.Contains(t.suspected, id) && !slices.Contains(t.failed, id)
		})
		t.untouched = with(t.untouched, t.suspected...)
	}
}

// lostAt notes that the agent went down with the task in hand. Was there nothing beside it, so
// it has failed there, and wherever it was suspected; else it is suspected. It reports whether
// there was nothing beside it.
func (t *openTask) lostAt(a *agent, before *openTask, ev *coordinator.TaskReturned) (alone bool) {
	switch {
	case a == nil, before != nil && before.Apart:
		alone = true // nothing is known of it, or it had nothing else of ours
	case before != nil && before.On():
		alone = len(a.Open) == 1 && a.Lost == 0
	default: // its reports have spoken for the dispatch
		alone = len(a.Open) == 0 && a.Lost == 0 && a.Report.Active <= 1
	}
	if a != nil {
		a.Lost++
	}
	if !alone {
		t.suspected = append(slices.Clip(t.suspected), ev.Agent) // there may be only one
		return false
	}
	t.failed = with(with(t.failed, t.suspected...), ev.Agent)
	t.tried = with(t.tried, t.suspected...) // one that may have had it once more has had it
	t.suspected = nil
	return true
}

// hasDoneAlone reports whether an agent that reports no more than how many tasks it runs, and that has this one to
// itself, has none in hand any more: an idle agent takes what waits in its queue within an interval. made is when
// it reported that.
func (e *Engine) hasDoneAlone(t *openTask, made time.Time) bool {
	a := t.agent
	return t.Apart && !e.following && t.state == stateLeased && !a.Tracked && !t.Over && !t.unanswered &&
		a.Report.Active == 0 && made.Sub(t.Settled) >= a.Spec.HealthCheckInterval
}

// freeFor are the agents that may be given the task now, if they are feasible for it.
func (e *Engine) freeFor(t *openTask) agentset.Set {
	if t.alone {
		return e.fleet.Vacant
	}
	return e.fleet.Ready
}

// serveIsolated gives tasks that must be alone to agents that have nothing else, and reserves one free agent for
// the others.
func (e *Engine) serveIsolated(now time.Time) {
	i := &e.isolated
	if i.Empty() && e.fleet.Kept() == nil {
		return
	}
	i.Look()
	for !e.fleet.Vacant.Empty() {
		t := e.nextAlone(func(g *aloneGroup) bool { return i.Turn(g) && g.Class.Usable.First(e.fleet.Vacant) >= 0 })
		if t == nil {
			break
		}
		switch a, d := e.choose(t); {
		case a != nil:
			e.leavePending(t)
			e.assignBest(now, t, a, d)
		case t.state == stateUnscored: // until scoreAgain
			i.Remove(t)
		}
		i.Tried(t) // if it is still there, for want of quota
	}
	e.keepFree(now)
}

// keepFree changes the agent that is reserved for them, if it should be another one.
func (e *Engine) keepFree(now time.Time) {
	f := &e.fleet
	former, next := f.Kept(), e.worthKeeping()
	if former == next {
		return
	}
	f.Keep(next)
	if former != nil {
		e.wake(now, former)
	}
}

// worthKeeping is the agent to keep free for the first task that could have any: the one that is,
// else the one with the least in hand; nil: none.
func (e *Engine) worthKeeping() (best *agent) {
	f := &e.fleet
	kept := f.Kept()
	if kept != nil && (kept.Alone > 0 || f.PresenceOf(kept) != coordinator.KeptFree) {
		kept = nil
	}
	mayKeep := func(c *class) bool { return kept != nil && c.Usable.Has(kept.Number) }
	t := e.nextAlone(func(g *aloneGroup) bool { return mayKeep(g.Class) || g.Class.Usable.First(f.Present) >= 0 })
	switch {
	case t == nil:
		return nil
	case mayKeep(t.needs.class):
		return kept
	}
	for i, word := range t.needs.class.Usable {
		for set := word & f.Present[i]; set != 0; set &= set - 1 {
			a := f.Agents[i<<6+bits.TrailingZeros64(set)]
			if best == nil || a.InFlight() < best.InFlight() {
				best = a
			}
		}
	}
	return best
}

// claimAlone is the task that must be alone and may go to an agent that claims and has nothing
// in hand; nil: none, or it has.
func (e *Engine) claimAlone(a *agent) *openTask {
	if e.isolated.Empty() || !e.connected || !e.fleet.IsVacant(a, e.fleet.Eligibility(a)) {
		return nil
	}
	return e.nextAlone(func(g *aloneGroup) bool { return g.Class.Usable.Has(a.Number) })
}
