package config

import (
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// maxLanes bounds the groups with a lane of their own: each may become a queue.
const maxLanes = 1000

// heldWithoutLanes is how long a task may wait where there are no lanes: it is held in the
// window all the time, where it hides what stands behind it, and after 30 minutes the broker
// would close the channel that holds it.
const heldWithoutLanes = time.Minute

// lanes reads which groups have lanes of their own. A list, even an empty one, means that
// there are lanes at all.
func (d *decoder) lanes(c *Config) reader {
	return func(p place) {
		if isNull(p.node) {
			return
		}
		keys := []string{}
		d.list(p, "groups", func(item place) {
			if key, ok := d.text(item, idPattern, idRule); ok {
				keys = append(keys, key)
			}
		})
		if len(keys) > maxLanes {
			d.fault(p, "names %d groups, and at most %d may have a lane of their own; the others share one", len(keys), maxLanes)
		}
		c.policy.Lanes = append([]string{}, coordinator.SortedUnique(keys)...)
	}
}

// settleLanes switches lanes off where they cannot be, and says so.
func (c *Config) settleLanes() {
	p := &c.policy
	if p.Lanes != nil {
		switch {
		case c.Queues != QueuesQuorum:
			c.lanesOff = "they are quorum queues, and `queues: classic` promises none"
		case c.Topology != TopologyDeclare:
			c.lanesOff = fmt.Sprintf("their queues are made when they are needed, which `topology: %s` does not allow", c.Topology)
		case !c.Journal:
			c.lanesOff = "the journal says which lanes hold tasks, and it is switched off"
		}
	}
	if c.lanesOff != "" {
		p.Lanes = nil
	}
	if p.Lanes != nil {
		p.LaneRoom = max(1, c.Window/2)
	}
	if s := &p.Settings; p.Lanes == nil && s.AssignmentTimeout > heldWithoutLanes {
		c.cappedFrom, s.AssignmentTimeout = s.AssignmentTimeout, heldWithoutLanes
	}
}

// lanesOf gives the groups of quotas.yaml lanes of their own, unless agents.yaml says which
// have. Of more groups than may have one those at the top do. A group without one uses that of
// the nearest group above it.
func (c *Config) lanesOf(q *coordinator.Quotas) {
	p := &c.policy
	if c.ownLanes {
		return
	}
	if c.cappedFrom > 0 {
		p.Settings.AssignmentTimeout, c.cappedFrom = c.cappedFrom, 0
	}
	c.lanesOff, p.Lanes, p.LaneRoom = "", nil, 0
	if q == nil {
		c.settleLanes()
		return
	}
	all, top := []string{}, []string{}
	for _, g := range fairshare.GroupsOf(q) {
		all = append(all, g.Name)
		if g.Parent < 0 {
			top = append(top, g.Name)
		}
	}
	switch {
	case len(all) <= maxLanes:
		p.Lanes = coordinator.SortedUnique(all)
	case len(top) <= maxLanes:
		p.Lanes = coordinator.SortedUnique(top)
	default:
		p.Lanes = []string{}
	}
	c.settleLanes()
}

// lanesAbove finds, for every group of quotas.yaml that has no lane, that of the nearest group
// above it.
func (c *Config) lanesAbove(q *coordinator.Quotas) {
	p := &c.policy
	p.LanesAbove = nil
	if q == nil || len(p.Lanes) == 0 {
		return
	}
	p.LanesAbove = make(map[string]string)
	groups := fairshare.GroupsOf(q)
	for _, g := range groups { // parents come first
		if g.Parent < 0 || p.HasLane(g.Name) {
			continue
		}
		if lane := p.LaneOf(groups[g.Parent].Name); lane != coordinator.LaneOther {
			p.LanesAbove[g.Name] = lane
		}
	}
}

// Notes says what counts otherwise than it is written, for people.
func (c *Config) Notes() (notes []string) {
	if c.lanesOff != "" {
		notes = append(notes, "lanes are off: "+c.lanesOff)
	}
	if c.cappedFrom > 0 {
		notes = append(notes, fmt.Sprintf("assignment_timeout_seconds: %.0f counts as %.0f, because without lanes tasks that wait are held in the window",
			c.cappedFrom.Seconds(), heldWithoutLanes.Seconds()))
	}
	return append(notes, c.ignored...)
}
