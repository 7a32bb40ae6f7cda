package engine

import (
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
)

// demand is how much each capability is asked for, and what follows from that for the agents: agents with rare
// capabilities that other tasks need should be left free for those tasks.
//
// Tasks are counted by class, which costs an increment; from time to time the counts are added to those of the
// capabilities, half of which expire in demandHalfLife.
type demand struct {
	of   map[string]float64 // tasks per capability, older ones counting less
	next time.Time          // when the counts are handed over again
	last time.Time          // when they were last
}

const (
	demandEvery    = time.Second
	demandHalfLife = 5 * time.Minute
	// demandLeast is what is as good as nothing: such a capability is forgotten.
	demandLeast = 1e-3
	// demandMost bounds what is remembered beside what the fleet offers: which
	// capabilities a task requires is its producer's invention.
	demandMost = 1024
)

func newDemand() demand { return demand{of: make(map[string]float64)} }

// asked counts a task that has been resolved for the first time.
func (e *Engine) asked(now time.Time, c *class) {
	c.asked++
	if now.Before(e.demand.next) {
		return
	}
	e.demand.next = now.Add(demandEvery)
	e.handOver(now)
	e.weigh()
	e.learner.Advance(now) // what was learnt is a second older
}

// handOver adds what was counted to the capabilities.
func (e *Engine) handOver(now time.Time) {
	d := &e.demand
	keep := math.Exp2(-float64(now.Sub(d.last)) / float64(demandHalfLife))
	if d.last.IsZero() {
		keep = 1
	}
	d.last = now
	for c, n := range d.of { // each by itself
		if n *= keep; n < demandLeast {
			delete(d.of, c)
			continue
		}
		d.of[c] = n
	}
	byKey := func(a, b *class) int { return strings.Compare(a.Key, b.Key) }
	for _, c := range slices.SortedFunc(e.pending.All(), byKey) {
		for _, capability := range c.required {
			if _, known := d.of[capability]; known || len(d.of) < demandMost || e.fleet.Index.Offering[capability] != nil {
				d.of[capability] += float64(c.asked)
			}
		}
		c.asked = 0
	}
}

// weigh recomputes how flexible every agent is: over its capabilities, the sum of
// demand by supply, the latter being those that are online.
func (e *Engine) weigh() {
	f := &e.fleet
	scarcity := make(map[string]float64, len(e.demand.of))
	for c, n := range e.demand.of {
		if online := e.ejections.Supply(c); online > 0 {
			scarcity[c] = n / float64(online)
		}
	}
	for i, a := range f.Agents {
		sum := 0.0
		for _, c := range a.Spec.Capabilities {
			sum += scarcity[c]
		}
		f.Views[i].Flexibility = sum
	}
}

// perSecond returns how many tasks a second require the capability, by its demand and by the tasks that asked for
// it since the counts were last added.
func (d *demand) perSecond(capability string, asked int, now time.Time) float64 {
	older := d.of[capability] * math.Exp2(-float64(now.Sub(d.last))/float64(demandHalfLife))
	return (older + float64(asked)) * math.Ln2 / demandHalfLife.Seconds()
}

// Capabilities reports demand and supply of every capability that the fleet
// offers or waiting tasks require, sorted by name.
func (e *Engine) Capabilities(now time.Time) []coordinator.CapabilitySnapshot {
	waiting := make(map[string]int)
	asked := make(map[string]int)
	for c := range e.pending.All() { // order does not matter: it is a sum
		for _, capability := range c.required {
			waiting[capability] += c.Waiting.Len()
			asked[capability] += c.asked
		}
	}
	names := make([]string, 0, len(e.fleet.Index.Offering)+len(waiting))
	for c := range e.fleet.Index.Offering {
		names = append(names, c)
	}
	for c, n := range waiting {
		if n+asked[c] > 0 {
			names = append(names, c)
		}
	}
	for c := range e.demand.of {
		names = append(names, c)
	}
	names = coordinator.SortedUnique(names)
	report := make([]coordinator.CapabilitySnapshot, 0, len(names))
	for _, name := range names {
		s := coordinator.CapabilitySnapshot{Name: name, Waiting: waiting[name],
			Demand: e.demand.perSecond(name, asked[name], now)}
		e.fleet.Index.Offering[name].Each(func(i int) {
			a := e.fleet.Agents[i]
			s.Agents++
			if a.State != coordinator.AgentOnline {
				return
			}
			s.Online++
			if a.Cordoned || a.Unsteady || a.Suspect || e.ejections.Ejected(i, name) {
				return
			}
			s.Usable++
			s.Slots += a.Room()
			s.Free += a.Free()
		})
		report = append(report, s)
	}
	return report
}
