package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"taskbus/coordinator/view"
)

// Page is output for people. It writes until the first error, which [App.Show] returns: what prints on it
// need not look at errors.
type Page struct {
	now time.Time
	w   io.Writer
	err error
}

// Show prints v as JSON if that is asked for, or else what text writes.
func (a *App) Show(v any, text func(*Page)) error {
	if a.Output == OutputJSON {
		return a.printJSON(v)
	}
	return a.Text(text)
}

// Text prints what write writes, in whatever form output is asked for.
func (a *App) Text(write func(*Page)) error {
	p := &Page{now: a.Now(), w: a.Out}
	write(p)
	return p.err
}

func (a *App) printJSON(v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", body)
	return err
}

// Write implements [io.Writer], for what writes itself.
func (p *Page) Write(body []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	var n int
	n, p.err = p.w.Write(body)
	return n, p.err
}

// Fail ends the page with an error, if there was none before.
func (p *Page) Fail(err error) { p.err = cmp.Or(p.err, err) }

// Line writes one line, whatever is in it.
func (p *Page) Line(format string, args ...any) {
	fmt.Fprintln(p, OneLine(fmt.Sprintf(format, args...)))
}

func (p *Page) Blank() { fmt.Fprintln(p) }

// Hang writes lines, each behind so many columns: in the first these hold head.
func (p *Page) Hang(columns int, head string, lines []string) {
	for _, line := range lines {
		p.Line("%-*s%s", columns, head, line)
		head = ""
	}
}

// Table writes the rows in aligned columns.
func (p *Page) Table(t *Table) {
	tw := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush()
}

// Ago and Until render a time as seen from now.
func (p *Page) Ago(then time.Time) string   { return Ago(p.now, then) }
func (p *Page) Until(then time.Time) string { return Until(p.now, then) }

// Now is when the page was begun.
func (p *Page) Now() time.Time { return p.now }

// Routes shows how the alternatives of a call, or a task, were judged, if it has any.
func (p *Page) Routes(all []view.QuotaRoute, weights *view.CallRouteTerms) {
	if len(all) == 0 {
		return
	}
	t := NewTable("ALTERNATIVE", "REMAINING", "PRICE", "LATENCY", "SUCCESS", "SCORE")
	part := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
	for _, r := range all {
		t.Row(ModelOf(r.Provider, r.Model), part(r.Terms.Remaining), part(r.Terms.Price), part(r.Terms.Latency),
			part(r.Terms.Success), part(r.Score))
	}
	p.Blank()
	p.Table(t)
	p.Blank()
	for _, r := range all {
		verdict := "passed over"
		if r.Chosen {
			verdict = "chosen"
		}
		p.Line("%s: %s", ModelOf(r.Provider, r.Model), verdict)
		if r.Why != "" {
			p.Line("  %s", r.Why)
		}
	}
	if w := weights; w != nil {
		p.Line("a score is the mean of the four by their weights: remaining %g, price %g, latency %g, success %g",
			w.Remaining, w.Price, w.Latency, w.Success)
	}
}
