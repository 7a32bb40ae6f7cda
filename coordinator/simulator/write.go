package simulator

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// What the reports of all simulations have in common.

// SeedsText says of how many histories the values are means.
func SeedsText(seeds []uint64) string {
	if n := len(seeds); n > 1 {
		return fmt.Sprintf("mean of %d seeds ± 95 %% interval", n)
	}
	return fmt.Sprintf("seed %d", seeds[0])
}

// WriteJSON writes a whole report.
func WriteJSON(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// WriteTable writes lines of columns that tabs separate, aligned, and lines without a tab as they are. What fails of a
// single line is returned at the end.
func WriteTable(w io.Writer, lines func(t io.Writer)) error {
	b := bufio.NewWriter(w)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	lines(t)
	return errors.Join(t.Flush(), b.Flush())
}

// Lines writes values as CSV: whose they are, the mean, and half of the 95 % interval.
type Lines struct{ out *csv.Writer }

// NewLines begins with the names of the columns before the two numbers.
func NewLines(w io.Writer, columns ...string) *Lines {
	l := &Lines{csv.NewWriter(w)}
	l.write(append(columns, "mean", "interval95"))
	return l
}

// Value writes one line.
func (l *Lines) Value(v Value, cells ...string) {
	l.write(append(cells, number(v.Mean), number(v.Interval)))
}

// write leaves errors of single lines to the writer, which keeps them until the end.
func (l *Lines) write(cells []string) { _ = l.out.Write(cells) }

// End reports whether all of it was written.
func (l *Lines) End() error {
	l.out.Flush()
	if err := l.out.Error(); err != nil {
		return fmt.Errorf("write the report as CSV: %w", err)
	}
	return nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
