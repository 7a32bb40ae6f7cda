package task

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

func ListCommand(a *cli.App) *cobra.Command {
	var filter view.TaskFilter
	c := &cobra.Command{
		Use:   "tasks",
		Short: "List recent tasks, newest first",
		Long: `Lists recent tasks with what became of them, newest first.

  pending      accepted, and waits; WHY says for what: what keeps each agent that it
               needs from taking it now, or its batch, quota, another try, a lane
  dispatching  an agent is chosen, RabbitMQ has not confirmed yet
  dispatched   in the agent's queue or hands; how it ended is not known (yet)
  succeeded    its agent has done it
  failed       not assigned (WHY has the reason code, assignment.failed was
               published), or not done by its agent (WHY has the agent's words)
  cancelled    withdrawn

AGE is the time since it was accepted or refused; WAITED is for how long it waited for
an agent, over all attempts, without the work between them: it ends with the confirmed
dispatch or the failure; WORKED is how long its agent says that it worked on it. On a
terminal long words are cut; what goes to a file or another program is whole.

The coordinator remembers the newest 4,096 tasks; one that starts or takes over knows
them from the journal. RabbitMQ has those that wait and those that failed: in
task.assign, in the agents' queues, in assignment.failed and in task.dead; and what
agents said of their ends, in the stream task.result.`,
		Example: `  taskbus tasks
  taskbus tasks --state failed --limit 200
  taskbus tasks --agent gpu-1 -o json
  taskbus tasks cancel task-0042`,
		Args: cli.Subcommand,
	}
	c.AddCommand(cancelCommand(a))
	base := cli.URLFlag(c)
	c.Flags().StringVar(&filter.State, "state", "", "only these: "+strings.Join(view.TaskStates(), ", "))
	c.Flags().StringVar(&filter.Agent, "agent", "", "only those given to this agent")
	cli.LimitFlag(c, &filter.Limit, httpapi.DefaultTaskLimit, httpapi.MaxTaskLimit, "at most this many, 1 to %d")
	cli.CompleteFlag(c, "state", cobra.FixedCompletions(view.TaskStates(), cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(c, "agent", a.CompleteAgents(base))
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case filter.State != "" && !slices.Contains(view.TaskStates(), filter.State):
			return cli.UsageError("--state must be one of %s, not %q", strings.Join(view.TaskStates(), ", "),
				filter.State)
		case filter.Agent != "" && !messages.ValidID(filter.Agent):
			return cli.UsageError("--agent: %q is not an agent id", filter.Agent)
		}
		query := url.Values{"state": {filter.State}, "agent": {filter.Agent}, "limit": {strconv.Itoa(filter.Limit)}}
		return cli.ShowAnswer(c.Context(), a, *base, "/tasks?"+query.Encode(), func(p *cli.Page, found view.TaskList) {
			printTasks(p, found, !cli.Terminal(a.Out))
		})
	}
	return c
}

// maxWhy bounds an agent's words in the list on a terminal, in bytes: as long as the longest
// reason code. explain has all of them.
const maxWhy = 22

// maxWaits bounds what a task waits for on a terminal, in bytes. explain has all of it.
const maxWaits = 40

// printTasks lists them; whole: nothing is cut, because the list goes to a file or another program.
func printTasks(p *cli.Page, found view.TaskList, whole bool) {
	if len(found.Tasks) == 0 {
		p.Line("no such task is remembered; only recent ones are (`taskbus tasks --help`)")
		return
	}
	t := cli.NewTable("TASK", "TYPE", "PRIORITY", "STATE", "AGENT", "WHY", "AGE", "WAITED", "WORKED")
	t.Whole = whole
	for _, k := range found.Tasks {
		why := k.Strategy
		switch {
		case k.ReasonCode != "":
			why = k.ReasonCode
		case k.Error != "":
			why = messages.Clean(k.Error, t.Limit(maxWhy))
		case k.State == "pending" && k.Reason != "":
			why = messages.Clean(waitsFor(k.Reason), t.Limit(maxWaits))
		}
		since := k.AcceptedAt
		if since.IsZero() {
			since = k.DecidedAt
		}
		t.Row(k.ID, k.Type, cli.Priority(k.Priority), k.State, k.Agent, why,
			strings.TrimSuffix(p.Ago(since), " ago"), took(k.DurationMS), took(k.WorkMS))
	}
	p.Table(t)
	if len(found.Tasks) >= found.Limit {
		p.Line("the newest %d; there may be more (--limit)", found.Limit)
	}
}

// waitsFor shortens the reason for which a task waits: "3 lack gpu, 5 full" of "0 of 8 agents eligible:
// 3 lack `gpu`, 5 full; nearest: gpu-1 (full)", else what stands before the colon.
func waitsFor(reason string) string {
	what, rest, more := strings.Cut(reason, ":")
	if more && strings.HasSuffix(what, " agents eligible") {
		what, _, _ = strings.Cut(rest, ";")
	}
	return strings.TrimSpace(strings.ReplaceAll(what, "`", ""))
}

// took renders milliseconds in few characters: seconds from one second on; "" for none.
func took(ms float64) string {
	if ms < 1000 {
		return cli.Milliseconds(ms)
	}
	return cli.Shortly(ms / 1000)
}
