package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskbus/coordinator"
	"taskbus/messages"
)

// completeLimit is how long a shell may be kept waiting for suggestions.
const completeLimit = 2 * time.Second

// checkID sees that an argument that should be the id of "a task" or "an agent"
// is one.
func checkID(what, id string) error {
	if messages.ValidID(id) {
		return nil
	}
	return usageError("%q is not %s id: 1 to 128 letters, digits and . _ : -, beginning with a letter or a digit",
		messages.Clean(id, maxCell), what)
}

// subcommand refuses arguments of a command that has subcommands, and suggests the one that was misspelt.
func subcommand(c *cobra.Command, args []string) error {
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
	if near := coordinator.DidYouMean(args[0], names); near != "" {
		return fmt.Errorf("%w; %s", err, near)
	}
	return err
}

// agreed asks at the terminal whether that is to be done; an error says that it was not.
func (a *app) agreed(what string) error {
	fmt.Fprintf(a.err, "%s? [y/N] ", oneLine(what))
	said, err := bufio.NewReader(a.in).ReadString('\n')
	switch answer := strings.ToLower(strings.TrimSpace(said)); {
	case answer == "y" || answer == "yes":
		return nil
	case err != nil && answer == "":
		fmt.Fprintln(a.err)
		return usageError("nothing was done: there is no answer; give --yes")
	default:
		return errors.New("nothing was done")
	}
}

// completeAgents suggests the agents of the fleet for the one argument of a
// command, or for a flag.
func (a *app) completeAgents(base *string) cobra.CompletionFunc {
	return a.completeBy(base, func(ctx context.Context, of *client) ([]cobra.Completion, error) {
		s, err := of.status(ctx)
		if err != nil {
			return nil, err
		}
		ids := make([]cobra.Completion, 0, len(s.Agents))
		for _, g := range s.Agents {
			ids = append(ids, cobra.CompletionWithDesc(g.ID, oneLine(g.State+", "+availability(g))))
		}
		return ids, nil
	})
}

// completeBy suggests what a coordinator knows for the one argument of a command, or for
// a flag. Without a coordinator there is nothing to suggest.
func (a *app) completeBy(
	base *string, known func(ctx context.Context, of *client) ([]cobra.Completion, error),
) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		of, err := a.newClient(*base)
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

// completeFlag has the shell suggest values for a flag of the command.
func completeFlag(c *cobra.Command, flag string, suggest cobra.CompletionFunc) {
	// Fails for a flag that does not exist, which a test of the suggestions would
	// notice, and a command line is not worth failing for it.
	_ = c.RegisterFlagCompletionFunc(flag, suggest)
}
