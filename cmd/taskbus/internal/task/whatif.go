package task

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

func WhatIfCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "whatif FILE|-",
		Short: "Ask which agent would get a task now, without submitting it",
		Long: `Reads one task.assign message from FILE (or from standard input, "-") and asks the
coordinator how it would decide it at this moment, with the agents as they are.
Nothing is assigned, published or kept. message_type, task_id and payload may be left
out; the rest must be as a producer would send it.

Shows what explain shows of a task: the eligible agents, best first, with what the
strategy looked at, and which agents were refused for which reason.

Exit code 1 if no agent would get it now: there is none, or it would wait for quota.`,
		Example: `  taskbus whatif task.json
  taskbus whatif task.json -o json
  echo '{"task_type": "translate", "priority": 3}' | taskbus whatif -`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body, err := a.ReadInput("the task", args[0], maxLine,
			"it is longer than %d bytes, and no coordinator would take it")
		if err != nil {
			return err
		}
		client, err := a.NewClient(*base)
		if err != nil {
			return err
		}
		q, err := cli.AskAbout[view.Prospect](c.Context(), client, "/whatif", "application/json", body)
		if err != nil {
			return err
		}
		err = a.Show(q, func(p *cli.Page) { printProspect(p, q) })
		if err != nil || q.Agent != "" && q.ReasonCode == "" {
			return err
		}
		return cli.ErrReported
	}
	return c
}

func printProspect(p *cli.Page, q view.Prospect) {
	for _, field := range q.Unknown {
		name, near, _ := strings.Cut(field, " ")
		p.Line("warning: %s is no field of a task and has no effect; %s", name,
			cmp.Or(near, "docs/reference/messages.md lists those that there are"))
	}
	switch lacks := q.Explanation != nil && q.Explanation.Quota != nil; {
	case lacks && q.OfferedTo > 0:
		p.Line("%s (%s): bids would be asked for (of %d) once its quota allows", q.ID, q.Type, q.OfferedTo)
	case lacks:
		p.Line("%s (%s): %s would get it once its quota allows", q.ID, q.Type, q.Agent)
	case q.OfferedTo > 0:
		p.Line("%s (%s): bids would be asked for (of %d); without any %s would get it", q.ID, q.Type, q.OfferedTo,
			q.Agent)
	case q.Agent != "":
		p.Line("%s (%s): %s would get it", q.ID, q.Type, q.Agent)
	case q.ReasonCode == coordinator.ReasonNotClaimed.String():
		p.Line("%s (%s): it would wait until an agent claims it", q.ID, q.Type)
	default:
		p.Line("%s (%s): no agent would get it", q.ID, q.Type)
	}
	p.Line("%s", foresight(q))
	if q.SuggestedAction != "" {
		p.Line("what to do: %s", q.SuggestedAction)
	}
	if q.Explanation != nil {
		counts(p, q.Explanation, q.Agent != "")
		tables(p, q.Explanation)
	}
}
