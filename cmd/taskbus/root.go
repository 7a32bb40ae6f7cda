package main

import (
	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/cmd/taskbus/internal/fleet"
	"taskbus/cmd/taskbus/internal/journal"
	"taskbus/cmd/taskbus/internal/quota"
	"taskbus/cmd/taskbus/internal/setup"
	"taskbus/cmd/taskbus/internal/sim"
	"taskbus/cmd/taskbus/internal/task"
)

const rootLong = `Taskbus gives tasks to agents over RabbitMQ.

Producers publish tasks to the queue task.assign, agents report themselves on
agent.status, and the coordinator ("taskbus serve") gives every task to the agent
that suits it best, or says in assignment.failed why no agent could take it.

A first look, with a broker at hand:

  taskbus check config/agents.yaml     is the description of the fleet in order?
  taskbus serve                        start the coordinator
  taskbus submit examples/tasks.jsonl  give it work
  taskbus status                       who leads, what waits, what is wrong
  taskbus tasks                        what became of it
  taskbus explain TASK                 and why
  taskbus whatif task.json             which agent would get this one?
  taskbus agents                       which agents do it, which could do more
  taskbus doctor                       is anything wrong with all that?

Environment:
  RABBITMQ_URL              broker, amqp://user:password@host:5672/vhost
  RABBITMQ_URL_FILE         a file that holds the URL, as secret stores mount it
  COORDINATOR_PORT          HTTP port of the coordinator (8551)
  LOG_LEVEL                 DEBUG, INFO, WARNING or ERROR (INFO)
  LOG_FORMAT                json or console (console on a terminal, else json)
  ASSIGNMENT_STRATEGY       replaces the default strategy of agents.yaml
  TASKBUS_CONFIG            path of agents.yaml
  TASKBUS_QUOTAS            path of quotas.yaml
  TASKBUS_HTTP_BIND         address the HTTP server listens on, without a port
  TASKBUS_ADVERTISE_URL     where other coordinators reach this one
  TASKBUS_HTTP_URL          URL of the coordinator for agents, tasks, explain, …; several,
                            separated by commas: the leader is asked
  TASKBUS_ADMIN_TOKEN       secret for changes over HTTP, 32 characters or more
  TASKBUS_ADMIN_TOKEN_FILE  a file that holds it; serve and the commands read either
  TASKBUS_AGENT_SECRET      secret behind the tokens of agents that report over HTTP
  TASKBUS_AGENT_SECRET_FILE a file that holds it
  TASKBUS_GATEWAY_TOKEN     secret of gateways that ask for quota for agents
  TASKBUS_GATEWAY_TOKEN_FILE
                            a file that holds it
  TASKBUS_PRODUCER_TOKEN    secret of producers that submit tasks over HTTP
  TASKBUS_PRODUCER_TOKEN_FILE
                            a file that holds it
  NO_COLOR                  if set, console logs have no colours

Exit codes:
  0   done
  1   it failed, or (check, doctor, submit, health, whatif, replay, tasks
      cancel, quota explain, dead) the answer is no
  2   the command line is wrong
  3   quota reconcile: the bill and the history differ
  4   replay: some records could not be compared
  78  agents.yaml, quotas.yaml or the environment is wrong; starting again does
      not help
  130 simulate was ended by Ctrl-C`

func rootCommand(a *cli.App) *cobra.Command {
	return a.Frame(cli.Group(&cobra.Command{
		Use:   "taskbus",
		Short: "Task assignment for fleets of agents on RabbitMQ",
		Long:  rootLong,
		Example: `  taskbus serve --config config/agents.yaml
  taskbus submit examples/tasks.jsonl
  taskbus tasks --state failed`,
	},
		serveCommand(a),
		setup.CheckCommand(a),
		task.SubmitCommand(a),
		fleet.StatusCommand(a),
		fleet.AgentsCommand(a),
		task.ListCommand(a),
		task.DeadCommand(a),
		task.ExplainCommand(a),
		task.WhatIfCommand(a),
		fleet.CapabilitiesCommand(a),
		quota.Command(a),
		fleet.HealthCommand(a),
		setup.DoctorCommand(a),
		demoCommand(a),
		sim.SimulateCommand(a),
		journal.Command(a),
		sim.ReplayCommand(a),
		setup.TopologyCommand(a),
		versionCommand(a),
	))
}
