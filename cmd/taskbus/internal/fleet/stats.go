package fleet

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
)

func statsCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show the fleet in figures: capacity, pending work, success, bottlenecks",
		Long: `Shows the capacity, pending work and success of each agent, and the totals.

  CAPACITY  items a second: as the agent reports it, ~ measured from its results,
            ~ and ? from fewer than 60 of them
  PENDING   items that it has not finished, DRAIN how long they will take
  HEALTH    HEALTHY, BUSY from 30 s of pending work on, OVERLOADED from 60 s on;
            FAILING: it is ejected, or fails more than half of its tasks
  SUCCESS   expected success rate, 0 to 1; TOOK mean duration of its tasks
  SHARE     its part of all pending work; TARGET its part of the total capacity: an
            agent whose SHARE is larger has too much

Agents that are not online are counted as offline and in no other figure.`,
		Example: `  taskbus agents stats
  taskbus agents stats -o json`,
		Args: cobra.NoArgs,
	}
	cli.Shows(a, c, "/agents/stats", printStats)
	return c
}

func printStats(p *cli.Page, s view.AgentStats) {
	if len(s.Agents) > 0 {
		t := cli.NewTable("AGENT", "STATE", "CAPACITY", "PENDING", "DRAIN", "HEALTH", "SUCCESS", "TOOK", "LOAD",
			"SHARE", "TARGET")
		for _, g := range s.Agents {
			t.Row(g.ID, g.State, capacityOf(g), g.Pending, drainOf(g.DrainSeconds), g.Health,
				fmt.Sprintf("%.2f", g.SuccessRate), cli.Milliseconds(g.DurationMS), fmt.Sprintf("%.2f", g.Load),
				fmt.Sprintf("%.2f", g.LoadFactor), fmt.Sprintf("%.2f", g.TargetLoadFactor))
		}
		p.Table(t)
		p.Blank()
	}
	q, m := s.QueueDepth, s.Swarm
	p.Line("%s: %d idle, %d busy, %d offline; %s in flight", cli.Count(m.Total, "agent"), m.Idle, m.Busy, m.Offline,
		cli.Count(m.InFlight, "task"))
	p.Line("capacity %.1f items/s; %d pending: %d at agents, %d here, %d in task.assign(.high) and lanes",
		s.TotalCapacity, s.GlobalQueueDepth, q.Agents, q.Waiting, q.Unread)
	latency := cli.Milliseconds(m.AverageLatencyMS)
	if latency == "" {
		latency = "not known"
	}
	p.Line("on average: load %.2f, success %.2f, latency %s", m.AverageLoad, m.AverageSuccessRate, latency)
	if len(m.Bottlenecks) > 0 {
		names := make([]string, len(m.Bottlenecks))
		for i, b := range m.Bottlenecks {
			names[i] = b.ID + " (" + strings.Join(b.Why, ", ") + ")"
		}
		p.Line("bottlenecks: %s", strings.Join(names, ", "))
	}
	for _, g := range s.Agents {
		if len(g.EjectedFrom) > 0 {
			p.Line("%s gets no work for %s at the moment: it failed too often", g.ID, strings.Join(g.EjectedFrom, ", "))
		}
	}
}

// capacityOf says how fast an agent is, and how that is known.
func capacityOf(g view.AgentInfo) string {
	text := fmt.Sprintf("%.1f", g.Capacity)
	switch {
	case g.CapacityReported:
		return text
	case g.WarmUp:
		return "~" + text + "?"
	default:
		return "~" + text
	}
}

// drainOf renders a drain time; empty for none.
func drainOf(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return cli.Shortly(seconds)
}
