package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// The limits of /v1/quota/history.
const (
	DefaultHistoryLimit = 1000
	MaxHistoryLimit     = 100_000
)

// historyTimeout bounds a question to the database.
const historyTimeout = 8 * time.Second

// noHistory is that of a coordinator that keeps none.
type noHistory struct{}

func (noHistory) Usage(context.Context, usage.Query) ([]usage.Row, bool, error) {
	return nil, false, nil
}

func (noHistory) Projection(context.Context) (view.Projection, error) {
	return view.Projection{State: "off",
		Detail: "this coordinator keeps no history of usage: TASKBUS_HISTORY is off, or there is no place for it; " +
			"docs/howto/usage-history.md says how to have one", Offset: -1}, nil
}

func (noHistory) Zone() *time.Location { return nil }

func (noHistory) Rebuild(context.Context) (view.Rebuilt, error) {
	return view.Rebuilt{}, errors.New("this coordinator keeps no history of usage")
}

// historyProblem answers a question to a history that cannot be asked: where there are no quotas it is of
// no use to try again.
func historyProblem(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrNoQuotas) {
		web.Problem(w, http.StatusNotFound, "No quotas",
			"This coordinator has no quotas.yaml, and keeps and shows no history of usage without one. docs/quotas.md says "+
				"how to write one.")
		return
	}
	web.NotAvailable(w, "History not available", "Asking the history of usage", err)
}

// usageHistory answers /v1/quota/history.
func (a *api) usageHistory(w http.ResponseWriter, r *http.Request) {
	given, err := web.Parameters(r.URL.RawQuery, "group", "agent", "provider", "model", "from", "to", "by", "limit")
	q := usage.Query{}
	if err == nil {
		err = historyQuery(given, &q)
	}
	q.Limit, err = historyLimit(given, err)
	if err == nil {
		q.By, err = historyBy(given)
	}
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	l := view.HistoryList{By: string(q.By), Rows: []view.HistoryRow{}}
	rows, more, err := a.history.Usage(ctx, q)
	if err == nil {
		l.Projection, err = a.projection(ctx)
	}
	if err != nil {
		historyProblem(w, err)
		return
	}
	for i := range rows {
		l.Rows = append(l.Rows, historyRow(&rows[i]))
	}
	l.More = more
	web.Answer(w, http.StatusOK, l)
}

func (a *api) projection(ctx context.Context) (view.Projection, error) {
	p, err := a.history.Projection(ctx)
	p.Gaps = present(p.Gaps)
	return p, err
}

// historyBy reads the parameter by: a day, if it is not given.
func historyBy(given map[string]string) (usage.By, error) {
	text, ok := given["by"]
	switch by := usage.By(text); {
	case !ok:
		return usage.ByDay, nil
	case by == usage.ByDay, by == usage.ByMonth, by == usage.ByTotal:
		return by, nil
	}
	return "", errors.New("by must be day, month or total")
}

// historyQuery reads the parameters that narrow a question.
func historyQuery(given map[string]string, q *usage.Query) error {
	orOthers := func(valid func(string) bool) func(string) bool {
		return func(text string) bool { return text == usage.Others || valid(text) }
	}
	if err := names(given, name{"group", &q.Group, orOthers(messages.ValidID)},
		name{"agent", &q.Agent, orOthers(messages.ValidID)}, name{"provider", &q.Provider, orOthers(validProvider)},
		name{"model", &q.Model, orOthers(modelPattern.MatchString)}); err != nil {
		return err
	}
	for name, into := range map[string]*string{"from": &q.From, "to": &q.To} {
		text := given[name]
		if text == "" {
			continue
		}
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return fmt.Errorf("%s must be a day such as 2026-11-22", name)
		}
		*into = text
	}
	if q.From != "" && q.To != "" && q.To < q.From {
		return errors.New("to is before from")
	}
	return nil
}

func historyRow(r *usage.Row) view.HistoryRow {
	return view.HistoryRow{Day: r.Day, Group: r.Group, Agent: r.Agent, Provider: r.Provider, Model: r.Model,
		Source:        r.Source,
		HistoryCounts: historyCounts(&r.Counts)}
}

func historyCounts(c *usage.Counts) view.HistoryCounts {
	return view.HistoryCounts{
		Requests: c.Requests, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, TotalTokens: c.TotalTokens,
		CostUSD: dollars(c.Cost),
		Calls:   c.Calls(), Settled: c.Settled, Released: c.Released, Expired: c.Untold(), Late: c.Late,
	}
}

// dollars are micro-USD as US dollars.
func dollars(micro int64) float64 { return float64(micro) / 1e6 }

// rebuildHistory answers POST /v1/quota/history/rebuild.
func (a *api) rebuildHistory(w http.ResponseWriter, r *http.Request) {
	if !web.Unasked(w, r) || !web.ReadBody(w, r, "nothing or {}") {
		return
	}
	made, err := a.history.Rebuild(r.Context())
	switch {
	case errors.Is(err, ErrRebuilding):
		web.Answer(w, http.StatusAccepted,
			view.Rebuilt{State: "rebuilding", Detail: "It goes on; GET /v1/quota/history says in projection when it is done."})
	case err != nil:
		web.Problem(w, http.StatusServiceUnavailable, "Not done", "The history is as it was: "+
			messages.Clean(err.Error(), messages.MaxText)+".")
	default:
		made.State = "done"
		web.Answer(w, http.StatusOK, made)
	}
}
