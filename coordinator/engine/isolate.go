package engine

import (
	"math/bits"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/isolation"
	"taskbus/coordinator/engine/internal/state"
)

// A task that crashes its agent takes with it the other tasks that the agent has in hand. None of them is certain
// to be the cause: all are suspected. A task that is suspected until one more failure would end it gets an agent to
// itself: if that one crashes as well, the task was the cause, each time.
//
// Package isolation stores the pending tasks that must be alone, except those whose strategy gives no score to the
// agents that they could have: these are checked again later.

// aloneGroup is such tasks that the same agents could take and that wait for the same quota.
type aloneGroup = isolation.Group[*state.Task, *state.Class]

// nextAlone returns the first, by priority and then by when it is due, of the tasks that wait for no quota and are
// first in one of those groups; nil: there is none. A task that others wait behind is not among them either, until
// it is to try again: each refusal lets it try anew (admission.Waits.Left), so that Apply would never end.
func (k *kernel) nextAlone(of func(*aloneGroup) bool) *state.Task {
	next, _ := k.Isolated.First(of, func(t *state.Task) bool {
		return !k.WaitsForQuota(t) && !k.Quotas.Waits.Refused(t.Needs.Class, t.Leaf, t)
	})
	return next
}

// spareSuspected lets a task that must be alone, and that all its agents have had, go once more to the agents with
// which it failed while they had other tasks.
func (k *kernel) spareSuspected(t *state.Task) {
	if !k.MustBeAlone(t) {
		return
	}
	if reason, _ := k.Resolve(t); reason == coordinator.ReasonNone && t.Needs.Class.Unserved() {
		t.Tried = slices.DeleteFunc(slices.Clone(t.Tried), func(id coordinator.AgentID) bool {
			return slices.Contains(t.Suspected, id) && !slices.Contains(t.Failed, id)
		})
		t.Untouched = state.With(t.Untouched, t.Suspected...)
	}
}

// serveIsolated gives tasks that must be alone to agents that have nothing else, and reserves one free agent for
// the others.
func (k *kernel) serveIsolated(now time.Time) {
	i := &k.Isolated
	if i.Empty() && k.Fleet.Kept() == nil {
		return
	}
	i.Look()
	for !k.Fleet.Vacant.Empty() {
		t := k.nextAlone(func(g *aloneGroup) bool { return i.Turn(g) && g.Class.Usable.First(k.Fleet.Vacant) >= 0 })
		if t == nil {
			break
		}
		switch a, d := k.Choose(t); {
		case a != nil:
			k.leavePending(t)
			k.assignBest(now, t, a, d)
		case t.Stage == state.Unscored: // until scoreAgain
			i.Remove(t)
		}
		i.Tried(t) // if it is still there, for want of quota
	}
	k.keepFree(now)
}

// keepFree changes the agent that is reserved for them, if it should be another one.
func (k *kernel) keepFree(now time.Time) {
	f := &k.Fleet
	former, next := f.Kept(), k.worthKeeping()
	if former == next {
		return
	}
	f.Keep(next)
	if former != nil {
		k.wake(now, former)
	}
}

// worthKeeping is the agent to keep free for the first task that could have any: the one that is,
// else the one with the least in hand; nil: none.
func (k *kernel) worthKeeping() (best *state.Agent) {
	f := &k.Fleet
	kept := f.Kept()
	if kept != nil && (kept.Alone > 0 || f.PresenceOf(kept) != coordinator.KeptFree) {
		kept = nil
	}
	mayKeep := func(c *state.Class) bool { return kept != nil && c.Usable.Has(kept.Number) }
	t := k.nextAlone(func(g *aloneGroup) bool { return mayKeep(g.Class) || g.Class.Usable.First(f.Present) >= 0 })
	switch {
	case t == nil:
		return nil
	case mayKeep(t.Needs.Class):
		return kept
	}
	for i, word := range t.Needs.Class.Usable {
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
func (k *kernel) claimAlone(a *state.Agent) *state.Task {
	if k.Isolated.Empty() || !k.Fleet.Connected || !k.Fleet.IsVacant(a, k.Fleet.Eligibility(a)) {
		return nil
	}
	return k.nextAlone(func(g *aloneGroup) bool { return g.Class.Usable.Has(a.Number) })
}
