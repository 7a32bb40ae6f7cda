package cli

import (
	"fmt"
	"io"
	"strconv"

	"taskbus/coordinator/view"
)

// Page writes lines and tables until the first error.
type Page struct {
	W   io.Writer
	Err error
}

func (p *Page) Line(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintln(p.W, OneLine(fmt.Sprintf(format, args...)))
	}
}

func (p *Page) Blank() {
	if p.Err == nil {
		_, p.Err = fmt.Fprintln(p.W)
	}
}

// Table prints one with an empty line before it.
func (p *Page) Table(t *Table) {
	if p.Blank(); p.Err == nil {
		p.Err = t.Print(p.W)
	}
}

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
	p.Table(t)
	p.Blank()
	for _, r := range all {
		verdict := "passed over"
		if r.Chosen {
			verdict = "chosen"
		}
		p.Line("%s: %s", ModelOf(r.Provider, r.Model), verdict)
		p.Line("  %s", r.Why)
	}
	if w := weights; w != nil {
		p.Line("a score is the mean of the four by their weights: remaining %g, price %g, latency %g, success %g",
			w.Remaining, w.Price, w.Latency, w.Success)
	}
}
