package main

import (
	"errors"
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

  STATE      never_seen, online, offline (it said so), stale (silent too long) or
             gone (nobody consumes its queue)
  LOAD       0 to 1; counts the coordinator's own dispatches at once
  SLOTS      tasks it has of tasks it may have
  LEASED     dispatches that are with it and not known to have ended
  ASSIGNED   tasks it was given, as far back as the journal knows
  HEARTBEAT  when it was last heard; of what a coordinator has read when it started,
             by the agent's own clock
  ELIGIBLE   yes, or what keeps it from getting a task now; cordoned, draining and
             drained are an operator's doing (see the commands below)

Whether an agent has the capabilities is a matter of each task: see explain.`,
		Example: `  taskbus agents
  taskbus agents -o json
  taskbus agents --url http://coordinator.internal:8551`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(a.agentsCordonCommand(), a.agentsUncordonCommand(), a.agentsDrainCommand(), a.agentsStatsCommand(), a.agentsTokenCommand())
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
		if err := printAgents(a.out, s.Agents, a.now()); err != nil || s.Broker.Connected {
			return err
		}
		text := "the coordinator has no session with its broker: this is what it knew when it had one"
		if s.Broker.LastError != "" {
			text += " (" + s.Broker.LastError + ")"
		}
		return errors.New(text)
	}
	return c
}

func printAgents(w io.Writer, agents []httpapi.Agent, now time.Time) error {
	t := newTable("AGENT", "STATE", "STATUS", "LOAD", "SLOTS", "LEASED", "RANK", "ASSIGNED", "HEARTBEAT", "ELIGIBLE")
	online, used, slots, joined := 0, 0, 0, 0
	for _, g := range agents {
		if g.Discovered {
			joined++
		}
		if g.Online() {
			online++
			used, slots = used+g.InFlight, slots+g.Slots
		}
		t.row(g.ID, g.State, g.Status, fmt.Sprintf("%.2f", g.Load), fmt.Sprintf("%d/%d", g.InFlight, g.Slots),
			g.Leased, g.Rank, g.Assigned, ago(now, g.LastHeartbeat), availability(g))
	}
	if len(agents) > 0 {
		if err := t.print(w); err != nil {
			return err
		}
	}
	fleet := count(len(agents), "agent")
	if joined > 0 {
		fleet += fmt.Sprintf(" (%d joined by discovery)", joined)
	}
	_, err := fmt.Fprintf(w, "%s, %d online with %d of %s in use\n", fleet, online, used, count(slots, "slot"))
	return err
}

// availability is whether an agent could get a task now, or why not. What an
// operator has ordered goes before what the agent itself is.
func availability(g httpapi.Agent) string {
	switch {
	case g.Drained:
		return "drained"
	case g.Draining:
		return "draining"
	case g.Cordoned:
		return "cordoned"
	case g.Eligible:
		return "yes"
	default:
		return g.WhyNot
	}
}
