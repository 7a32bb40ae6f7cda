package task

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

func ExplainCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain TASK",
		Short: "Say why a task went where it went, or why it waits or failed",
		Long: `Explains one task: the latest decision about it as it was made, its attempts so
far, and how it would be decided now.

  ATTEMPT    every dispatch, with what became of it; a dash when that is not known
  CANDIDATE  the eligible agents, best first, with what the strategy looked at;
             SCORE, where it scores, is the larger the better, else the smaller
             figure wins, from left to right
  REFUSED    the other agents by cause, the nearest first

A decision that was made keeps its three best candidates, and how many agents were
refused for which reason, by name where they are at most 8; one that is asked for now
shows up to 200 candidates, and of the refused the nearest 8 by cause. Of a task that
waits or failed you also see which capabilities are missing, and the agent that came
closest; of one that may go to several models, by what these are judged, and why each
was chosen or passed over.`,
		Example: `  taskbus explain task-0042
  taskbus explain task-0042 -o json`,
		Args: cobra.ExactArgs(1),
	}
	base := cli.URLFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cli.CheckID("a task", args[0]); err != nil {
			return err
		}
		return cli.ShowAnswer(c.Context(), a, *base, "/tasks/"+url.PathEscape(args[0])+"/explain", printTaskExplanation)
	}
	return c
}

func printTaskExplanation(p *cli.Page, e view.TaskExplanation) {
	if e.Type == "" { // a message that could not be read as far as that
		p.Line("%s: %s", e.ID, verdict(e))
	} else {
		p.Line("%s (%s): %s", e.ID, e.Type, verdict(e))
	}
	for key, text := range messages.Texts(&e.Carried) {
		p.Line("%s %s", inPlainWords.Replace(key), text)
	}
	if e.Reason != "" {
		p.Line("%s", e.Reason)
	}
	if e.Error != "" {
		p.Line("its agent says: %s", e.Error)
	}
	switch {
	case e.Explanation == nil && len(e.Attempts) > 0:
		p.Line("the decision is not known here: it was made elsewhere, or long ago; `taskbus journal show %s` has it",
			e.ID)
	case e.Explanation == nil:
		p.Line("no decision was made for it")
	default:
		said := strings.Contains(e.Reason, e.Explanation.Text) // with the words of its agent behind it
		switch {
		case e.State == "failed" && !said && len(e.Attempts) > 0 && e.Explanation.Refused == nil:
			p.Line("its latest dispatch was decided so: %s", e.Explanation.Text)
		case !said:
			p.Line("%s", e.Explanation.Text)
		}
		counts(p, e.Explanation, e.Agent != "")
	}
	if e.Queued != nil {
		p.Line("in the queue: %s", e.Queued.Text)
		p.Line("it starts: %s", e.Queued.Start)
	}
	attempts(p, e.Attempts)
	if e.Explanation != nil {
		tables(p, e.Explanation)
	}
	if e.NowUnknown != "" {
		p.Blank()
		why, remedy, more := strings.Cut(e.NowUnknown, "; ")
		p.Line("decided now: not known: %s", why)
		if more {
			p.Line("%s", remedy)
		}
	}
	if e.Now != nil && e.State != "succeeded" && e.State != "cancelled" { // what has ended well is not decided again
		p.Blank()
		if e.Now.ReasonCode != "" && e.Now.ReasonCode == e.ReasonCode && strings.HasPrefix(e.Reason, e.Now.Reason) {
			p.Line("decided now: %s, for the same reason", e.Now.ReasonCode)
		} else {
			p.Line("decided now: %s", foresight(*e.Now))
		}
		if e.Now.Explanation != nil {
			counts(p, e.Now.Explanation, e.Now.Agent != "")
			tables(p, e.Now.Explanation)
		}
	}
}

// inPlainWords makes a label of a key: "trace id" of "correlation_id".
var inPlainWords = strings.NewReplacer("correlation", "trace", "_", " ")

// verdict is the outcome in a few words.
func verdict(e view.TaskExplanation) string {
	text := e.State
	switch {
	case e.Agent == "":
	case e.State == "pending":
		text += " again, " + e.Agent + " had it"
	case e.State == "dispatching" || e.State == "dispatched":
		text += " to " + e.Agent
	default:
		text += " at " + e.Agent // where it ended, or was last
	}
	if e.Attempt > 1 {
		text += ", attempt " + strconv.Itoa(e.Attempt)
	}
	if e.ReasonCode != "" && e.ReasonCode != e.State {
		text += ", " + e.ReasonCode
	}
	return text
}

// foresight is how a task would be decided, in one line.
func foresight(p view.Prospect) string {
	if p.ReasonCode != "" {
		return p.ReasonCode + ": " + p.Reason
	}
	if p.Explanation == nil || p.Explanation.Text == "" {
		return strings.TrimSpace(p.Agent)
	}
	text := p.Explanation.Text
	if p.Explanation.Explored {
		text += ", exploring"
	}
	return text
}

// attempts is the table of a task's dispatches.
func attempts(p *cli.Page, list []view.Attempt) {
	if len(list) == 0 {
		return
	}
	t := cli.NewTable("ATTEMPT", "AGENT", "WHEN", "OUTCOME", "ITS AGENT SAYS")
	for _, a := range list {
		number := ""
		if a.Number > 0 {
			number = strconv.Itoa(a.Number)
		}
		t.Row(number, a.Agent, p.Ago(a.At), a.Outcome, a.Detail)
	}
	p.Blank()
	p.Table(t)
}
