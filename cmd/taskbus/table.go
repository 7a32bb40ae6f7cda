package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"taskbus/messages"
)

// maxCell bounds one cell of a table, in bytes: a table is for reading.
const maxCell = 60

// table collects rows and prints them in aligned columns.
type table struct {
	rows [][]string
	// whole: what is printed is searched and cut up by another program, so no cell is cut.
	whole bool
}

func newTable(headers ...string) *table { return &table{rows: [][]string{headers}} }

// row adds a line. An empty cell shows as a dash, so that columns stay visible.
func (t *table) row(cells ...any) {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = messages.Clean(fmt.Sprint(cell), t.limit(maxCell))
		if line[i] == "" {
			line[i] = "-"
		}
	}
	t.rows = append(t.rows, line)
}

// limit is how many bytes of a cell are shown, of a text that may have so many where people read it.
func (t *table) limit(most int) int {
	if t.whole {
		return messages.MaxText
	}
	return most
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

func (a *app) printJSON(v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s\n", body)
	return err
}

// ago renders how long before now something was: "3s ago", in the largest unit
// that fits; "" when it never was.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	if d := now.Sub(then); d >= time.Second {
		return inUnit(d) + " ago"
	}
	return "now"
}

// inUnit renders a time of a second or more in the largest unit that fits: "3s".
func inUnit(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// count renders a number of things: "1 agent", "3 agents".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine makes a text from any source fit for one line of a terminal.
func oneLine(s string) string { return messages.Clean(s, messages.MaxText) }

// list joins words in a cell: the first few, then how many more.
func list[S ~string](words []S, most int) string {
	var b strings.Builder
	for i, w := range words {
		if i == most {
			fmt.Fprintf(&b, " +%d", len(words)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(w))
	}
	return b.String()
}
