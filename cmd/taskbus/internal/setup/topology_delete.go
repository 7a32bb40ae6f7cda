package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
)

func topologyDeleteCommand(a *cli.App) *cobra.Command {
	var path string
	var yes bool
	c := &cobra.Command{
		Use:   "delete",
		Short: "Take everything of Taskbus away from the broker, with all that is in it",
		Long: `Deletes every queue, stream and exchange that "taskbus topology show" lists, and the
queues of lanes, with the tasks, failures, results and the journal in them: as if
Taskbus had never been there. What producers have declared for themselves stays.

It asks first, unless --yes is given, and does nothing while a coordinator leads.`,
		Example: `  taskbus topology delete
  make clean-demo`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return deleteTopology(c.Context(), a, path, yes) },
	}
	cli.ConfigFlag(c, &path)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask first")
	return c
}

func deleteTopology(ctx context.Context, a *cli.App, path string, yes bool) error {
	env, _, cfg, err := a.Configuration(path)
	if err != nil {
		return err
	}
	ctx, cancel := a.Stoppable(ctx)
	defer cancel()
	where, all := cli.BrokerAddress(env.RabbitMQURL), Everything(cfg)
	broker := a.OpenQuietBus(env)
	clearer, ok := broker.(bus.Clearer)
	if !ok { // every bus of this program is one
		return errors.New("this kind of broker cannot be cleared")
	}
	if !yes {
		tasks, err := waitingTasks(ctx, broker, all)
		if err != nil {
			return fmt.Errorf("look at %s: %w", where, err)
		}
		if err := a.Agreed(fmt.Sprintf("delete everything of Taskbus at %s, with %s in its queues", where,
			cli.Count(tasks, "message"))); err != nil {
			return err
		}
	}
	n, err := clearer.Clear(ctx, all)
	switch {
	case errors.Is(err, bus.ErrInUse):
		return fmt.Errorf("nothing was deleted: a coordinator leads at %s; stop it first", where)
	case err != nil:
		return fmt.Errorf("delete the topology at %s: %w", where, err)
	}
	return a.Text(func(p *cli.Page) { p.Line("%s: %s deleted", where, cli.Count(n, "queue")) })
}

// Everything is the topology of a configuration with what the coordinator adds to it when needed.
func Everything(cfg *config.Config) bus.Topology {
	t := standard(cfg, bus.Off)
	for _, lane := range []string{"other", "~held"} {
		t.Queues = append(t.Queues, bus.LaneQueue(lane))
	}
	return t
}

// waitingTasks counts the messages in the queues of t that exist; streams do not count.
func waitingTasks(ctx context.Context, b bus.Bus, t bus.Topology) (n int, err error) {
	session, err := b.Open(ctx, bus.SessionSpec{Name: cli.SessionName("topology"),
		Topology: bus.Topology{Mode: bus.Off}})
	if err != nil {
		return 0, err
	}
	defer func() { _ = session.Close(ctx) }() // only looked at
	for _, q := range t.Queues {
		if q.Kind == bus.Stream {
			continue
		}
		d, err := session.Depth(ctx, q.Name)
		if err != nil && !errors.Is(err, bus.ErrNoQueue) {
			return 0, err
		}
		n += d.Ready
	}
	return n, nil
}
