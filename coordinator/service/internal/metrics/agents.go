package metrics

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// otherAgents is the agent_id of the series that all agents without series of their own share.
const otherAgents = "other"

// TimedOut stands for the dispatches without a result in time, beside the outcomes that agents report.
const (
	TimedOut         = coordinator.NumOutcomes
	numAgentOutcomes = coordinator.NumOutcomes + 1
)

// Of the agents without series of their own the trouble is forgotten by half in troubleHalfLife. At
// most mostTroubled of them are known.
const (
	troubleHalfLife = 10 * time.Minute
	mostTroubled    = 10_000
)

var (
	descAgentResults = prometheus.NewDesc("taskbus_agent_results_total",
		"Results, timed_out among the outcomes, of the agents with most failures lately (metrics.agents); others "+
			"as other.", []string{"agent_id", "outcome"}, nil)
	descAgentEjections = agentDesc("agent_ejections_total",
		"Ejections from a capability; agents as in taskbus_agent_results_total.")
)

// Agents count how tasks end by agent, for the agents that fail most: a label for each agent of
// a large fleet would be too much for Prometheus. An agent that gets series of its own begins them at 0,
// and what is counted under other never becomes less: both are counters to rate(), whichever agents come and go.
type Agents struct {
	now func() time.Time

	mu    sync.Mutex
	most  int // agents with series of their own
	own   map[coordinator.AgentID]*agentCount
	other agentCount
	rest  map[coordinator.AgentID]*trouble // of those without series
}

type agentCount struct {
	outcomes  [numAgentOutcomes]uint64
	ejections uint64
	trouble   trouble
}

// trouble is how much an agent has failed lately, of which older failures count less.
type trouble struct {
	sum float64
	at  time.Time
}

func (t *trouble) value(now time.Time) float64 {
	return t.sum * math.Exp2(-float64(now.Sub(t.at))/float64(troubleHalfLife))
}

func (t *trouble) add(now time.Time) { t.sum, t.at = t.value(now)+1, now }

func newAgents(now func() time.Time) *Agents {
	return &Agents{now: now, own: make(map[coordinator.AgentID]*agentCount),
		rest: make(map[coordinator.AgentID]*trouble)}
}

// Limit lets so many agents have series of their own, none at first.
func (c *Agents) Limit(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
}

// Result counts how a task ended at an agent; bad: it speaks against the agent.
func (c *Agents) Result(id coordinator.AgentID, outcome coordinator.Outcome, bad bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(id, bad).outcomes[outcome]++
}

// Ejected counts that an agent was ejected from a capability.
func (c *Agents) Ejected(id coordinator.AgentID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(id, true).ejections++
}

// Came notes an agent: while there is room its series begin before its first result, so that rate()
// sees that as well.
func (c *Agents) Came(id coordinator.AgentID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(id, false)
}

// of returns where something about an agent is counted; bad: it speaks against it.
func (c *Agents) of(id coordinator.AgentID, bad bool) *agentCount {
	now := c.now()
	for len(c.own) > c.most { // the configuration has changed
		c.demote(now)
	}
	own := c.own[id]
	switch {
	case id == otherAgents: // an agent of that name cannot be distinguished from the others
		return &c.other
	case own == nil && len(c.own) < c.most:
		own = &agentCount{}
		c.own[id] = own
	case own == nil && !bad:
		return &c.other
	case own == nil:
		t := c.rest[id]
		if t == nil {
			if len(c.rest) >= mostTroubled {
				c.forget(now)
			}
			t = &trouble{}
			c.rest[id] = t
		}
		t.add(now)
		// Twice as much, so that two agents do not take the place from each other all the time.
		if least, _ := c.least(now); t.value(now) <= 2*least {
			return &c.other
		}
		c.demote(now)
		delete(c.rest, id)
		own = &agentCount{trouble: *t}
		c.own[id] = own
		return own
	}
	if bad {
		own.trouble.add(now)
	}
	return own
}

// least returns the least trouble of an agent with series of its own, and which.
func (c *Agents) least(now time.Time) (least float64, which coordinator.AgentID) {
	least = math.Inf(1)
	for id, a := range c.own {
		if v := a.trouble.value(now); v < least || v == least && id > which {
			least, which = v, id
		}
	}
	return least, which
}

// demote takes the series of the agent with the least trouble away.
func (c *Agents) demote(now time.Time) {
	_, id := c.least(now)
	if t := c.own[id].trouble; t.sum > 0 && len(c.rest) < mostTroubled {
		c.rest[id] = &t
	}
	delete(c.own, id)
}

// forget makes room for another agent: of those with trouble long ago, else of all.
func (c *Agents) forget(now time.Time) {
	for id, t := range c.rest {
		if t.value(now) < 0.5 {
			delete(c.rest, id)
		}
	}
	if len(c.rest) >= mostTroubled {
		clear(c.rest)
	}
}

// Describe and Collect make it a Prometheus collector.
func (c *Agents) Describe(ch chan<- *prometheus.Desc) {
	ch <- descAgentResults
	ch <- descAgentEjections
}

func (c *Agents) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	emit := func(id string, a *agentCount) {
		for o, n := range a.outcomes {
			word := "timed_out"
			if o < coordinator.NumOutcomes {
				word = coordinator.Outcome(o).String()
			}
			ch <- prometheus.MustNewConstMetric(descAgentResults, prometheus.CounterValue, float64(n), id, word)
		}
		ch <- prometheus.MustNewConstMetric(descAgentEjections, prometheus.CounterValue, float64(a.ejections), id)
	}
	for id, a := range c.own {
		emit(string(id), a)
	}
	emit(otherAgents, &c.other)
}
