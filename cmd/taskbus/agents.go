package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator/httpapi"
)

func (a *app) agentsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "agents",
		Short: "Show the fleet: who is online, how busy, who could take a task now",
		Long: `Shows every agent as the coordinator sees it.

  STATE      never_seen, online, offline (it said so) or stale (silent too long)
  LOAD       0 to 1; counts the coordinator's own dispatches at once
  SLOTS      tasks it has of tasks it may have
  ASSIGNED   tasks it was given since the coordinator started
  ELIGIBLE   yes, or what keeps it from getting a task now

Whether an agent has the capabilities is a matter of each task: see explain.`,
		Example: `  taskbus agents
  taskbus agents -o json
  taskbus agents --url http://coordinator.internal:8551`,
		Args: cobra.NoArgs,
	}
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		s, err := client.status(c.Context())
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(struct {
				Agents []httpapi.Agent `json:"agents"`
			}{s.Agents})
		}
		return printAgents(a.out, s.Agents, a.now())
	}
	return c
}

func printAgents(w io.Writer, agents []httpapi.Agent, now time.Time) error {
	t := newTable("AGENT", "STATE", "STATUS", "LOAD", "SLOTS", "RANK", "ASSIGNED", "HEARTBEAT", "ELIGIBLE")
	online, used, slots := 0, 0, 0
	for _, g := range agents {
		eligible := g.WhyNot
		if g.Eligible {
			eligible = "yes"
		}
		if g.State == "online" {
			online++
			used, slots = used+g.InFlight, slots+g.MaxConcurrent
		}
		t.row(g.ID, g.State, g.Status, fmt.Sprintf("%.2f", g.Load), fmt.Sprintf("%d/%d", g.InFlight, g.MaxConcurrent),
			g.Rank, g.Assigned, ago(now, g.LastHeartbeat), eligible)
	}
	if len(agents) > 0 {
		if err := t.print(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s, %d online with %d of %s in use\n", count(len(agents), "agent"), online, used, count(slots, "slot"))
	return err
}
