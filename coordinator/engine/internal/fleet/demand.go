package fleet

import (
	"math"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

// demand is how much each capability is asked for, and what follows from that for the agents: agents with rare
// capabilities that other tasks need should be left free for those tasks.
//
// The kernel counts tasks by class, which costs an increment; from time to time the counts are added to those of the
// capabilities, half of which expire in demandHalfLife.
type demand struct {
	demanded map[string]float64 // tasks per capability, older ones counting less
	next     time.Time          // when the counts are handed over again
	last     time.Time          // when they were last
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

// TakesDemand reports whether it is time to hand over the counts: what was asked for before counts less from now on.
// Asked is to be called for each class then, and Weigh.
func (d *demand) TakesDemand(now time.Time) bool {
	if now.Before(d.next) {
		return false
	}
	keep := remains(now.Sub(d.last))
	d.next, d.last = now.Add(demandEvery), now
	for c, n := range d.demanded { // each by itself
		if n *= keep; n < demandLeast {
			delete(d.demanded, c)
			continue
		}
		d.demanded[c] = n
	}
	return true
}

// remains returns how much of the demand of that long ago still counts.
func remains(age time.Duration) float64 { return math.Exp2(-float64(age) / float64(demandHalfLife)) }

// Asked counts tasks that require these capabilities.
func (f *Fleet[T, A]) Asked(required []string, tasks int) {
	for _, c := range required {
		if _, known := f.demanded[c]; known || len(f.demanded) < demandMost || f.Index.Offering[c] != nil {
			f.demanded[c] += float64(tasks)
		}
	}
}

// Weigh recomputes how flexible every agent is: over its capabilities, the sum of demand by supply, the latter being
// those that are online.
func (f *Fleet[T, A]) Weigh() {
	present := agentset.New(len(f.Agents))
	for i, m := range f.Agents {
		present.Put(i, m.Core().State == coordinator.AgentOnline)
	}
	scarcity := make(map[string]float64, len(f.demanded))
	for c, n := range f.demanded {
		if set := f.Index.Offering[c]; set != nil {
			if online := set.Common(present); online > 0 {
				scarcity[c] = n / float64(online)
			}
		}
	}
	for i, m := range f.Agents {
		sum := 0.0
		for _, c := range m.Core().Spec.Capabilities {
			sum += scarcity[c]
		}
		f.Views[i].Flexibility = sum
	}
}

// Waiting is what waits for a capability, and what has asked for it since the counts were handed over.
type Waiting struct{ Tasks, Asked int }

// Capabilities returns demand of every capability that the fleet offers or waiting tasks require, sorted by name.
func (f *Fleet[T, A]) Capabilities(now time.Time, waiting map[string]Waiting) []coordinator.CapabilitySnapshot {
	var names []string
	for c := range f.Index.Offering {
		names = append(names, c)
	}
	for c, w := range waiting {
		if w.Tasks+w.Asked > 0 {
			names = append(names, c)
		}
	}
	for c := range f.demanded {
		names = append(names, c)
	}
	names = coordinator.SortedUnique(names)
	list := make([]coordinator.CapabilitySnapshot, len(names))
	for i, c := range names {
		tasks := f.demanded[c]*remains(now.Sub(f.last)) + float64(waiting[c].Asked)
		list[i] = coordinator.CapabilitySnapshot{Name: c, Waiting: waiting[c].Tasks,
			Demand: tasks * math.Ln2 / demandHalfLife.Seconds()}
	}
	return list
}

// Supply adds to a capability which agents offer it; trusted are those of them that are not ejected from it.
func (f *Fleet[T, A]) Supply(s *coordinator.CapabilitySnapshot, trusted agentset.Set) {
	f.Index.Offering[s.Name].Each(func(i int) {
		a := f.Agents[i].Core()
		s.Agents++
		if a.State != coordinator.AgentOnline {
			return
		}
		s.Online++
		if !a.Cordoned && !a.unsteady && !a.Suspect && trusted.Has(i) {
			s.Usable++
			s.Slots += a.Room()
			s.Free += a.Free()
		}
	})
}
