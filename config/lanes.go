package config

import (
	"fmt"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
)

// maxLanes bounds the groups with a lane of their own: each may become a queue.
const maxLanes = 1000

// lanesWish is what agents.yaml says of lanes.
type lanesWish uint8

const (
	lanesWherePossible lanesWish = iota // nothing
	lanesYes
	lanesNo
	lanesOfList // which groups have one of their own
)

// lanes reads whether there are lanes, or which groups have one of their own.
func (d *decoder) lanes(c *Config) reader {
	return func(p place) {
		switch {
		case p.Null():
			return
		case p.Scalar():
			on := false
			if p.Node.Tag != "!!bool" {
				d.Fault(p, "must be true, false or a list of the groups that have a lane each, not %s", p.Found())
				return
			}
			if d.Bool(&on)(p); on {
				c.lanes = lanesYes
			} else {
				c.lanes = lanesNo
			}
			return
		}
		keys := []string{}
		d.List(p, "groups", func(item place) {
			if key, ok := d.Take(item, yamlconf.ID); ok {
				keys = append(keys, key)
			}
		})
		if len(keys) > maxLanes {
			d.Fault(p, "names %d groups, and at most %d may have a lane of their own; the others share one", len(keys), maxLanes)
		}
		c.lanes, c.policy.Lanes = lanesOfList, append([]string{}, coordinator.SortedUnique(keys)...)
	}
}

// settleLanes switches lanes off where they are not wanted or cannot be; of those that were asked
// for Notes says so.
func (c *Config) settleLanes() {
	p := &c.policy
	why := c.whyNoLanes()
	c.lanesOff, p.LaneRoom = "", 0
	switch {
	case c.lanes == lanesNo:
		p.Lanes = nil
		return
	case why != "":
		p.Lanes = nil
		if c.lanes != lanesWherePossible {
			c.lanesOff = why
		}
		return
	case p.Lanes == nil:
		p.Lanes = []string{}
	}
	p.LaneRoom = max(1, c.Window/2)
}

// whyNoLanes is why there can be no lanes; empty: there can.
func (c *Config) whyNoLanes() string {
	switch {
	case c.Queues != QueuesQuorum:
		return "they are quorum queues, and `queues: classic` promises none"
	case c.Topology != TopologyDeclare:
		return fmt.Sprintf("their queues are made when they are needed, which `topology: %s` does not allow", c.Topology)
	case !c.Journal:
		return "the journal says which lanes hold tasks, and it is switched off"
	}
	return ""
}

// lanesOf gives the groups of quotas.yaml lanes of their own, unless agents.yaml says which
// have. Of more groups than may have one those at the top do. A group without one uses that of
// the nearest group above it.
func (c *Config) lanesOf(q *coordinator.Quotas) {
	p := &c.policy
	if c.lanes == lanesOfList || c.lanes == lanesNo {
		return
	}
	if p.Lanes = nil; q == nil {
		c.settleLanes()
		return
	}
	all, top := []string{}, []string{}
	for _, g := range fairqueue.NodesOf(q) {
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
	groups := fairqueue.NodesOf(q)
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
	if s := &c.policy.Settings; c.policy.Lanes == nil && s.AssignmentTimeout > s.MaxTimeout {
		notes = append(notes, fmt.Sprintf(
			"assignment_timeout_seconds: %.0f counts as %.0f, because without lanes a task that waits is held "+
				"unacknowledged, which the broker allows for so long (broker_consumer_timeout_seconds less %.0f)",
			s.AssignmentTimeout.Seconds(), s.MaxTimeout.Seconds(), consumerTimeoutMargin.Seconds()))
	}
	return append(notes, c.ignored...)
}
