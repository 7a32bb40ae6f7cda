package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// agentCountsOf are counts for so many agents, and what a scrape finds.
type agentCountsOf struct {
	*Agents
	at time.Time
}

func newAgentCountsOf(most int) *agentCountsOf {
	c := &agentCountsOf{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.Agents = newAgents(func() time.Time { return c.at })
	c.Limit(most)
	return c
}

// scrape gives failed results and ejections, by agent.
func (c *agentCountsOf) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(c.Agents); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			if name, l := f.GetName(), m.Label; name == "taskbus_agent_ejections_total" || l[1].GetValue() == "failed" {
				found[l[0].GetValue()] += m.Counter.GetValue()
			}
		}
	}
	return found
}

func (c *agentCountsOf) fails(id string, times int) {
	for range times {
		c.Result(coordinator.AgentID(id), coordinator.OutcomeFailed, true)
	}
}

// The agents that fail have series of their own, however many others there are.
func TestFailingAgentsHaveSeriesOfTheirOwn(t *testing.T) {
	c := newAgentCountsOf(2)
	c.Came("quiet-1")
	c.Came("quiet-2")
	c.Result("quiet-3", coordinator.OutcomeFailed, false) // by its own word no fault of the agent's
	expect := func(when string, want map[string]float64) {
		t.Helper()
		if got := c.scrape(t); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("no trouble yet", map[string]float64{"quiet-1": 0, "quiet-2": 0, "other": 1})
	c.fails("bad", 3)
	expect("one fails", map[string]float64{"quiet-1": 0, "bad": 3, "other": 1})
	c.Ejected("worse")
	expect("another is ejected", map[string]float64{"worse": 1, "bad": 3, "other": 1})
	// 2 are no more than twice the 1 of worse; with the 3rd it is, and has its series from there on.
	c.fails("third", 3)
	expect("a third fails more", map[string]float64{"third": 1, "bad": 3, "other": 3})
	// What comes under other never becomes less: worse is there with what it does from now on.
	c.fails("worse", 1)
	expect("the ejected one again", map[string]float64{"third": 1, "bad": 3, "other": 4})
	// An hour later, 2⁻⁶ of all that is left, a few failures count more.
	c.at = c.at.Add(time.Hour)
	c.fails("new", 1)
	expect("an hour later", map[string]float64{"new": 1, "bad": 3, "other": 4})
	c.Limit(1)
	c.fails("new", 1)
	expect("a reload that leaves one", map[string]float64{"new": 2, "other": 4})
	c.Limit(0)
	c.fails("new", 1)
	expect("a reload that leaves none", map[string]float64{"other": 5})
	c.Limit(2)
	c.fails("other", 1) // an agent of that name
	expect("an agent called other", map[string]float64{"other": 6})
}

// However large the fleet is, what is known of it is bounded.
func TestAgentCountsAreBounded(t *testing.T) {
	c := newAgentCountsOf(50)
	for i := range 3 * mostTroubled {
		c.at = c.at.Add(time.Second)
		c.fails(fmt.Sprint("a", i), 1)
	}
	if len(c.own) != 50 || len(c.rest) > mostTroubled {
		t.Errorf("%d with series, %d without", len(c.own), len(c.rest))
	}
	if n := len(c.scrape(t)); n != 51 { // and other
		t.Errorf("%d agent_id, want 51", n)
	}
}
