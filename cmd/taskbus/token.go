package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"taskbus/config"
	"taskbus/coordinator/credential"
)

func (a *app) agentsTokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token AGENT",
		Short: "Print the token by which an agent reports its capacity over HTTP",
		Long: `Prints the token of one agent, for PUT /agents/AGENT/capacity. It is derived from the
secret in TASKBUS_AGENT_SECRET_FILE (a file's name) or TASKBUS_AGENT_SECRET, which must
be the one that the coordinator was started with, and from the agent's id. No
coordinator is asked. Who has one agent's token can report for that agent and for
nobody else; to withdraw a token, change the secret, and with it the tokens of all.

Agents that report over RabbitMQ (agent.status) need none.`,
		Example: `  taskbus agents token gpu-1
  curl -X PUT -H "Authorization: Bearer $(taskbus agents token gpu-1)" \
    -d '{"capacity_items_per_second": 8.5, "pending_items": 12, "health": "BUSY"}' \
    http://127.0.0.1:8551/agents/gpu-1/capacity`,
		Args: cobra.ExactArgs(1),
	}
	base := urlFlag(c) // for the shell's suggestions
	c.ValidArgsFunction = a.completeAgents(base)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := checkID("an agent", args[0]); err != nil {
			return err
		}
		secret, err := config.ReadAgentSecret(a.getenv)
		switch {
		case err != nil:
			return configError(err)
		case secret.Reveal() == "":
			return configError(errors.New("there is no secret to derive the token from: set TASKBUS_AGENT_SECRET_FILE, or TASKBUS_AGENT_SECRET, to the one of the coordinator"))
		}
		token := credential.AgentToken([]byte(secret.Reveal()), args[0])
		if a.output == outputJSON {
			return a.printJSON(struct {
				Agent string `json:"agent_id"`
				Token string `json:"token"`
			}{args[0], token})
		}
		_, err = fmt.Fprintln(a.out, token)
		return err
	}
	return c
}
