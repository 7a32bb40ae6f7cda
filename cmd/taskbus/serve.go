package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
)

type serveFlags struct {
	config, quotas string
	http           string
	pprof          bool
	skipCorrupt    bool
	listen         listenFlags
}

func serveCommand(a *cli.App) *cobra.Command {
	var flags serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the coordinator",
		Long: `Runs the coordinator in the foreground until SIGTERM or SIGINT.

It reads agents.yaml, and quotas.yaml if there is one beside it (or where --quotas
or TASKBUS_QUOTAS says), connects to RabbitMQ (and goes on trying while the broker is
away), assigns tasks, and answers HTTP: /health, /readyz, /status, /metrics and
more (/ lists them). Logs go to standard error, one line each: for people where that is
a terminal, else JSON (LOG_FORMAT=console or json says which).

Signals:
  SIGTERM, SIGINT  take no more tasks, settle those in flight, exit with 0; this
                   takes at most shutdown_grace_seconds of agents.yaml
  a second one     exit with 1 at once; RabbitMQ redelivers what was in flight
  SIGHUP           read agents.yaml and quotas.yaml again (a changed file is
                   noticed anyway); if one is broken, that is reported and the old
                   configuration stays

The HTTP server listens on http.bind of agents.yaml (127.0.0.1) and
COORDINATOR_PORT (8551); TASKBUS_HTTP_BIND replaces the former, --http both.
Reading needs no token. Each of these secrets is in a variable, or in the file that the
same variable with _FILE names; without it the request is refused. All are read once, at
the start:

  TASKBUS_ADMIN_TOKEN    changes (tasks cancel, agents cordon, quota set, …) and task.dead
  TASKBUS_AGENT_SECRET   agents report their capacity and ask for quota over HTTP (see
                         taskbus agents token)
  TASKBUS_GATEWAY_TOKEN  gateways ask for quota for agents
  TASKBUS_PRODUCER_TOKEN producers submit tasks over HTTP and read outputs

Envoy asks over gRPC, on the address of --rls or TASKBUS_RLS.

With a certificate (--tls-cert, --tls-key) both servers accept TLS only. With
--client-ca clients may show certificates of this authority instead of tokens: the
common name is the agent's id, or one of TASKBUS_GATEWAY_NAMES (separated by commas) for
a gateway. Changed files are read again within seconds; broken ones change nothing.

Where there are quotas, a history of what was used is kept (taskbus quota history): in
TASKBUS_HISTORY (a file, postgres://..., or off), else in history.db of STATE_DIRECTORY
or below ~/.local/state/taskbus. Without it tasks are assigned all the same.

The leader reports budgets that reach 80, 90 and 100 %, or will not last: events on
taskbus.events and, if TASKBUS_WEBHOOK_URL (or _URL_FILE) names a receiver, over HTTP:
signed with the secret of TASKBUS_WEBHOOK_SECRET (or _SECRET_FILE) as Standard Webhooks
say, or as text for Slack with TASKBUS_WEBHOOK_FORMAT=slack.

Exit codes: 0 after a signal, 1 when it cannot run (the HTTP port is taken, the
journal is damaged or of a newer version), 78
when agents.yaml, quotas.yaml or the environment is wrong.`,
		Example: `  taskbus serve
  taskbus serve --config /etc/taskbus/agents.yaml --http 0.0.0.0:8551
  LOG_LEVEL=debug LOG_FORMAT=json taskbus serve`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), a, flags) },
	}
	cli.ConfigFlag(c, &flags.config)
	cli.QuotasFlag(c, &flags.quotas)
	c.Flags().StringVar(&flags.http, "http", "", "address of the HTTP server as host:port; port 0 takes any free one")
	flags.listen.add(c.Flags())
	c.Flags().BoolVar(&flags.pprof, "pprof", false, "serve profiles below /debug/pprof/; only on a loopback address")
	c.Flags().BoolVar(&flags.skipCorrupt, "journal-skip-corrupt", false,
		"skip damaged messages of the journal, each named in the log; what they said is lost")
	return c
}

// serve reads what it needs, in the order in which faults are cheapest, and then
// hands over to a coordinator.
func serve(ctx context.Context, a *cli.App, flags serveFlags) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	boundMemory(ctx, a)
	env, err := a.Environment()
	if err != nil {
		return err
	}
	files, cfg, err := a.FindFiles(flags.config, flags.quotas, env)
	if err != nil {
		return err
	}
	address, err := httpAddress(flags.http, a.Getenv("TASKBUS_HTTP_BIND"), cfg, env)
	if err != nil {
		return err
	}
	agentSecret, err := config.ReadAgentSecret(a.Getenv)
	if err != nil {
		return cli.ConfigError(err)
	}
	producers, err := config.ReadProducerToken(a.Getenv)
	if err != nil {
		return cli.ConfigError(err)
	}
	hook, err := config.ReadWebhook(a.Getenv)
	if err != nil {
		return cli.ConfigError(err)
	}
	logger, buffer := newLogger(env.LogLevel, logFormat(env.LogFormat, a.Err), colourful(a.Err, a.Getenv), a.Err)
	defer func() {
		// Whatever happens, no line is left behind.
		if closeErr := buffer.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("write the log: %w", closeErr)
		}
	}()
	gateways, err := readGateways(a, flags.listen, logger)
	if err != nil {
		return err
	}
	authorities, err := a.Authorities()
	if err != nil {
		return err
	}
	// Taken over before anything runs: a signal must never hit a half-built one.
	signals := a.Notify()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w; choose another address with --http or COORDINATOR_PORT", err)
	}
	if err := gateways.listen(); err != nil {
		return errors.Join(err, listener.Close())
	}
	i, err := newInstance(a, parts{
		flags, env, agentSecret, producers, gateways, hook, authorities, files, cfg, listener, logger,
	})
	if err != nil {
		return errors.Join(err, listener.Close(), gateways.close())
	}
	logger.Info().
		Str("version", i.build.Version).Str("config", files.Agents).Str("quotas", files.QuotasName()).
		Str("config_version", cfg.FileVersion()).
		Int("agents", len(cfg.Policy().Agents)).Str("strategy", cfg.Policy().Strategy).
		Str("broker", cli.BrokerAddress(env.RabbitMQURL)).Str("http", gateways.scheme()+listener.Addr().String()).
		Str("rls", gateways.address()).
		Bool("http_changes", env.AdminToken.Reveal() != "").Bool("http_reports", agentSecret.Reveal() != "").
		Bool("http_tasks", producers.Reveal() != "" || env.AdminToken.Reveal() != "").
		Bool("http_gateways", gateways.token.Reveal() != "" || len(gateways.names) > 0).
		Msg("taskbus is starting")
	if a.BrokerUnset() {
		logger.Warn().Str("broker", cli.BrokerAddress(env.RabbitMQURL)).
			Msg(cli.SetBroker + "; until then the broker of this machine is used, as guest")
	}
	return i.run(ctx, signals)
}

// httpAddress is where the HTTP server listens: flag, else variable and port,
// else agents.yaml and port.
func httpAddress(flag, bind string, cfg *config.Config, env config.Environment) (string, error) {
	if flag != "" {
		if _, _, err := net.SplitHostPort(flag); err != nil {
			return "", cli.UsageError("--http must be host:port such as 127.0.0.1:8551 or [::1]:8551, not %q", flag)
		}
		return flag, nil
	}
	if bind == "" {
		bind = cfg.HTTPBind
	} else if bind != "localhost" && net.ParseIP(bind) == nil {
		return "",
			cli.ConfigError(
				fmt.Errorf("TASKBUS_HTTP_BIND must be an IP address such as 0.0.0.0, or localhost, without a port, "+
					"not %q", bind))
	}
	return net.JoinHostPort(bind, fmt.Sprint(env.Port)), nil
}

// loopback reports whether only this machine can reach the listener.
func loopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
