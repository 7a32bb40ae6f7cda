package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
)

func TopologyCommand(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "topology",
		Short: "Show, create or delete the queues, streams and exchanges that Taskbus uses",
		Long: `Shows, creates or deletes what Taskbus has at the broker: its own queues, streams and
exchanges, and one queue for each agent of agents.yaml. The coordinator creates what is missing
when it starts (topology: declare), only looks (verify), or does neither (off).`,
		Example: `  taskbus topology show
  taskbus topology policies | sh
  taskbus topology apply --config config/agents.yaml`,
	}, topologyShowCommand(a), topologyPoliciesCommand(a), topologyApplyCommand(a), topologyDeleteCommand(a))
}

// standard is the topology of a configuration.
func standard(cfg *config.Config, mode bus.Mode) bus.Topology {
	return bus.Standard(mode, bus.Profile(cfg.Queues), cfg.AgentQueues())
}

func topologyShowCommand(a *cli.App) *cobra.Command {
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
			_, cfg, err := a.LoadConfig(path, config.Environment{})
			if err != nil {
				return err
			}
			t := standard(cfg, bus.Mode(cfg.Topology))
			return a.Show(t, func(p *cli.Page) { printTopology(p, t) })
		},
	}
	cli.ConfigFlag(c, &path)
	return c
}

func printTopology(p *cli.Page, t bus.Topology) {
	queues := cli.NewTable("QUEUE", "KIND", "DEAD LETTERS TO", "DELIVERIES", "KEEPS")
	for _, q := range t.Queues {
		deliveries := ""
		if q.Kind == bus.Quorum {
			deliveries = fmt.Sprint(q.DeliveryLimit)
		}
		queues.Row(q.Name, q.Kind, q.DeadLetter, deliveries, keeps(q))
	}
	exchanges := cli.NewTable("EXCHANGE", "KIND")
	for _, e := range t.Exchanges {
		exchanges.Row(e.Name, e.Kind)
	}
	bindings := cli.NewTable("FROM EXCHANGE", "KEY", "TO QUEUE")
	for _, b := range t.Bindings {
		bindings.Row(b.Exchange, b.Key, b.Queue)
	}
	for _, part := range []*cli.Table{queues, exchanges, bindings} {
		p.Table(part)
		p.Blank()
	}
	p.Line("topology: %s", t.Mode)
}

// keeps says in words how much a queue holds and for how long.
func keeps(q bus.Queue) string {
	switch {
	case q.Kind == bus.Stream:
		return fmt.Sprintf("%s, %s", period(q.MaxAge), cli.Size(q.MaxBytes))
	case q.TTL > 0:
		return fmt.Sprintf("%s, the newest %d", period(q.TTL), q.MaxLength)
	default:
		return "all"
	}
}

// period renders a whole number of minutes.
func period(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return cli.Count(int(d/(24*time.Hour)), "day")
	case d%time.Hour != 0:
		return cli.Count(int(d/time.Minute), "minute")
	}
	return cli.Count(int(d/time.Hour), "hour")
}

func topologyApplyCommand(a *cli.App) *cobra.Command {
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
		RunE: func(c *cobra.Command, _ []string) error { return applyTopology(c.Context(), a, path) },
	}
	cli.ConfigFlag(c, &path)
	return c
}

func applyTopology(ctx context.Context, a *cli.App, path string) error {
	env, _, cfg, err := a.Configuration(path)
	if err != nil {
		return err
	}
	ctx, cancel := a.Stoppable(ctx)
	defer cancel()
	where := cli.BrokerAddress(env.RabbitMQURL)
	want := standard(cfg, bus.Declare)
	session, err := a.OpenQuietBus(env).Open(ctx, bus.SessionSpec{Name: cli.SessionName("topology"), Topology: want})
	if err != nil {
		return fmt.Errorf("create the topology at %s: %w", where, err)
	}
	findings := session.Findings()
	if err := session.Close(ctx); err != nil {
		return fmt.Errorf("close the connection to %s: %w", where, err)
	}
	return a.Show(struct {
		Broker    string        `json:"broker"`
		Queues    int           `json:"queues"`
		Exchanges int           `json:"exchanges"`
		Bindings  int           `json:"bindings"`
		Findings  []bus.Finding `json:"findings"`
	}{where, len(want.Queues), len(want.Exchanges), len(want.Bindings), findings}, func(p *cli.Page) {
		for _, f := range findings {
			p.Line("%s is otherwise than wanted and used as it is: %s", f.Object, f.Text)
		}
		p.Line("%s: %s, %s and %s are there", where, cli.Count(len(want.Queues), "queue"),
			cli.Count(len(want.Exchanges), "exchange"), cli.Count(len(want.Bindings), "binding"))
	})
}
