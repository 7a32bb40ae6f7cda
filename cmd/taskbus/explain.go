package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

func (a *app) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain TASK",
		Short: "Say why a task went where it went, or why it waits or failed",
		Long: `Explains the latest decision about one task.

For a task that was given to an agent: the best candidates with the figures the
strategy compared (the smaller wins, from left to right). For one that waits or
failed: how many agents were refused for which reason, which capabilities are
missing, and the agent that came closest.`,
		Example: `  taskbus explain task-0042
  taskbus explain task-0042 -o json`,
		Args: cobra.ExactArgs(1),
	}
	base := urlFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkID("a task", args[0]); err != nil {
			return err
		}
		client, err := a.newClient(*base)
		if err != nil {
			return err
		}
		e, err := client.explain(c.Context(), args[0])
		if err != nil {
			return err
		}
		if a.output == outputJSON {
			return a.printJSON(e)
		}
		return printExplanation(a.out, e)
	}
	return c
}

func printExplanation(w io.Writer, e httpapi.TaskExplanation) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(oneLine(fmt.Sprintf(format, args...)) + "\n") }

	line("%s (%s): %s", e.ID, e.Type, verdict(e))
	line("trace id %s", e.TraceID)
	if e.Reason != "" {
		line("%s", e.Reason)
	}
	if e.Error != "" {
		line("its agent says: %s", e.Error)
	}
	x := e.Explanation
	if x == nil {
		line("no decision was recorded for it")
		_, err := io.WriteString(w, b.String())
		return err
	}
	if x.Text != "" && x.Text != e.Reason {
		line("%s", x.Text)
	}
	// The text of a refusal has these counts in words already.
	if e.Agent != "" && len(x.Refused) > 0 {
		line("not eligible: %s", counts(inWords(x.Refused)))
	}
	if e.Agent != "" && len(x.Missing) > 0 {
		line("agents that lack a capability: %s", counts(x.Missing))
	}
	if _, err := io.WriteString(w, b.String()); err != nil || len(x.Candidates) == 0 {
		return err
	}
	return printCandidates(w, x.Candidates)
}

// verdict is the outcome in a few words.
func verdict(e httpapi.TaskExplanation) string {
	text := e.State
	switch {
	case e.Agent == "":
	case e.State == "dispatching" || e.State == "dispatched":
		text += " to " + e.Agent
	default:
		text += " at " + e.Agent // where it ended, or was last
	}
	if e.Attempt > 1 {
		text += ", attempt " + strconv.Itoa(e.Attempt)
	}
	if e.ReasonCode != "" {
		text += ", " + e.ReasonCode
	}
	return text
}

func printCandidates(w io.Writer, candidates []httpapi.Candidate) error {
	headers := []string{"CANDIDATE", "FREE"}
	for _, term := range candidates[0].Terms {
		headers = append(headers, strings.ToUpper(oneLine(term.Name)))
	}
	t := newTable(headers...)
	for _, c := range candidates {
		cells := []any{c.Agent, c.Free}
		for _, term := range c.Terms {
			cells = append(cells, strconv.FormatFloat(term.Value, 'g', 4, 64))
		}
		t.row(cells...)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.print(w)
}

// inWords is counts by cause for people: the code for a cordoned agent stands for one
// that drains as well.
func inWords(refused map[string]int) map[string]int {
	words := maps.Clone(refused)
	cordoned := coordinator.Cordoned.String()
	if n, some := words[cordoned]; some {
		delete(words, cordoned)
		words["cordoned or draining"] = n
	}
	return words
}

// counts renders "5 full, 7 lacks_capability", the largest first, then by name.
func counts(by map[string]int) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			return by[b] - by[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	return strings.Join(parts, ", ")
}
