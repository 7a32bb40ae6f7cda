package quota

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
)

func addGroupCommand(a *cli.App) *cobra.Command {
	return registerCommand(a, false, "add-group GROUP KEY=VALUE...",
		"Register a group beside those of quotas.yaml, or change one that was registered",
		`Registers a group (a tenant) with the settings of groups[] in quotas.yaml: weight,
parent, total_quota_monthly_tokens, limits.DIMENSION.amount and so on. The same again
with other settings replaces them.`,
		`  taskbus quota add-group team-c weight=2 total_quota_monthly_tokens=500000
  taskbus quota add-group team-d parent=team-c limits.cost_usd.amount=5 limits.cost_usd.per=day`)
}

func addAgentCommand(a *cli.App) *cobra.Command {
	return registerCommand(a, true, "add-agent AGENT KEY=VALUE...",
		"Register an agent's quota beside those of quotas.yaml, or change it",
		`Registers the quota of an agent in its group, with the settings of agents[] in
quotas.yaml: group_id, weight, initial_quota, rate_limit_rps, burst_capacity,
limits.DIMENSION.amount and so on. The same again with other settings replaces them.`,
		`  taskbus quota add-agent agent-7 group_id=team-c weight=3 rate_limit_rps=5
  taskbus quota add-agent agent-8 group_id=team-c initial_quota=20000`)
}

func registerCommand(a *cli.App, agent bool, use, short, long, example string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long + actsHelp, Example: example, Args: cobra.MinimumNArgs(1)}
	flags := addChangeFlags(a, c)
	suggested := []cobra.Completion{"weight=", "parent=", "total_quota_monthly_tokens=", "limits.total_tokens.amount="}
	if agent {
		suggested = []cobra.Completion{"group_id=", "weight=", "initial_quota=", "rate_limit_rps=", "burst_capacity="}
	}
	c.ValidArgsFunction = func(
		_ *cobra.Command, args []string, _ string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suggested, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cli.CheckID(entryWord(agent), args[0]); err != nil {
			return err
		}
		if len(args) == 1 {
			return cli.UsageError("say what the %s has, at least weight=1: it takes its share from the others",
				entryWord(agent))
		}
		entry, err := entryOf(args[1:])
		if err != nil {
			return err
		}
		return send(c.Context(), a, flags, http.MethodPut, entryPath(agent, args[0], byWhom(a, flags), flags.reason),
			entry)
	}
	return c
}

func removeGroupCommand(a *cli.App) *cobra.Command {
	return unregisterCommand(a, false, "remove-group GROUP", "Remove a group that was registered",
		`Removes a group that "taskbus quota add-group" has registered, and every change of its
nodes that stands. Its agents and subgroups must be removed before. A group of
quotas.yaml is removed there. Its tasks then count as those of groups that are not listed.`,
		`  taskbus quota remove-group team-c
  taskbus quota remove-group team-c -o json`)
}

func removeAgentCommand(a *cli.App) *cobra.Command {
	return unregisterCommand(a, true, "remove-agent AGENT", "Remove an agent's quota that was registered",
		`Removes the quota of an agent that "taskbus quota add-agent" has registered, and every
change of it that stands. An agent of quotas.yaml is removed there. The agent itself
goes on working: its tasks are charged to their groups alone.`,
		`  taskbus quota remove-agent agent-7
  taskbus quota remove-agent agent-7 -o json`)
}

func unregisterCommand(a *cli.App, agent bool, use, short, long, example string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long + cli.NeedsToken, Example: example, Args: cobra.ExactArgs(1)}
	flags := &changeFlags{base: cli.URLFlag(c)}
	kind := "group"
	if agent {
		kind = "agent"
	}
	c.ValidArgsFunction = completeNames(a, flags.base, kind)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cli.CheckID(entryWord(agent), args[0]); err != nil {
			return err
		}
		return send(c.Context(), a, flags, http.MethodDelete, entryPath(agent, args[0], "", ""), struct{}{})
	}
	return c
}

// entryWord is what an id is of, for checkID.
func entryWord(agent bool) string {
	if agent {
		return "an agent's"
	}
	return "a group's"
}

// settingNumber is a number as quotas.yaml takes it.
var settingNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// settingOf is the value of a setting: a number if it looks like one, true, false, else text.
func settingOf(value string) any {
	switch {
	case settingNumber.MatchString(value):
		return json.Number(value)
	case value == "true", value == "false":
		return value == "true"
	default:
		return value
	}
}

// entryOf makes the entry of a group or agent of KEY=VALUE, where limits.total_tokens.amount is
// nested.
func entryOf(args []string) (map[string]any, error) {
	entry := make(map[string]any)
	for _, arg := range args {
		path, value, ok := strings.Cut(arg, "=")
		keys := strings.Split(path, ".")
		at := entry
		for _, key := range keys[:len(keys)-1] {
			below, is := at[key].(map[string]any)
			if _, given := at[key]; given && !is {
				return nil, cli.UsageError("%s is given twice, as a value and as a group of settings",
					cli.OneLine(path))
			}
			if !is {
				below = make(map[string]any)
				at[key] = below
			}
			at = below
		}
		last := keys[len(keys)-1]
		if _, twice := at[last]; !ok || path == "" || value == "" || twice {
			return nil, cli.UsageError("%q must be KEY=VALUE such as weight=2 or limits.total_tokens.amount=5000, "+
				"each key once", cli.OneLine(arg))
		}
		at[last] = settingOf(value)
	}
	return entry, nil
}

// entryPath is where a group or agent is registered.
func entryPath(agent bool, id, by, reason string) string {
	kind := "groups"
	if agent {
		kind = "agents"
	}
	path := fmt.Sprintf("/v1/quota/%s/%s", kind, url.PathEscape(id))
	query := url.Values{}
	if by != "" {
		query.Set("by", by)
	}
	if reason != "" {
		query.Set("reason", reason)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}
