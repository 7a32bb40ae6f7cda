package httpapi

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

const (
	// MaxBill is the largest bill, in bytes.
	MaxBill = 10 << 20
	// mostBills is how many may be on their way here at one time, and how many are reconciled; so that
	// bills do not fill the memory. How long one may be on its way is for Serve to say.
	mostBills       = 8
	mostReconciling = 2
	billTimeout     = 20 * time.Second
	// maxDifferences is how many differences are told, mostBillRows how much of the history is read.
	maxDifferences = 1000
	mostBillRows   = 500_000
)

// reconcile answers POST /v1/quota/reconcile. It changes nothing, so that it needs no token; but a page in
// a browser has no business here.
func (a *api) reconcile(w http.ResponseWriter, r *http.Request) {
	if !web.SameOrigin(w, r, a.permission.browsers) {
		return
	}
	q, err := billQuery(r.URL.RawQuery)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "text/csv" {
		web.Problem(w, http.StatusUnsupportedMediaType, "Not CSV",
			"The body must be the bill as CSV, and its Content-Type text/csv.")
		return
	}
	select {
	case a.bills <- struct{}{}:
		defer func() { <-a.bills }()
	default:
		w.Header().Set(web.RetryAfter, "5")
		web.Problem(w, http.StatusServiceUnavailable, "Busy",
			fmt.Sprintf("%d bills are on their way here; send this one again in a moment.", mostBills))
		return
	}
	body, ok := web.Whole(w, http.MaxBytesReader(w, r.Body, MaxBill), "Bill too large", "bill",
		": reconcile a shorter time.")
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), billTimeout)
	defer cancel()
	select {
	case a.reconciling <- struct{}{}:
		defer func() { <-a.reconciling }()
	case <-ctx.Done():
		web.NotAvailable(w, "Busy", "Waiting for other bills", ctx.Err())
		return
	}
	bill, err := usage.ReadBill(body, q.options)
	if err != nil {
		web.Problem(w, http.StatusBadRequest, "Not a bill", "The bill cannot be read: "+
			messages.Clean(err.Error(), 2*messages.MaxText)+". docs/howto/usage-history.md says which columns it may have.")
		return
	}
	a.compared(ctx, w, bill, q)
}

// compared answers with what comparing has shown.
func (a *api) compared(ctx context.Context, w http.ResponseWriter, bill *usage.Bill, q *billQuestion) {
	if q.from == "" {
		q.from = bill.From
	}
	if q.to == "" {
		q.to = bill.To
	}
	rows, more, err := a.history.Usage(ctx, usage.Query{By: usage.ByDay, From: q.from, To: q.to, Limit: mostBillRows})
	if err == nil && more {
		web.Problem(w, http.StatusBadRequest, "Too much",
			fmt.Sprintf("The history has more than %d rows from %s to %s: reconcile a shorter time.", mostBillRows, q.from,
				q.to))
		return
	}
	var projection view.Projection
	if err == nil {
		projection, err = a.projection(ctx)
	}
	if err != nil {
		historyProblem(w, err)
		return
	}
	result := usage.Reconcile(rows, bill, q.by, q.from, q.to, q.tolerance)
	if result.Keys == 0 { // what compares nothing must not be taken for "they agree"
		web.Problem(w, http.StatusBadRequest, "Nothing to compare",
			fmt.Sprintf(
				"From %s to %s neither the bill, which is of %s to %s, nor the history has anything; correct from and to.", q.from,
				q.to, bill.From, bill.To))
		return
	}
	d := view.Reconciled{
		From: result.From, To: result.To, By: string(q.by), Columns: result.Columns, Ignored: present(bill.Ignored),
		Lines:  bill.Lines,
		Agrees: result.Differ == 0, Compared: result.Keys, Differ: result.Differ,
		More:   len(result.Differences) > maxDifferences,
		Totals: []view.BillTotal{}, Differences: []view.BillDifference{}, Lost: historyCounts(&result.Lost),
		Projection: projection,
	}
	for _, t := range result.Totals {
		d.Totals = append(d.Totals, billTotal(&usage.Difference{Measure: t.Measure, Ours: t.Ours, Bill: t.Bill}))
	}
	for i := range result.Differences[:min(maxDifferences, len(result.Differences))] {
		x := &result.Differences[i]
		b := view.BillDifference{Day: x.Day, Provider: x.Provider, Model: x.Model, Group: x.Group, Agent: x.Agent,
			BillTotal: billTotal(x)}
		switch {
		case x.OnlyOurs:
			b.Only = "history"
		case x.OnlyBill:
			b.Only = "bill"
		}
		d.Differences = append(d.Differences, b)
	}
	web.Answer(w, http.StatusOK, d)
}

func billTotal(d *usage.Difference) view.BillTotal {
	in := func(v int64) float64 {
		if d.Measure == "cost_usd" {
			return dollars(v)
		}
		return float64(v)
	}
	t := view.BillTotal{Measure: d.Measure, History: in(d.Ours), Bill: in(d.Bill), Difference: in(d.Absolute())}
	if d.Bill != 0 {
		relative := d.Relative()
		t.Relative = &relative
	}
	return t
}
