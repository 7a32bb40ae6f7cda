package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/cmd/taskbus/internal/demo"
	"taskbus/cmd/taskbus/internal/setup"
)

type demoFlags struct {
	config string
	log    string
	absent []string
	keep   bool
}

func demoCommand(a *cli.App) *cobra.Command {
	var flags demoFlags
	c := &cobra.Command{
		Use:   "demo TASKS",
		Short: "Play the main job through on a real broker",
		Long: `Starts a coordinator ("taskbus serve" in a process of its own) and the agents of
agents.yaml, publishes every line of TASKS to task.assign (of priority 2 and 3 to
task.assign.high), prints what happens as it happens, and ends with a table:
which task went to which agent, by which strategy, in how many milliseconds, under
which trace id; which failed, why; for which agents bid, and what agents that pull
have claimed.

It uses the broker of RABBITMQ_URL like any producer and any agent would, and stops
everything it has started. On a broker where Taskbus was not used before it deletes
its queues again, unless --keep is given; on another it leaves its tasks' traces in
those that are there. Where another coordinator leads it refuses to play.

Exit code 0 when every task is accounted for, 1 otherwise.`,
		Example: `  make demo
  RABBITMQ_URL=amqp://guest:guest@localhost:5672/ taskbus demo examples/tasks.jsonl
  taskbus demo --config my-agents.yaml --absent backup-1 my-tasks.jsonl`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return playDemo(a, c, flags, args[0]) },
	}
	cli.ConfigFlag(c, &flags.config)
	c.Flags().StringVar(&flags.log, "log", "", "file for the coordinator's log (default .run/demo-coordinator.log)")
	c.Flags().StringSliceVar(&flags.absent, "absent", []string{"archivist-1"},
		"agents that are not started, so that their tasks fail")
	c.Flags().BoolVar(&flags.keep, "keep", false,
		"leave the queues on the broker, to look at; \"make clean-demo\" deletes them")
	return c
}

func playDemo(a *cli.App, c *cobra.Command, flags demoFlags, tasks string) error {
	env, path, cfg, err := a.Configuration(flags.config)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to start the coordinator with: %w", err)
	}
	if flags.log == "" {
		flags.log = filepath.Join(".run", "demo-coordinator.log")
	}
	if err := os.MkdirAll(filepath.Dir(flags.log), 0o755); err != nil {
		return fmt.Errorf("make a folder for the coordinator's log: %w", err)
	}
	ctx, stop := a.Stoppable(c.Context())
	defer stop()
	err = demo.Run(ctx, demo.Options{
		Program: program, ConfigPath: path, Config: cfg, TasksPath: tasks,
		BrokerURL: env.RabbitMQURL.Reveal(), BrokerName: cli.BrokerAddress(env.RabbitMQURL), Bus: a.OpenQuietBus(env),
		Topology: setup.Everything(cfg), Keep: flags.keep,
		Absent: flags.absent, LogPath: flags.log, Out: a.Out,
	})
	if errors.Is(err, demo.ErrUnaccounted) {
		return cli.ErrReported // the summary has said which
	}
	return err
}
