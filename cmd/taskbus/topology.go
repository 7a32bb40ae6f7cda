package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"taskbus/config"
	"taskbus/coordinator/bus"
)

func (a *app) topologyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "topology",
		Short: "Show, create or delete the queues, streams and exchanges that Taskbus uses",
		Long: `Shows, creates or deletes what Taskbus has at the broker: its own queues, streams and
exchanges, and one queue for each agent of agents.yaml. The coordinator creates what is missing
when it starts (topology: declare), only looks (verify), or does neither (off).`,
		Example: `  taskbus topology show
  taskbus topology policies | sh
  taskbus topology apply --config config/agents.yaml`,
		Args: subcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.topologyShowCommand(), a.topologyPoliciesCommand(), a.topologyApplyCommand(), a.topologyDeleteCommand())
	return c
}

// standard is the topology of a configuration.
func standard(cfg *config.Config, mode bus.Mode) bus.Topology {
	return bus.Standard(mode, bus.Profile(cfg.Queues), cfg.AgentQueues())
}

func (a *app) topologyShowCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "show",
		Short: "List what should be at the broker for this configuration",
		Long: `Lists every queue, stream, exchange and binding that belongs to agents.yaml, with
the arguments that cannot be changed once a queue exists. It asks no broker; to
compare, use rabbitmqctl list_queues name type arguments.`,
		Example: `  taskbus topology show
  taskbus topology show --config config/agents.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, cfg, err := a.loadConfig(path, config.Environment{})
			if err != nil {
				return err
			}
			t := standard(cfg, bus.Mode(cfg.Topology))
			if a.output == outputJSON {
				return a.printJSON(t)
			}
			return printTopology(a.out, t)
		},
	}
	configFlag(c.Flags(), &path)
	return c
}

func printTopology(w io.Writer, t bus.Topology) error {
	queues := newTable("QUEUE", "KIND", "DEAD LETTERS TO", "DELIVERIES", "KEEPS")
	for _, q := range t.Queues {
		deliveries := ""
		if q.Kind == bus.Quorum {
			deliveries = fmt.Sprint(q.DeliveryLimit)
		}
		queues.row(q.Name, q.Kind, q.DeadLetter, deliveries, keeps(q))
	}
	exchanges := newTable("EXCHANGE", "KIND")
	for _, e := range t.Exchanges {
		exchanges.row(e.Name, e.Kind)
	}
	bindings := newTable("FROM EXCHANGE", "KEY", "TO QUEUE")
	for _, b := range t.Bindings {
		bindings.row(b.Exchange, b.Key, b.Queue)
	}
	for i, part := range []*table{queues, exchanges, bindings} {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := part.print(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\ntopology: %s\n", t.Mode)
	return err
}

// keeps says in words how much a queue holds and for how long.
func keeps(q bus.Queue) string {
	switch {
	case q.Kind == bus.Stream:
		return fmt.Sprintf("%s, %s", period(q.MaxAge), size(q.MaxBytes))
	case q.TTL > 0:
		return fmt.Sprintf("%s, the newest %d", period(q.TTL), q.MaxLength)
	default:
		return "all"
	}
}

// period renders a whole number of hours.
func period(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return count(int(d/(24*time.Hour)), "day")
	}
	return count(int(d/time.Hour), "hour")
}

func size(bytes int64) string {
	if bytes >= 1_000_000_000 {
		return fmt.Sprintf("%d GB", bytes/1_000_000_000)
	}
	return fmt.Sprintf("%d MB", bytes/1_000_000)
}

func (a *app) topologyApplyCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "apply",
		Short: "Create what is missing at the broker, now",
		Long: `Creates every queue, stream, exchange and binding that is missing, whatever
agents.yaml says under topology. What exists is never changed or deleted; where it
differs from that, it is used as it is and reported.

For set-ups in which the coordinator's own user may not create anything
(topology: verify), with RABBITMQ_URL naming a user that may.`,
		Example: `  taskbus topology apply
  RABBITMQ_URL_FILE=/run/secrets/admin-url taskbus topology apply --config agents.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.applyTopology(c.Context(), path) },
	}
	configFlag(c.Flags(), &path)
	return c
}

func (a *app) applyTopology(ctx context.Context, path string) error {
	env, err := a.environment()
	if err != nil {
		return err
	}
	_, cfg, err := a.loadConfig(path, env)
	if err != nil {
		return err
	}
	ctx, cancel := a.stoppable(ctx)
	defer cancel()
	where := brokerAddress(env.RabbitMQURL)
	want := standard(cfg, bus.Declare)
	session, err := a.openQuietBus(env).Open(ctx, bus.SessionSpec{Name: sessionName("topology"), Topology: want})
	if err != nil {
		return fmt.Errorf("create the topology at %s: %w", where, err)
	}
	findings := session.Findings()
	if err := session.Close(ctx); err != nil {
		return fmt.Errorf("close the connection to %s: %w", where, err)
	}
	if a.output == outputJSON {
		return a.printJSON(struct {
			Broker    string        `json:"broker"`
			Queues    int           `json:"queues"`
			Exchanges int           `json:"exchanges"`
			Bindings  int           `json:"bindings"`
			Findings  []bus.Finding `json:"findings"`
		}{where, len(want.Queues), len(want.Exchanges), len(want.Bindings), findings})
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.out, "%s is otherwise than wanted and used as it is: %s\n", f.Object,
			oneLine(f.Text)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.out, "%s: %s, %s and %s are there\n", where,
		count(len(want.Queues), "queue"), count(len(want.Exchanges), "exchange"), count(len(want.Bindings), "binding"))
	return err
}
