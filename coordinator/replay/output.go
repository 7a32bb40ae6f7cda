package replay

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// mostShares is how many agents of a type the table shows, leastChange which change of
// the largest is worth showing any.
const (
	mostShares  = 5
	leastChange = 0.0005
)

// Modelled says, for people, what of a comparison is modelled.
const Modelled = `What is modelled: as recorded are the tasks and when they came, when agents were there and
with how many slots, orders, cancellations, reloads and lost sessions. A task that goes to
the agent that truly had it ends as it truly did. On another agent it ends like one of that
agent's own tasks of the type, drawn from those recorded: it takes that agent's usual time
and fails at its rate (where little is recorded of it, like a task of the type on others,
scaled by how fast it is). Every queue exists and every dispatch is confirmed. "before" is
the same model under the recorded policy: compare before with after; how far before is from
recorded is how far to trust the model.`

// WriteTable writes the comparison for people.
func (c *Comparison) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "recording %s of epoch %d: %s\n", clean(c.Recording), c.Epoch, spanText(c.From, c.Until))
	fmt.Fprintf(&b, "before: %s\nafter:  %s\n\n", policyNames(c.Before), policyNames(c.After))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t,
		"TYPE\tRUN\tTASKS\tSUCCEEDED\tFAILED\tREFUSED\tCANCELLED\tOPEN\tCAME BACK\tWAIT P50 S\tP99 S\tTOTAL P50 S\tP99 S")
	types := c.Types
	if len(types) > 1 {
		types = append(types[:len(types):len(types)], c.All)
	}
	for i := range types {
		k := &types[i]
		k.Recorded.line(t, name(k.Type), "recorded", i < len(c.Types))
		k.Before.line(t, "", "before", i < len(c.Types))
		k.After.line(t, "", "after", i < len(c.Types))
	}
	fmt.Fprintln(t)
	c.tableOfReasons(t)
	c.tableOfShares(t)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b,
		"ends of dispatches, before and after: as recorded %s, like the agent's own %s, borrowed from others %s, from "+
			"other types %s\n",
		percents(c.EndingsBefore.AsRecorded, c.EndingsAfter.AsRecorded),
		percents(c.EndingsBefore.ItsOwn, c.EndingsAfter.ItsOwn),
		percents(c.EndingsBefore.OfOthers, c.EndingsAfter.OfOthers),
		percents(c.EndingsBefore.OfAnyType, c.EndingsAfter.OfAnyType))
	for _, note := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", clean(note))
	}
	fmt.Fprintf(&b, "\n%s\n", Modelled)
	_, err := io.WriteString(w, b.String())
	return err
}

// line is one row; quantiles are of single types only.
func (r *Result) line(w io.Writer, kind, run string, quantiles bool) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d", kind, run, r.Tasks, r.Succeeded, r.Failed, r.Refused, r.Cancelled,
		r.Open, r.CameBack)
	if quantiles {
		fmt.Fprintf(w, "\t%.3f\t%.3f\t%.3f\t%.3f\n", r.WaitP50, r.WaitP99, r.TotalP50, r.TotalP99)
		return
	}
	fmt.Fprintln(w, "\t\t\t\t")
}

// tableOfReasons says why tasks were refused, where any were.
func (c *Comparison) tableOfReasons(w io.Writer) {
	head := "TYPE\tRUN\tREFUSED BECAUSE"
	for i := range c.Types {
		k := &c.Types[i]
		for _, run := range []struct {
			name string
			of   *Result
		}{{"recorded", &k.Recorded}, {"before", &k.Before}, {"after", &k.After}} {
			if len(run.of.Reasons) == 0 {
				continue
			}
			if head != "" {
				fmt.Fprintln(w, head)
				head = ""
			}
			var reasons []string
			for _, r := range run.of.Reasons {
				reasons = append(reasons, r.Reason+" "+strconv.Itoa(r.Tasks))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", name(k.Type), run.name, strings.Join(reasons, ", "))
		}
	}
	if head == "" {
		fmt.Fprintln(w)
	}
}

// tableOfShares says which agents would have got more or less.
func (c *Comparison) tableOfShares(w io.Writer) {
	fmt.Fprintln(w, "TYPE\tAGENT\tBEFORE %\tAFTER %\tCHANGE")
	for i := range c.Types {
		k := &c.Types[i]
		kind := name(k.Type)
		if len(k.Shares) > 0 && math.Abs(k.Shares[0].After-k.Shares[0].Before) < leastChange {
			fmt.Fprintf(w, "%s\tas before\t\t\t\n", kind)
			continue
		}
		for n, s := range k.Shares {
			if n == mostShares {
				fmt.Fprintf(w, "\t… %d more\t\t\t\n", len(k.Shares)-n)
				break
			}
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%+.1f\n", kind, clean(s.Agent), 100*s.Before, 100*s.After,
				100*(s.After-s.Before))
			kind = ""
		}
	}
	fmt.Fprintln(w)
}

func policyNames(list []PolicyName) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, fmt.Sprintf("%s (configuration %s)", clean(p.Strategy), clean(p.Version)))
	}
	return strings.Join(texts, ", then ")
}

func percents(before, after float64) string {
	return fmt.Sprintf("%.0f %% → %.0f %%", 100*before, 100*after)
}

// name shows a task type; tasks may have none.
func name(kind string) string {
	if kind == "" {
		return "-"
	}
	return clean(kind)
}

// clean keeps what stands in a recording from writing to a terminal what it should not,
// or from breaking a table.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// WriteJSON writes the whole comparison.
func (c *Comparison) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(c)
}

// WriteCSV writes one line for each type, run and value: recording, type, run (recorded,
// before, after), metric, value. Shares are from 0 to 1, times in seconds. header says
// whether the names of the columns come first.
func (c *Comparison) WriteCSV(w io.Writer, header bool) error {
	out := csv.NewWriter(w)
	// Errors of single lines are kept by the writer until the end.
	if header {
		_ = out.Write([]string{"recording", "type", "run", "metric", "value"})
	}
	for i := range c.Types {
		k := &c.Types[i]
		for _, run := range []struct {
			name string
			of   *Result
		}{{"recorded", &k.Recorded}, {"before", &k.Before}, {"after", &k.After}} {
			line := func(metric string, v float64) {
				_ = out.Write([]string{c.Recording, k.Type, run.name, metric, strconv.FormatFloat(v, 'g', -1, 64)})
			}
			run.of.lines(line)
			for _, s := range k.Shares {
				switch run.name {
				case "before":
					line("share."+s.Agent, s.Before)
				case "after":
					line("share."+s.Agent, s.After)
				}
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write the comparison as CSV: %w", err)
	}
	return nil
}

// lines gives every value of the result.
func (r *Result) lines(line func(metric string, v float64)) {
	line("tasks", float64(r.Tasks))
	line("succeeded", float64(r.Succeeded))
	line("failed", float64(r.Failed))
	line("refused", float64(r.Refused))
	line("cancelled", float64(r.Cancelled))
	line("open", float64(r.Open))
	line("came_back", float64(r.CameBack))
	line("wait_p50_seconds", r.WaitP50)
	line("wait_p99_seconds", r.WaitP99)
	line("total_p50_seconds", r.TotalP50)
	line("total_p99_seconds", r.TotalP99)
	for _, reason := range r.Reasons {
		line("refused."+reason.Reason, float64(reason.Tasks))
	}
}
