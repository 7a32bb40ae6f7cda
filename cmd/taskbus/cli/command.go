package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator/nearest"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// Availability is whether an agent could get a task now, or why not. What an
// operator has ordered goes before what the agent itself is.
func Availability(g view.Agent) string {
	switch {
	case g.Drained:
		return "drained"
	case g.Draining:
		return "draining"
	case g.Cordoned:
		return "cordoned"
	case g.Eligible && len(g.Ejected) > 0:
		names := make([]string, len(g.Ejected))
		for i, e := range g.Ejected {
			if names[i] = e.Capability; e.Capability == "" {
				names[i] = "tasks without any"
			}
		}
		return "not " + List(names, 1)
	case g.Eligible:
		return "yes"
	default:
		return g.WhyNot
	}
}

// completeLimit is how long a shell may be kept waiting for suggestions.
const completeLimit = 2 * time.Second

// CheckID sees that an argument that should be the id of "a task" or "an agent"
// is one.
func CheckID(what, id string) error {
	if messages.ValidID(id) {
		return nil
	}
	return UsageError("%q is not %s id: 1 to 128 letters, digits and . _ : -, beginning with a letter or a digit",
		messages.Clean(id, MaxCell), what)
}

// Subcommand refuses arguments of a command that has subcommands, and suggests the one that was misspelt.
func Subcommand(c *cobra.Command, args []string) error {
	err := cobra.NoArgs(c, args)
	if err == nil {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if near := nearest.DidYouMean(args[0], names); near != "" {
		return fmt.Errorf("%w; %s", err, near)
	}
	return err
}

// Group is a command that only has others below it.
func Group(c *cobra.Command, below ...*cobra.Command) *cobra.Command {
	c.Args, c.RunE = Subcommand, func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(below...)
	return c
}

// Agreed asks at the terminal whether that is to be done; an error says that it was not.
func (a *App) Agreed(what string) error {
	fmt.Fprintf(a.Err, "%s? [y/N] ", OneLine(what))
	said, err := bufio.NewReader(a.In).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(said)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		fmt.Fprintln(a.Err)
		return UsageError("nothing was done: there is no answer; give --yes")
	default:
		return errors.New("nothing was done")
	}
}

// CompleteAgents suggests the agents of the fleet for the one argument of a
// command, or for a flag.
func (a *App) CompleteAgents(base *string) cobra.CompletionFunc {
	return a.CompleteBy(base, func(ctx context.Context, of *Client) ([]cobra.Completion, error) {
		s, err := of.Status(ctx)
		if err != nil {
			return nil, err
		}
		ids := make([]cobra.Completion, 0, len(s.Agents))
		for _, g := range s.Agents {
			ids = append(ids, cobra.CompletionWithDesc(g.ID, OneLine(g.State+", "+Availability(g))))
		}
		return ids, nil
	})
}

// CompleteBy suggests what a coordinator knows for the one argument of a command, or for
// a flag. Without a coordinator there is nothing to suggest.
func (a *App) CompleteBy(
	base *string, known func(ctx context.Context, of *Client) ([]cobra.Completion, error),
) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		of, err := a.NewClient(*base)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		words, err := known(ctx, of)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag has the shell suggest values for a flag of the command.
func CompleteFlag(c *cobra.Command, flag string, suggest cobra.CompletionFunc) {
	// Fails for a flag that does not exist, which a test of the suggestions would
	// notice, and a command line is not worth failing for it.
	_ = c.RegisterFlagCompletionFunc(flag, suggest)
}

func ConfigFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "config", "",
		"path of agents.yaml (default $TASKBUS_CONFIG, else config/agents.yaml, agents.yaml, /etc/taskbus/agents.yaml)")
}

func QuotasFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "quotas", "",
		"path of quotas.yaml (default $TASKBUS_QUOTAS, else quotas.yaml beside agents.yaml, if there is one)")
}

// URLFlag adds --url to a command that asks the coordinator.
func URLFlag(c *cobra.Command) *string {
	return c.Flags().String("url", "", "`URL` of the coordinator, or several separated by commas: the leader is "+
		"asked\n(default $TASKBUS_HTTP_URL, else http://127.0.0.1:${COORDINATOR_PORT:-8551})")
}

// LimitFlag adds --limit, of 1 to most, which about describes, with most in the place of its %d. It takes the
// command's PreRunE.
func LimitFlag(c *cobra.Command, into *int, standard, most int, about string) {
	c.Flags().IntVar(into, "limit", standard, fmt.Sprintf(about, most))
	c.PreRunE = func(*cobra.Command, []string) error {
		if *into < 1 || *into > most {
			return UsageError("--limit must be 1 to %d, not %d", most, *into)
		}
		return nil
	}
}

// Shows has a command ask the coordinator for what is at that path, and print it.
func Shows[T any](a *App, c *cobra.Command, path string, text func(*Page, T)) {
	base := URLFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return ShowAnswer(c.Context(), a, *base, path, text) }
}

// ShowAnswer asks the coordinator at base (see [App.NewClient]) for what is at a path, and prints it.
func ShowAnswer[T any](ctx context.Context, a *App, base, path string, text func(*Page, T)) error {
	answer, err := Ask[T](ctx, a, base, path)
	if err != nil {
		return err
	}
	return a.Show(answer, func(p *Page) { text(p, answer) })
}

// NeedsToken ends the help of every command that gives an order.
const NeedsToken = `

Needs the coordinator's admin token, in TASKBUS_ADMIN_TOKEN or in the file that
TASKBUS_ADMIN_TOKEN_FILE names.`
