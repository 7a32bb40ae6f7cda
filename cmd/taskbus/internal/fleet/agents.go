package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
)

func AgentsCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "agents",
		Short: "Show the fleet: which agents are online, how busy, and which could take a task now",
		Long: `Shows every agent as the coordinator sees it.

  STATE      never_seen, online, offline (it said so), stale (silent too long) or
             gone (its queue has no consumer)
  LOAD       0 to 1; counts the coordinator's own dispatches at once
  SLOTS      tasks it has of tasks it may have
  LEASED     dispatches that are with it and not known to have ended
  ASSIGNED   tasks it was given, as far back as the journal knows
  FAILED     of its tasks that ended in the last ten minutes, how many failed or
             were not done in time
  HEARTBEAT  when it was last heard; of what a coordinator has read when it started,
             by the agent's own clock
  ELIGIBLE   yes, or what keeps it from getting a task now; cordoned, draining and
             drained are an operator's doing (see the commands below); "not gpu"
             is one that is ejected from this capability, because it failed too often

Below the table stand the agents that need attention: several processes under one
id; ejected, until when; failing; with tasks that were not done in time; with slots
that its heartbeats have said for a minute are taken, by nothing that was given to
it: its handlers hang.

Whether an agent has the capabilities is a matter of each task: see explain.`,
		Example: `  taskbus agents
  taskbus agents -o json
  taskbus agents --url http://coordinator.internal:8551`,
		Args: cli.Subcommand,
	}
	c.AddCommand(cordonCommand(a), uncordonCommand(a), drainCommand(a), statsCommand(a),
		tokenCommand(a))
	base := cli.URLFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := cli.Ask[view.Status](c.Context(), a, *base, "/status")
		if err != nil {
			return err
		}
		list := struct {
			Agents []view.Agent `json:"agents"`
		}{s.Agents}
		err = a.Show(list, func(p *cli.Page) { printAgents(p, s.Agents) })
		if err != nil || s.Broker.Connected || a.Output == cli.OutputJSON {
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

func printAgents(p *cli.Page, agents []view.Agent) {
	t := cli.NewTable("AGENT", "STATE", "STATUS", "LOAD", "SLOTS", "LEASED", "ASSIGNED", "FAILED", "HEARTBEAT",
		"ELIGIBLE")
	joined := 0
	var suspects []string
	for _, g := range agents {
		if text := suspicion(p.Now(), &g); text != "" {
			suspects = append(suspects, text)
		}
		if g.Discovered {
			joined++
		}
		t.Row(g.ID, g.State, g.Status, fmt.Sprintf("%.2f", g.Load), fmt.Sprintf("%d/%d", g.InFlight, g.Slots),
			g.Leased, g.Assigned, failedOf(g.Recent), p.Ago(g.LastHeartbeat), cli.Availability(g))
	}
	if len(agents) > 0 {
		p.Table(t)
	}
	sum := summarise(agents)
	fleet := cli.Count(sum.Total, "agent")
	if joined > 0 {
		fleet += fmt.Sprintf(" (%d joined by discovery)", joined)
	}
	p.Line("%s, %d online with %d of %s in use", fleet, sum.Online, sum.SlotsUsed, cli.Count(sum.Slots, "slot"))
	for i, text := range suspects {
		if i == maxSuspects {
			p.Line("… and %d more like that (-o json has all)", len(suspects)-i)
			break
		}
		p.Line("%s", text)
	}
}

// maxSuspects is how many agents are named below the table.
const maxSuspects = 10

// failedOf is how many of an agent's tasks failed of late; empty when none ended.
func failedOf(r view.AgentResults) string {
	if r.Ended() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", r.Failed+r.Overdue, r.Ended())
}

// suspicion says what is wrong with an agent's work; empty: nothing is known to be.
func suspicion(now time.Time, g *view.Agent) string {
	var parts []string
	if g.Instances > 1 {
		parts = append(parts, fmt.Sprintf(
			"is the id of %d processes, and the slots and tasks of one count for all: give each its own agent_id",
			g.Instances))
	}
	for i, e := range g.Ejected {
		what, until := e.Capability, "being tried again"
		if e.Capability == "" {
			what = "tasks that require nothing"
		}
		if left := e.Until.Sub(now); !e.Until.IsZero() {
			until = "until " + e.Until.UTC().Format(time.TimeOnly) + " UTC"
			if left >= time.Second {
				until += ", " + cli.InUnit(left)
			}
		}
		if i == 0 {
			what = "is ejected from " + what
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", what, until))
	}
	if g.Recent.Failing() {
		parts = append(parts, fmt.Sprintf("is failing: %d of %s in ten minutes", g.Recent.Failed+g.Recent.Overdue,
			cli.Count(g.Recent.Ended(), "task")))
	}
	if g.Recent.Overdue > 0 {
		parts = append(parts, fmt.Sprintf("did not do %s in time", cli.Count(g.Recent.Overdue, "task")))
	}
	if g.Strays > 0 {
		parts = append(parts, fmt.Sprintf("has %s taken by nothing that was given to it (its handlers hang? start it "+
			"again)", cli.Count(g.Strays, "slot")))
	}
	if len(parts) == 0 {
		return ""
	}
	return g.ID + " " + strings.Join(parts, ", ")
}
