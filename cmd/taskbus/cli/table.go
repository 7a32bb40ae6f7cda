package cli

import (
	"fmt"

	"taskbus/messages"
)

// MaxCell bounds one cell of a table, in bytes: a table is for reading.
const MaxCell = 60

// Table collects rows; [Page.Table] prints them in aligned columns.
type Table struct {
	rows [][]string
	// Whole: what is printed is searched and cut up by another program, so no cell is cut.
	Whole bool
}

func NewTable(headers ...string) *Table { return &Table{rows: [][]string{headers}} }

// Row adds a line. An empty cell shows as a dash, so that columns stay visible.
func (t *Table) Row(cells ...any) {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = messages.Clean(fmt.Sprint(cell), t.Limit(MaxCell))
		if line[i] == "" {
			line[i] = "-"
		}
	}
	t.rows = append(t.rows, line)
}

// Limit is how many bytes of a cell are shown, of a text that may have so many where people read it.
func (t *Table) Limit(most int) int {
	if t.Whole {
		return messages.MaxText
	}
	return most
}

// Empty reports whether there is no row but the headers.
func (t *Table) Empty() bool { return len(t.rows) == 1 }
