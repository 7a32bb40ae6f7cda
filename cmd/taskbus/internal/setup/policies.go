package setup

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
)

func topologyPoliciesCommand(a *cli.App) *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "policies",
		Short: "Print the rabbitmqctl commands that queues: classic needs",
		Long: `Prints the rabbitmqctl commands, one per policy, that a broker needs for "queues:
classic" of agents.yaml. The queues shared with agents and producers are plain ones
then, without arguments, so that every client can declare them, and policies do what
quorum queues and streams do otherwise: rejected and expired tasks go to task.reassign
or task.dead, and statuses and results do not pile up.

A queue follows one policy only, the
one with the highest priority: --priority raises these above your own.`,
		Example: `  taskbus topology policies
  taskbus topology policies | sh
  taskbus topology policies --priority 50 | docker exec -i rabbitmq sh`,
		Args: cobra.NoArgs,
	}
	cli.ConfigFlag(c, &path)
	priority := c.Flags().Int("priority", 10, "priority of the policies")
	c.RunE = func(*cobra.Command, []string) error {
		env, err := a.Environment()
		if err != nil {
			return err
		}
		_, cfg, err := a.LoadConfig(path, config.Environment{})
		if err != nil {
			return err
		}
		list, err := classicPolicies(cfg)
		if err != nil {
			return err
		}
		return a.Show(struct {
			Policies []policy `json:"policies"`
		}{list}, func(p *cli.Page) { printPolicies(p, list, cli.VirtualHost(env.RabbitMQURL), *priority) })
	}
	return c
}

// policy is one policy of RabbitMQ.
type policy struct {
	Name       string          `json:"name"`
	Pattern    string          `json:"pattern"`
	Definition json.RawMessage `json:"definition"`
}

// classicPolicies gives every queue that the classic profile declares without
// arguments what the quorum profile would have given it. The list is empty, not
// nil, when the configuration does not use the classic profile.
func classicPolicies(cfg *config.Config) ([]policy, error) {
	policies := []policy{}
	if cfg.Queues != config.QueuesClassic {
		return policies, nil
	}
	full := bus.Standard(bus.Declare, bus.ProfileQuorum, cfg.AgentQueues())
	at := make(map[string]int) // index of a policy by its name
	for i, q := range standard(cfg, bus.Declare).Queues {
		if q.Kind != bus.Classic {
			continue
		}
		name := "taskbus-" + q.Name
		if full.Queues[i].DeadLetter == bus.QueueReassign {
			name = "taskbus-agents" // one for all of them
		}
		if n, known := at[name]; known {
			policies[n].Pattern += "|" + regexp.QuoteMeta(q.Name)
			continue
		}
		definition, err := json.Marshal(inherited(full.Queues[i]))
		if err != nil {
			return nil, fmt.Errorf("encode the policy of %s: %w", q.Name, err)
		}
		at[name] = len(policies)
		policies = append(policies, policy{name, regexp.QuoteMeta(q.Name), definition})
	}
	for i := range policies {
		policies[i].Pattern = "^(" + policies[i].Pattern + ")$"
	}
	return policies, nil
}

// inherited is what of a queue's arguments a policy can give a classic queue.
func inherited(q bus.Queue) map[string]any {
	if q.Kind == bus.Stream {
		return map[string]any{
			"message-ttl":      int64(q.MaxAge / time.Millisecond),
			"max-length-bytes": q.MaxBytes,
			"overflow":         "drop-head",
		}
	}
	definition := make(map[string]any)
	if q.DeadLetter != "" { // by the default exchange: its routing key is a queue's name
		definition["dead-letter-exchange"], definition["dead-letter-routing-key"] = "", q.DeadLetter
	}
	if q.TTL > 0 {
		definition["message-ttl"] = int64(q.TTL / time.Millisecond)
	}
	if q.MaxLength > 0 {
		definition["max-length"] = q.MaxLength
	}
	if q.DropHead {
		definition["overflow"] = "drop-head"
	}
	return definition
}

func printPolicies(p *cli.Page, policies []policy, vhost string, priority int) {
	if len(policies) == 0 {
		p.Line("# None needed: only `queues: classic` relies on policies.")
	}
	for _, l := range policies {
		// whole: a shell reads it
		fmt.Fprintf(p, "rabbitmqctl set_policy -p %s --apply-to queues --priority %d %s %s %s\n", shellQuote(vhost),
			priority, shellQuote(l.Name), shellQuote(l.Pattern), shellQuote(string(l.Definition)))
	}
}

// shellQuote makes one word of a POSIX shell of any text.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
