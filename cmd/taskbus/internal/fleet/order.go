package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

func cordonCommand(a *cli.App) *cobra.Command {
	return orderCommand(a, coordinator.OrderCordon, "Give an agent no new work",
		`Cordons one agent: it gets no new task. What it has, also what waits in its queue,
stays with it. The journal keeps the order (without one it ends with the coordinator);
uncordon takes it back.`,
		`  taskbus agents cordon gpu-1
  taskbus agents cordon gpu-1 -o json`)
}

func uncordonCommand(a *cli.App) *cobra.Command {
	return orderCommand(a, coordinator.OrderUncordon, "Give an agent work again",
		`Ends cordon and drain of one agent: it gets tasks again as soon as it is online
and has a free slot.`,
		`  taskbus agents uncordon gpu-1
  taskbus agents uncordon gpu-1 --url http://coordinator.internal:8551`)
}

// orderCommand is a command that gives an order and says how the agent then is.
func orderCommand(a *cli.App, order coordinator.Order, short, long, example string) *cobra.Command {
	c := &cobra.Command{
		Use: order.String() + " AGENT", Short: short, Long: long + cli.NeedsToken, Example: example,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	c.ValidArgsFunction = a.CompleteAgents(base)
	c.RunE = func(c *cobra.Command, args []string) error {
		agent, err := giveOrder(c.Context(), a, *base, args[0], order)
		if err != nil {
			return err
		}
		return a.Show(agent, func(p *cli.Page) { printOrdered(p, agent) })
	}
	return c
}

// giveOrder gives an order for one agent.
func giveOrder(ctx context.Context, a *cli.App, base, id string, order coordinator.Order) (view.Agent, error) {
	if err := cli.CheckID("an agent", id); err != nil {
		return view.Agent{}, err
	}
	return cli.Tell[view.Agent](ctx, a, base, http.MethodPost, "/agents/"+url.PathEscape(id)+"/"+order.String(),
		struct{}{})
}

// printOrdered says how an agent is after an order.
func printOrdered(p *cli.Page, g view.Agent) {
	var state string
	switch {
	case g.Drained:
		state = "drained, nothing is left with it; it may be stopped"
	case g.Draining:
		state = "draining, " + leased(g)
	case g.Cordoned:
		state = "cordoned, " + leased(g)
	default:
		state = "in service, " + leased(g)
		if !g.Eligible {
			state += "; no work at the moment: " + g.WhyNot
		}
	}
	p.Line("%s: %s", g.ID, state)
}

// leased says how much an agent has: "2 tasks left with it".
func leased(g view.Agent) string { return cli.Count(g.Leased, "task") + " with it" }

func drainCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "drain AGENT",
		Short: "Take an agent out of service without losing a task",
		Long: `Drains one agent: it gets no new task, what waits in its queue is given to others,
and what it works on it finishes. When nothing is left with it, it is drained and
may be stopped. The journal keeps the order (without one it ends with the
coordinator); uncordon takes it back.

With --wait the command ends when the agent is drained (exit code 0). It ends with
1 when --timeout has passed, when the agent is uncordoned or leaves the
fleet meanwhile, or when the coordinator is away for more than 30 s; the agent
then goes on draining if the coordinator still knows of it.` + cli.NeedsToken,
		Example: `  taskbus agents drain gpu-1
  taskbus agents drain gpu-1 --wait --timeout 30m && ssh gpu-1 systemctl stop agent`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	wait := c.Flags().Bool("wait", false, "wait until nothing is left with the agent")
	timeout := c.Flags().Duration("timeout", 0, "with --wait: give up after this long, e.g. 90s or 30m (default: "+
		"never)")
	c.ValidArgsFunction = a.CompleteAgents(base)
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case *timeout < 0:
			return cli.UsageError("--timeout must not be negative")
		case *timeout > 0 && !*wait:
			return cli.UsageError("--timeout needs --wait")
		}
		agent, err := giveOrder(c.Context(), a, *base, args[0], coordinator.OrderDrain)
		if err != nil {
			return err
		}
		if *wait {
			if agent, err = waitDrained(c.Context(), a, *base, agent, *timeout); err != nil {
				return err
			}
		}
		return a.Show(agent, func(p *cli.Page) { printOrdered(p, agent) })
	}
	return c
}

// waitDrained waits until nothing is left with an agent, and shows how far it is.
func waitDrained(
	ctx context.Context, a *cli.App, base string, agent view.Agent, limit time.Duration,
) (view.Agent, error) {
	client, err := a.NewAdminClient(base)
	if err != nil {
		return agent, err
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	shown := cli.Progress{W: a.Err, Doing: "draining " + agent.ID, Rewrite: cli.Terminal(a.Err)}
	defer shown.End()
	last := agent.Leased
	watch := drainWatch{
		ask: func(ctx context.Context) (view.Agent, error) { return findAgent(ctx, client, agent.ID) },
		tell: func(g view.Agent) {
			// Where lines cannot be written again, only news are worth one.
			if shown.Rewrite || g.Leased != last {
				last = g.Leased
				shown.Report(a.Now(), func() string { return leased(g) })
			}
		},
	}
	agent, err = watch.wait(ctx, agent)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return agent, fmt.Errorf("%s is not drained after %v: %s; it goes on draining", agent.ID, limit, leased(agent))
	}
	return agent, err
}

// The times of drainWatch.
const (
	drainLook     = time.Second      // between two looks at the agent
	drainPatience = 30 * time.Second // for a coordinator that does not answer
)

// errNotInFleet says that the coordinator does not know the agent.
var errNotInFleet = errors.New("it is not in the fleet any more")

// drainWatch waits for the end of a drain.
type drainWatch struct {
	// ask looks at the agent; errNotInFleet when it has left.
	ask func(context.Context) (view.Agent, error)
	// tell is called with every look that was not the last.
	tell func(view.Agent)
}

// wait returns when the agent is drained. It gives the agent as it was seen last
// also with an error: that of ctx, or why it makes no sense to go on waiting.
func (d *drainWatch) wait(ctx context.Context, agent view.Agent) (view.Agent, error) {
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	answered := time.Now()
	for !agent.Drained {
		d.tell(agent)
		select {
		case <-ctx.Done():
			return agent, ctx.Err()
		case <-tick.C:
		}
		next, err := d.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return agent, ctx.Err()
		case errors.Is(err, errNotInFleet):
			return agent, fmt.Errorf("wait for %s to be drained: %w", agent.ID, err)
		case err != nil && time.Since(answered) > drainPatience:
			return agent, fmt.Errorf("wait for %s to be drained: %w", agent.ID, err)
		case err != nil:
			continue // it may be away for a moment
		case !next.Draining && !next.Drained:
			return next,
				fmt.Errorf(
					"%s is not being drained any more: it was uncordoned, or the coordinator was restarted; give the "+
						"order again", agent.ID)
		}
		agent, answered = next, time.Now()
	}
	return agent, nil
}

// findAgent looks one agent up; errNotInFleet when there is none of this id.
func findAgent(ctx context.Context, c *cli.Client, id string) (view.Agent, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return view.Agent{}, err
	}
	if i := slices.IndexFunc(s.Agents, func(g view.Agent) bool { return g.ID == id }); i >= 0 {
		return s.Agents[i], nil
	}
	return view.Agent{}, errNotInFleet
}
