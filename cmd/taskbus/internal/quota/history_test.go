package quota

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// answers is a coordinator that says what it is to say, and notes what it was asked.
type answers struct {
	of    map[string]any // by path
	asked []string
	body  string
}

func (a *answers) start(t *testing.T, r *clitest.Rig) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		a.asked, a.body = append(a.asked, q.Method+" "+q.URL.RequestURI()), string(body)
		v, ok := a.of[q.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			v = gateway.Problem{Title: "No such endpoint", Status: 404}
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	r.Env["TASKBUS_HTTP_URL"] = server.URL
}

func (a *answers) last() string {
	if len(a.asked) == 0 {
		return ""
	}
	return a.asked[len(a.asked)-1]
}

// november is a coordinator with a history of two groups.
func november() *answers {
	counts := func(calls, input, output int64, cost float64) view.HistoryCounts {
		return view.HistoryCounts{Requests: calls, InputTokens: input, OutputTokens: output, TotalTokens: input + output,
			CostUSD: cost, Calls: calls, Settled: calls}
	}
	projection := view.Projection{
		State: "following", Place: "/var/lib/taskbus/history.db", Since: clitest.Noon.AddDate(0, 0, -20),
		UpTo: clitest.Noon.Add(-2 * time.Second), Offset: 4711,
		Gaps: []view.HistoryGap{{From: clitest.Noon.AddDate(0, 0, -9), To: clitest.Noon.AddDate(0, 0, -8), Lost: 2,
			Reason: "records 40 to 99 are missing before it"}},
	}
	unused := counts(7, 900, 80, 0.0125)
	unused.Released, unused.Expired = 1, 2
	quarter, none := -0.25, (*float64)(nil)
	percents := 117.0
	return &answers{of: map[string]any{
		"/v1/quota/history": view.HistoryList{By: "day", Rows: []view.HistoryRow{
			{Day: "2026-02-27", Group: "alpha", Agent: "a1", Provider: "openai", Model: "gpt-4o", Source: "task",
				HistoryCounts: counts(120, 1_234_567, 45_678, 12.345678)},
			{Day: "2026-02-28", HistoryCounts: counts(1, 10, 0, 0)},
			{Day: "2026-02-28", Group: "beta", Source: "call", HistoryCounts: unused},
		}, More: true, Projection: projection},
		"/v1/quota/cost": view.CostReport{
			From: "2026-02-01", Total: counts(127, 1_235_467, 45_758, 12.358178), Projection: projection,
			Groups: []view.CostLine{{Group: "alpha", Share: 0.999, HistoryCounts: counts(120, 1_234_567, 45_678, 12.345678)},
				{Share: 0.001, HistoryCounts: counts(1, 10, 0, 0.0125)}},
			Agents: []view.CostLine{{Group: "alpha", Agent: "a1", Share: 0.999,
				HistoryCounts: counts(120, 1_234_567, 45_678, 12.345678)}},
			Models: []view.CostLine{{Provider: "openai", Model: "gpt-4o", Share: 1,
				HistoryCounts: counts(120, 1_234_567, 45_678, 12.345678)},
				{Provider: "lab", Unpriced: true, HistoryCounts: counts(7, 900, 80, 0)}},
		},
		"/v1/quota/forecast": view.Forecasts{Configured: true, At: clitest.Noon, TotalBudgets: 3, Overruns: 1,
			Projection: projection, Budgets: []view.BudgetForecast{
				{Node: "pool/alpha", Kind: "group", Dimension: "total_tokens", Used: 300_000, Cap: 500_000, Expected: 585_000.25,
					Percent: &percents, Basis: "weekdays of 21 days", Overruns: true,
					OverrunAt: clitest.Noon.AddDate(0, 0, 5), ResetTime: clitest.Noon.AddDate(0, 0, 9)},
				{Node: "openai", Kind: "pool", Dimension: "cost_usd", Used: 12.34, Cap: 100, Expected: 45.6789012,
					Basis: "mean of 3 days", ResetTime: clitest.Noon.AddDate(0, 0, 9)},
			}},
		"/v1/quota/reconcile": view.Reconciled{
			From: "2026-02-27", To: "2026-02-28", By: "day", Columns: []string{"date", "model", "input_tokens", "cost_usd"},
			Ignored: []string{"region"}, Lines: 40, Compared: 2, Differ: 2,
			Differences: []view.BillDifference{
				{Day: "2026-02-27", Model: "gpt-4o", BillTotal: view.BillTotal{Measure: "input_tokens", History: 300, Bill: 400,
					Difference: -100, Relative: &quarter}},
				{Day: "2026-02-28", Model: "mini", Only: "history",
					BillTotal: view.BillTotal{Measure: "cost_usd", History: 0.000123, Difference: 0.000123, Relative: none}},
			},
			Totals: []view.BillTotal{{Measure: "input_tokens", History: 300, Bill: 400, Difference: -100, Relative: &quarter},
				{Measure: "cost_usd", History: 0.000123, Difference: 0.000123}},
			Lost: counts(1, 10, 0, 0), Projection: projection,
		},
		"/v1/quota/history/rebuild": view.Rebuilt{State: "done", Rows: 3, FromDay: "2026-02-02", Kept: true,
			Detail: "The journal reaches back to 2026-02-01T08:00:00Z; the days before 2026-02-02 stay as they were."},
	}}
}

func TestLookingAtHistory(t *testing.T) {
	bill := filepath.Join(t.TempDir(), "bill.csv")
	if err := os.WriteFile(bill, []byte("date,cost_usd\n2026-02-27,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		golden, args string
		code         int
		asks         string
	}{
		{"quota-history.txt", "quota history", cli.ExitOK, "GET /v1/quota/history?by=day&limit=1000"},
		{"",
			"quota history --group alpha --agent a1 --provider openai --model gpt-4o --from 2026-02-01 --to 2026-02-28 --by " +
				"month --limit 5 -o json", cli.ExitOK,
			"GET /v1/quota/history?agent=a1&by=month&from=2026-02-01&group=alpha&limit=5&model=gpt-4o&provider=openai&" +
				"to=2026-02-28"},
		{"quota-history.csv", "quota history -o csv", cli.ExitOK, "GET /v1/quota/history?by=day&limit=1000"},
		{"quota-cost-by-month.txt", "quota cost --by month", cli.ExitOK, fmt.Sprint("GET /v1/quota/history?by=month&limit=",
			httpapi.MaxHistoryLimit)},
		{"quota-cost.txt", "quota cost --from 2026-02-01", cli.ExitOK, "GET /v1/quota/cost?from=2026-02-01&limit=20"},
		{"quota-cost.csv", "quota cost -o csv", cli.ExitOK, "GET /v1/quota/cost?limit=20"},
		{"quota-cost-by-month.csv", "quota cost --by month -o csv", cli.ExitOK,
			fmt.Sprint("GET /v1/quota/history?by=month&limit=", httpapi.MaxHistoryLimit)},
		{"", "quota cost -o json", cli.ExitOK, "GET /v1/quota/cost?limit=20"},
		{"quota-forecast.txt", "quota forecast", cli.ExitOK, "GET /v1/quota/forecast?limit=1000"},
		{"", "quota forecast pool/alpha -o json", cli.ExitOK, "GET /v1/quota/forecast?limit=1000&node=pool%2Falpha"},
		{"quota-reconcile.txt", "quota reconcile " + bill, cli.ExitDiffer,
			"POST /v1/quota/reconcile?by=day&tolerance_percent=1&tolerance_requests=0&tolerance_tokens=0&tolerance_usd=0.01"},
		{"", "quota reconcile " + bill +
			" --by total --provider openai --column date=when --column cost_usd=amount --model x=y --agent k=a --group p=g " +
			"--tolerance 0.5 --tolerance-usd 1 --tolerance-tokens 7 --tolerance-requests 2 -o json", cli.ExitDiffer,
			"POST /v1/quota/reconcile?agents=k%3Da&by=total&columns=date%3Dwhen%2Ccost_usd%3Damount&groups=p%3Dg&" +
				"models=x%3Dy&provider=openai&tolerance_percent=0.5&tolerance_requests=2&tolerance_tokens=7&tolerance_usd=1"},
		{"quota-history-rebuild.txt", "quota history --rebuild", cli.ExitOK, "POST /v1/quota/history/rebuild"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			r, a := newRig(), november()
			a.start(t, r)
			r.Env["TASKBUS_ADMIN_TOKEN"] = clitest.AdminToken
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code || r.Err.String() != "" &&
				!strings.HasSuffix(tc.args, "csv") || a.last() != tc.asks {
				t.Errorf("exit code %d, want %d; stderr: %s; asked %s", code, tc.code, r.Err.String(), a.last())
			}
			if strings.Contains(tc.args, "reconcile") && a.body != "date,cost_usd\n2026-02-27,1\n" {
				t.Errorf("the bill arrived as %q", a.body)
			}
			if tc.golden != "" {
				clitest.Golden(t, tc.golden, r.Out.String())
			} else if !json.Valid([]byte(r.Out.String())) {
				t.Errorf("no JSON: %s", r.Out.String())
			}
		})
	}
}

func TestHistoryOddities(t *testing.T) {
	off := &answers{of: map[string]any{
		"/v1/quota/history": view.HistoryList{By: "day",
			Projection: view.Projection{State: "off", Detail: "TASKBUS_HISTORY is off"}},
		"/v1/quota/forecast": view.Forecasts{},
		"/v1/quota/reconcile": view.Reconciled{
			Agrees: true, By: "day", Lines: 1, Compared: 1, From: "2026-02-27", To: "2026-02-27",
			Totals: []view.BillTotal{{Measure: "requests", History: 5, Bill: 5}},
		},
	}}
	for _, tc := range []struct {
		name, args string
		in         string
		code       int
		out, err   string // each is part of the output
	}{
		{"no history", "quota history", "", cli.ExitOK, "nothing was used\n\nit is off: TASKBUS_HISTORY is off\n", ""},
		{"no quotas", "quota forecast", "", cli.ExitOK, "no quotas.yaml", ""},
		{"a bill that agrees", "quota reconcile -", "date,requests\n2026-02-27,5\n", cli.ExitOK,
			"they agree: 1 line of the bill, 1 compared, from 2026-02-27 to 2026-02-27\n", ""},
		{"no bill", "quota reconcile /nowhere/bill.csv", "", cli.ExitFailed, "", "read the bill: open /nowhere/bill.csv"},
		{"a bill too large", "quota reconcile -", strings.Repeat("x", httpapi.MaxBill+1), cli.ExitFailed, "",
			"it has more than 10485760 bytes"},
		{"no day", "quota history --from yesterday", "", cli.ExitUsage, "", "--from must be a day such as 2026-11-22"},
		{"no such time", "quota history --by week", "", cli.ExitUsage, "", "--by must be day, month or total"},
		{"no limit", "quota cost --limit 0", "", cli.ExitUsage, "", "1 to 100000"},
		{"what is no node", "quota forecast ../x", "", cli.ExitUsage, "", "is not the id of a node"},
		{"an old coordinator", "quota cost", "", cli.ExitFailed, "", "No such endpoint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			off.start(t, r)
			r.In = strings.NewReader(tc.in)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code || !strings.Contains(r.Out.String(), tc.out) ||
				!strings.Contains(r.Err.String(), tc.err) || (r.Err.String() == "") != (tc.err == "") {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, tc.code, r.Out.String(), r.Err.String())
			}
		})
	}
}

// A group that quotas.yaml does not list has cost nothing: the one that was meant is named.
func TestCostOfAnUnknownGroup(t *testing.T) {
	of := map[string]any{
		"/v1/quota": view.Quotas{Configured: true,
			Nodes: []view.QuotaNode{{ID: "pool/chat", Kind: "group", Name: "chat"},
				{ID: "pool/chat/a1", Kind: "agent", Name: "a1"}}},
		"/v1/quota/cost":    view.CostReport{},
		"/v1/quota/history": view.HistoryList{},
	}
	for args, want := range map[string]string{
		"quota cost --group chta":            "quotas.yaml has no group chta: did you mean chat?\n",
		"quota cost --by month --group chta": "quotas.yaml has no group chta: did you mean chat?\n",
		"quota history --agent a2":           "quotas.yaml has no agent a2: did you mean a1?\n",
		"quota cost --group chat":            "",
	} {
		r := newRig()
		(&answers{of: of}).start(t, r)
		if code := r.Run(t, strings.Fields(args)...); code != cli.ExitOK || !strings.HasSuffix(r.Out.String(), want) ||
			strings.Contains(r.Out.String(), "has no") != (want != "") {
			t.Errorf("%s: exit code %d:\n%s%s", args, code, r.Out.String(), r.Err.String())
		}
	}
}
