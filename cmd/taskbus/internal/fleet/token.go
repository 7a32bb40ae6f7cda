package fleet

import (
	"errors"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/credential"
)

func tokenCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "token AGENT",
		Short: "Print the token by which an agent reports its capacity over HTTP",
		Long: `Prints the token of one agent, for PUT /agents/AGENT/capacity. It is derived from the
agent's id and the secret in TASKBUS_AGENT_SECRET, or in the file that
TASKBUS_AGENT_SECRET_FILE names, which must be the coordinator's. No coordinator is
asked. A token is good for its agent alone; to withdraw it, change the secret, which
changes the tokens of all agents.

Agents that report over RabbitMQ (agent.status) need none.`,
		Example: `  taskbus agents token gpu-1
  curl -X PUT -H "Authorization: Bearer $(taskbus agents token gpu-1)" \
    -d '{"capacity_items_per_second": 8.5, "pending_items": 12, "health": "BUSY"}' \
    http://127.0.0.1:8551/agents/gpu-1/capacity`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)          // for the shell's suggestions
	_ = c.Flags().MarkHidden("url") // it exists
	c.ValidArgsFunction = a.CompleteAgents(base)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := cli.CheckID("an agent", args[0]); err != nil {
			return err
		}
		secret, err := config.ReadAgentSecret(a.Getenv)
		switch {
		case err != nil:
			return cli.ConfigError(err)
		case secret.Reveal() == "":
			return cli.ConfigError(errors.New(
				"there is no secret to derive the token from: set TASKBUS_AGENT_SECRET_FILE, or " +
					"TASKBUS_AGENT_SECRET, to the one of the coordinator"))
		}
		token := credential.AgentToken([]byte(secret.Reveal()), args[0])
		return a.Show(struct {
			Agent string `json:"agent_id"`
			Token string `json:"token"`
		}{args[0], token}, func(p *cli.Page) { p.Line("%s", token) })
	}
	return c
}
