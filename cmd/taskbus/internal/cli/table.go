package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"taskbus/messages"
)

// MaxCell bounds one cell of a table, in bytes: a table is for reading.
const MaxCell = 60

// Table collects rows and prints them in aligned columns.
type Table struct {
	Rows [][]string
	// whole: what is printed is searched and cut up by another program, so no cell is cut.
	Whole bool
}

func NewTable(headers ...string) *Table { return &Table{Rows: [][]string{headers}} }

// Row adds a line. An empty cell shows as a dash, so that columns stay visible.
func (t *Table) Row(cells ...any) {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = messages.Clean(fmt.Sprint(cell), t.Limit(MaxCell))
		if line[i] == "" {
			line[i] = "-"
		}
	}
	t.Rows = append(t.Rows, line)
}

// Limit is how many bytes of a cell are shown, of a text that may have so many where people read it.
func (t *Table) Limit(most int) int {
	if t.Whole {
		return messages.MaxText
	}
	return most
}

func (t *Table) Print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.Rows {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}
