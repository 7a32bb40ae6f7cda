package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

func (a *app) whatIfCommand() *cobra.Command {
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
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body, err := a.readTask(args[0])
		if err != nil {
			return err
		}
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		p, err := client.whatIf(c.Context(), body)
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			err = a.printJSON(p)
		} else {
			err = printProspect(a.out, p)
		}
		if err == nil && (p.Agent == "" || p.ReasonCode != "") {
			return errReported
		}
		return err
	}
	return c
}

// readTask reads the whole file, or standard input.
func (a *app) readTask(path string) ([]byte, error) {
	return a.readInput("the task", path, maxLine, "it is longer than %d bytes, and no coordinator would take it")
}

// readInput reads the whole file, or standard input for "-"; tooLong says what is wrong with more
// than so many bytes.
func (a *app) readInput(what, path string, most int, tooLong string) ([]byte, error) {
	input := a.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		defer file.Close() // only read from: nothing can be lost by closing it
		input = file
	}
	body, err := io.ReadAll(io.LimitReader(input, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(body) > most:
		return nil, fmt.Errorf("read %s: "+tooLong, what, most)
	}
	return body, nil
}

func printProspect(w io.Writer, q httpapi.Prospect) error {
	p := &page{w: w}
	for _, field := range q.Unknown {
		name, near, _ := strings.Cut(field, " ")
		p.line("warning: %s is no field of a task and has no effect; %s", name,
			cmp.Or(near, "docs/reference/messages.md lists those that there are"))
	}
	switch lacks := q.Explanation != nil && q.Explanation.Quota != nil; {
	case lacks && q.OfferedTo > 0:
		p.line("%s (%s): bids would be asked for (of %d) once its quota allows", q.ID, q.Type, q.OfferedTo)
	case lacks:
		p.line("%s (%s): %s would get it once its quota allows", q.ID, q.Type, q.Agent)
	case q.OfferedTo > 0:
		p.line("%s (%s): bids would be asked for (of %d); without any %s would get it", q.ID, q.Type, q.OfferedTo, q.Agent)
	case q.Agent != "":
		p.line("%s (%s): %s would get it", q.ID, q.Type, q.Agent)
	case q.ReasonCode == coordinator.ReasonNotClaimed.String():
		p.line("%s (%s): it would wait until an agent claims it", q.ID, q.Type)
	default:
		p.line("%s (%s): no agent would get it", q.ID, q.Type)
	}
	p.line("%s", foresight(q))
	if q.SuggestedAction != "" {
		p.line("what to do: %s", q.SuggestedAction)
	}
	if q.Explanation != nil {
		p.counts(q.Explanation, q.Agent != "")
		p.tables(q.Explanation)
	}
	return p.err
}
