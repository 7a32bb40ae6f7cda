package task

import (
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

func cancelCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel TASK",
		Short: "Withdraw a task, whatever its state",
		Long: `Withdraws one task: before an agent has it, in the agent's queue, or while the
agent works on it. Prints what came of it:

  cancelled         no agent had it and none will get it, or the one that had it
                    reports it as cancelled (a handler that does not return may go
                    on all the same: then the task's error says so, see explain)
  noted             nothing is known of it (yet, or any more); should it come, it
                    will not be assigned
  cancel_requested  an agent has it and may still do it: it has not reported yet,
                    or it has no control queue to tell it by
  too_late          it has ended already; the outcome is shown if it is known

Exit code 0 means cancelled, noted, or too late because it was cancelled before:
the coordinator knows of no agent that will still do it. Exit code 1 means that it
was done, failed, or may still be done; or that nothing could be asked for, and
then standard output is empty. To cancel twice does no harm.` + cli.NeedsToken,
		Example: `  taskbus tasks cancel task-0042 --reason "wrong corpus"
  taskbus tasks cancel task-0042 -o json`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	reason := c.Flags().String("reason", "",
		fmt.Sprintf("why, for people: in assignment.failed and for the agent; at most %d characters",
			httpapi.MaxReason))
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cli.CheckID("a task", args[0]); err != nil {
			return err
		}
		if utf8.RuneCountInString(*reason) > httpapi.MaxReason {
			return cli.UsageError("--reason has more than %d characters", httpapi.MaxReason)
		}
		body := struct {
			Reason string `json:"reason,omitempty"`
		}{*reason}
		answer, err := cli.Tell[view.Cancellation](c.Context(), a, *base, http.MethodDelete,
			"/tasks/"+url.PathEscape(args[0]), body)
		if err != nil {
			return err
		}
		err = a.Show(answer, func(p *cli.Page) { printCancellation(p, answer) })
		if err != nil || withdrawn(answer) {
			return err
		}
		return cli.ErrReported
	}
	return c
}

func printCancellation(p *cli.Page, answer view.Cancellation) {
	state := answer.State
	if answer.Outcome != "" && answer.Outcome != answer.State {
		state += ", " + answer.Outcome
	}
	if answer.Agent != "" {
		state += " on " + answer.Agent
	}
	p.Line("%s: %s: %s", answer.TaskID, state, answer.Detail)
}

// withdrawn reports whether no agent is known that will still do the task or has done it.
func withdrawn(answer view.Cancellation) bool {
	switch answer.State {
	case view.Cancelled, view.CancelNoted:
		return true
	case view.CancelTooLate:
		return answer.Outcome == view.Cancelled
	default:
		return false
	}
}
