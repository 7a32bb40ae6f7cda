package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// fakeHistory is a history in memory. It applies days and limits, and notes what it was asked.
type fakeHistory struct {
	rows     []usage.Row
	asked    usage.Query
	err      error
	state    view.Projection
	rebuilt  view.Rebuilt
	rebuiltE error
}

func (f *fakeHistory) Usage(ctx context.Context, q usage.Query) (rows []usage.Row, more bool, err error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, false, errors.New("asked without a time-out")
	}
	f.asked = q
	for _, r := range f.rows {
		if (q.From == "" || r.Day >= q.From) && (q.To == "" || r.Day <= q.To) {
			rows = append(rows, r)
		}
	}
	if q.Limit > 0 && len(rows) > q.Limit {
		rows, more = rows[len(rows)-q.Limit:], true
	}
	return rows, more, f.err
}

func (f *fakeHistory) Projection(context.Context) (view.Projection, error) { return f.state, f.err }
func (f *fakeHistory) Zone() *time.Location                                { return nil }
func (f *fakeHistory) Rebuild(context.Context) (view.Rebuilt, error)       { return f.rebuilt, f.rebuiltE }

func used(day, group, agent, model string, tokens, cost int64) usage.Row {
	return usage.Row{
		Key:    usage.Key{Day: day, Group: group, Agent: agent, Provider: "openai", Model: model, Source: usage.SourceTask},
		Counts: usage.Counts{Requests: 1, InputTokens: tokens, TotalTokens: tokens, Cost: cost, Settled: 1},
	}
}

func pressed(text string) string { return strings.Join(strings.Fields(text), "") }

func TestHistoryEndpoints(t *testing.T) {
	rows := []usage.Row{used("2026-11-21", "g", "a", "gpt-4o", 100, 250_000),
		used("2026-11-22", "g", "b", "gpt-4o", 300, 750_000)}
	keyed := slices.Clone(rows)
	keyed[0].Provider, keyed[1].Provider = "openai@a", "openai@b"
	since := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	state := view.Projection{State: "following", Since: since, UpTo: since.Add(time.Hour), Offset: 7,
		Gaps: []view.HistoryGap{{Lost: 3, Reason: "records 4 to 9 are missing before it"}}}
	for _, c := range []struct {
		name, target string
		history      fakeHistory
		status       int
		asks         usage.Query
		has          string // all of the body, without white space, must contain each of these
	}{
		{"by day", "/v1/quota/history", fakeHistory{rows: rows, state: state}, 200, usage.Query{By: "day", Limit: 1000},
			`{"by":"day", "day":"2026-11-21" "group":"g" "total_tokens":100, "cost_usd":0.25, "calls":1, "more":false ` +
				`"state":"following" "lost":3 "since":"2026-11-20T08:00:00Z"`},
		{"narrowed",
			"/v1/quota/history?group=g&agent=a&provider=openai&model=x/y&from=2026-11-01&to=2026-11-30&by=month&limit=5",
			fakeHistory{}, 200,
			usage.Query{By: "month", Group: "g", Agent: "a", Provider: "openai", Model: "x/y", From: "2026-11-01",
				To: "2026-11-30", Limit: 5}, `"rows":[]`},
		{"of a key", "/v1/quota/history?provider=openai@b", fakeHistory{}, 200,
			usage.Query{By: "day", Provider: "openai@b", Limit: 1000}, `"rows":[]`},
		{"of no key", "/v1/quota/cost?provider=openai@", fakeHistory{}, 400, usage.Query{}, `providerisnotaname`},
		{"cost of all keys", "/v1/quota/cost?provider=openai", fakeHistory{rows: keyed}, 200,
			usage.Query{By: "total", Provider: "openai"},
			`"models":[{"provider":"openai","model":"gpt-4o","share":1,"requests" "cost_usd":1,`},
		{"cost of one", "/v1/quota/cost?provider=openai@b", fakeHistory{rows: keyed[1:]}, 200,
			usage.Query{By: "total", Provider: "openai@b"}, `"provider":"openai@b" "cost_usd":0.75,`},
		{"not all", "/v1/quota/history?limit=1", fakeHistory{rows: rows}, 200, usage.Query{By: "day", Limit: 1},
			`"more":true 2026-11-22`},
		{"by week", "/v1/quota/history?by=week", fakeHistory{}, 400, usage.Query{}, `bymustbeday,monthortotal`},
		{"no day", "/v1/quota/history?from=2026-02-30", fakeHistory{}, 400, usage.Query{}, `frommustbeadaysuchas2026-11-22`},
		{"backwards", "/v1/quota/cost?from=2026-11-02&to=2026-11-01", fakeHistory{}, 400, usage.Query{}, `toisbeforefrom`},
		{"too many", "/v1/quota/history?limit=100001", fakeHistory{}, 400, usage.Query{},
			`limitmustbeawholenumberfrom1to100000`},
		{"no group", "/v1/quota/history?group=%27--", fakeHistory{}, 400, usage.Query{}, `groupisnotaname`},
		{"away", "/v1/quota/history", fakeHistory{err: errors.New("the database is away")}, 503,
			usage.Query{By: "day", Limit: 1000}, `thedatabaseisaway`},
		// 0.25 + 0.75 dollars; three quarters of them b's.
		{"cost", "/v1/quota/cost?group=g", fakeHistory{rows: rows}, 200, usage.Query{By: "total", Group: "g"},
			`"cost_usd":1, "agents":[{"group":"g","agent":"b","share":0.75, "models":[{"provider":"openai","model":"gpt-4o",` +
				`"share":1,`},
		{"the dearest", "/v1/quota/cost?limit=1", fakeHistory{rows: rows}, 200, usage.Query{By: "total"}, `"more":true`},
		{"without quotas", "/v1/quota/history", fakeHistory{err: fmt.Errorf("%w: waiting", ErrNoQuotas)}, 404,
			usage.Query{By: "day", Limit: 1000}, `noquotas.yaml`},
		{"cost without quotas", "/v1/quota/cost", fakeHistory{err: ErrNoQuotas}, 404, usage.Query{By: "total"},
			`noquotas.yaml`},
		{"cost away", "/v1/quota/cost", fakeHistory{err: errors.New("the database is away")}, 503, usage.Query{By: "total"},
			``},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(New(&fakeSource{}, metrics, Options{History: &c.history}), http.MethodGet, c.target, "localhost")
			text := pressed(body(t, r))
			if r.StatusCode != c.status || c.history.asked != c.asks {
				t.Errorf("status %d, asked %+v; want %d, %+v: %.400s", r.StatusCode, c.history.asked, c.status, c.asks, text)
			}
			for _, want := range strings.Fields(c.has) {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s: %s", want, text)
				}
			}
		})
	}
	// A coordinator that keeps none says so.
	r := ask(New(&fakeSource{}, metrics, Options{}), http.MethodGet, "/v1/quota/history", "localhost")
	if text := pressed(body(t, r)); r.StatusCode != 200 || !strings.Contains(text, `"state":"off"`) ||
		!strings.Contains(text, "TASKBUS_HISTORY") {
		t.Errorf("without a history: %d %s", r.StatusCode, text)
	}
}

func TestRebuild(t *testing.T) {
	token := strings.Repeat("x", 32)
	for _, c := range []struct {
		name    string
		history fakeHistory
		token   string
		status  int
		has     string
	}{
		{"done", fakeHistory{rebuilt: view.Rebuilt{Rows: 5, FromDay: "2026-11-01", Kept: true}}, token, 200,
			`"state":"done" "from_day":"2026-11-01" "kept":true "rows":5`},
		{"goes on", fakeHistory{rebuiltE: ErrRebuilding}, token, 202, `"state":"rebuilding"`},
		{"failed", fakeHistory{rebuiltE: errors.New("the journal holds nothing")}, token, 503,
			`Thehistoryisasitwas:thejournalholdsnothing`},
		{"without the token", fakeHistory{}, "", 401, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := httptest.NewRequest(http.MethodPost, "http://localhost/v1/quota/history/rebuild", nil)
			if c.token != "" {
				q.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			New(&fakeSource{}, metrics, Options{History: &c.history, AdminToken: []byte(token)}).ServeHTTP(w, q)
			text := pressed(w.Body.String())
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, text)
			}
			for _, want := range strings.Fields(c.has) {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s: %s", want, text)
				}
			}
		})
	}
}

// A client with the admin token may acknowledge the loss of the journal, once.
func TestAcknowledgeLoss(t *testing.T) {
	src, secret := &fakeSource{lossReported: true}, strings.Repeat("x", 32)
	h := New(src, metrics, Options{AdminToken: []byte(secret)})
	for _, c := range []struct {
		token  string
		status int
		has    string
	}{
		{"", http.StatusUnauthorized, ""},
		{secret, http.StatusOK, `"acknowledged":true`},
		{secret, http.StatusNotFound, `nolossofthejournal`},
	} {
		q := httptest.NewRequest(http.MethodPost, "http://localhost/journal/acknowledge", nil)
		if c.token != "" {
			q.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if text := pressed(w.Body.String()); w.Code != c.status || !strings.Contains(text, c.has) {
			t.Errorf("status %d, want %d and %s: %s", w.Code, c.status, c.has, text)
		}
	}
}

// Groups in groups, an agent, a provider and a model: every node is forecast by what counts for it.
func TestForecastEndpoint(t *testing.T) {
	begin, end := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	budget := func(dimension string, used, cap float64) []view.QuotaBudget {
		return []view.QuotaBudget{{Dimension: dimension, Used: used, Cap: cap, PeriodFrom: begin, ResetTime: end}}
	}
	quotas := view.Quotas{Configured: true, Nodes: []view.QuotaNode{
		{ID: "pool", Kind: "pool", Name: "pool", Budgets: budget("total_tokens", 1000, 5000)},
		{ID: "pool/top", Kind: "group", Name: "top", Parent: "pool", Budgets: budget("total_tokens", 500, 1000)},
		{ID: "pool/top/sub", Kind: "group", Name: "sub", Parent: "pool/top"},
		{ID: "pool/top/sub/a", Kind: "agent", Name: "a", Parent: "pool/top/sub", Budgets: budget("requests", 7, 0)},
		{ID: "openai", Kind: "pool", Name: "openai", Budgets: budget("cost_usd", 1, 100)},
		{ID: "openai/gpt/4o", Kind: "model", Name: "gpt/4o", Parent: "openai", Budgets: budget("input_tokens", 10, 100)},
		{ID: "openai/gpt/4o/top", Kind: "group", Name: "top", Parent: "openai/gpt/4o",
			Budgets: budget("output_tokens", 0, 10)},
	}}
	day := func(d string, group, agent, provider, model string, tokens int64) usage.Row {
		return usage.Row{Key: usage.Key{Day: d, Group: group, Agent: agent, Provider: provider, Model: model},
			Counts: usage.Counts{Requests: 2, InputTokens: tokens - 1, OutputTokens: 1, TotalTokens: tokens, Cost: 2_000_000}}
	}
	history := &fakeHistory{
		state: view.Projection{Since: time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)}, // whole days: the 20th and the 21st
		rows: []usage.Row{
			day("2026-11-19", "sub", "a", "openai", "gpt/4o", 100_000), // in part only
			day("2026-11-20", "sub", "a", "openai", "gpt/4o", 101),
			day("2026-11-20", "sub", "b", "openai", "mini", 50),
			day("2026-11-21", "top", "c", "anthropic", "claude", 49),
			day("2026-11-21", "else", "d", "", "", 800),
			day("2026-11-22", "sub", "a", "openai", "gpt/4o", 100_000), // today: it is in Used
		},
	}
	h := &api{src: &fakeSource{quotas: quotas}, history: history,
		now: func() time.Time { return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC) }}
	w := httptest.NewRecorder()
	h.forecast(w, httptest.NewRequest(http.MethodGet, "/v1/quota/forecast", nil))
	var f view.Forecasts
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || w.Code != 200 {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	// 9 days are left; a day is the mean of two.
	want := map[string]float64{
		"pool":              1000 + 9*(101+50+49+800)/2., // all
		"pool/top":          500 + 9*(101+50+49)/2.,      // its own and its subgroup's
		"pool/top/sub/a":    7 + 9*2/2.,                  // two requests on one of two days
		"openai":            1 + 9*(2+2)/2.,              // two dollars each
		"openai/gpt/4o":     10 + 9*100/2.,
		"openai/gpt/4o/top": 0 + 9*1/2.,
	}
	got := map[string]float64{}
	for _, b := range f.Budgets {
		got[b.Node] = b.Expected
		if b.Basis != "mean of 2 days" || b.Overruns != (b.Expected > b.Cap) || (b.Percent == nil) != (b.Cap == 0) {
			t.Errorf("%+v", b)
		}
		if b.Node == "pool" && !b.OverrunAt.Equal(end.AddDate(0, 0, -1)) { // 8 days of 500 are left to 5,000
			t.Errorf("the pool overruns at %s", b.OverrunAt)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	// Over: the pool (5,500 of 5,000), top (1,400 of 1,000), a (of nothing), the model (460 of 100).
	if f.TotalBudgets != 6 || f.Overruns != 4 || !f.Configured {
		t.Errorf("%d budgets, %d overrun", f.TotalBudgets, f.Overruns)
	}
	for target, status := range map[string]int{"?node=pool/top": 200, "?node=pool/zeta": 404, "?node=..": 400,
		"?limit=0": 400, "?limit=1": 200} {
		w := httptest.NewRecorder()
		h.forecast(w, httptest.NewRequest(http.MethodGet, "/v1/quota/forecast"+target, nil))
		var one view.Forecasts
		if w.Code != status || status == 200 && (json.Unmarshal(w.Body.Bytes(), &one) != nil || len(one.Budgets) != 1) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	none := ask(New(&fakeSource{quotasErr: ErrNoQuotas}, metrics, Options{}), http.MethodGet, "/v1/quota/forecast",
		"localhost")
	if text := pressed(body(t, none)); none.StatusCode != 200 || !strings.Contains(text, `"configured":false`) {
		t.Errorf("without quotas: %d %s", none.StatusCode, text)
	}
}

func TestReconcileEndpoint(t *testing.T) {
	keyed := []usage.Row{used("2026-11-21", "g", "a", "gpt-4o", 100, 250_000),
		used("2026-11-22", "g", "b", "gpt-4o", 300, 750_000)}
	keyed[0].Provider, keyed[1].Provider = "openai@a", "openai@b"
	const bill = "date,model,input_tokens,cost_usd\n2026-11-21,gpt-4o,100,0.25\n2026-11-22,gpt-4o-0806,303,0.70\n"
	rows := []usage.Row{used("2026-11-21", "g", "a", "gpt-4o", 100, 250_000),
		used("2026-11-22", "g", "b", "gpt-4o", 300, 750_000)}
	for _, c := range []struct {
		name, query, kind, bill string
		history                 fakeHistory
		status                  int
		has                     string
	}{
		// 300 against 303 are within a percent; 0.75 and 0.70 dollars are not, nor within a cent.
		{"differs", "models=gpt-4o-0806=gpt-4o&provider=openai", "text/csv; charset=utf-8", bill, fakeHistory{rows: rows},
			200,
			`"agrees":false "compared":2 "differ":1 {"day":"2026-11-22","provider":"openai","model":"gpt-4o",` +
				`"measure":"cost_usd","history":0.75,"bill":0.7,"difference":0.05,"relative":0.07142857142857142} ` +
				`"columns":["date","provider","model","input_tokens","cost_usd"]`},
		{"agrees", "models=gpt-4o-0806=gpt-4o&tolerance_usd=0.05", "text/csv", bill, fakeHistory{rows: rows}, 200,
			`"agrees":true "differences":[] "lines":2`},
		{"in all", "by=total&tolerance_percent=10&models=gpt-4o-0806=gpt-4o", "text/csv", bill, fakeHistory{rows: rows}, 200,
			`"agrees":true "compared":1`},
		{"of two keys", "by=total&tolerance_percent=10&models=gpt-4o-0806=gpt-4o&provider=openai", "text/csv", bill,
			fakeHistory{rows: keyed}, 200, `"agrees":true "compared":1 "history":1,`},
		{"of one of them", "by=total&models=gpt-4o-0806=gpt-4o&provider=openai@b", "text/csv", bill, fakeHistory{rows: keyed},
			200, `"agrees":false "provider":"openai@b" "history":0.75,"bill":0.95`},
		{"only there", "", "text/csv", bill, fakeHistory{rows: rows[:1]}, 200, `"only":"bill" "relative":-1`},
		{"only here", "to=2026-11-21", "text/csv", "date,model,input_tokens\n2026-11-21,other,0\n", fakeHistory{rows: rows},
			200, `"only":"history" "relative":null`},
		{"another name", "columns=input_tokens=in,cost_usd=price", "text/csv", "date,in,price,x\n2026-11-21,100,0.25,?\n",
			fakeHistory{rows: rows}, 200, `"agrees":true "ignored_columns":["x"]`},
		{"garbage", "", "text/csv", "date,cost_usd\n2026-11-21,free\nyesterday,1\n", fakeHistory{}, 400,
			`line2:cost_usdis line3: isnotadate docs/howto/usage-history.md`},
		{"not CSV", "", "application/json", "{}", fakeHistory{}, 415, `text/csv`},
		{"no kind", "", "", bill, fakeHistory{}, 415, ``},
		{"too large", "", "text/csv", strings.Repeat("x", MaxBill+1), fakeHistory{}, 413, `10485760bytes`},
		{"a column that there is not", "columns=tokens=x", "text/csv", bill, fakeHistory{}, 400, `acolumnthatthereisnot`},
		// A name of the bill may have a comma, and "=": the last one divides.
		{"any name", "groups=" + url.QueryEscape(`"Acme, Inc=g",x=1=h`) + "&models=" + url.QueryEscape(`"gpt ""4o""=gpt-4o"`),
			"text/csv",
			"date,project,model,input_tokens\n2026-11-21,\"Acme, Inc\",\"gpt \"\"4o\"\"\",100\n2026-11-21,x=1,,0\n",
			fakeHistory{rows: rows[:1]}, 200, `"agrees":true "compared":2`},
		{"other days than the bill's", "from=2027-01-01", "text/csv", bill, fakeHistory{}, 400,
			`From2027-01-01to2026-11-22neitherthebill,whichisof2026-11-21to2026-11-22,northehistory`},
		{"no pair", "models=x", "text/csv", bill, fakeHistory{}, 400, `modelsmustbepairs`},
		{"a model twice", "models=a=b,a=c", "text/csv", bill, fakeHistory{}, 400, ``},
		{"percent of what", "tolerance_percent=NaN", "text/csv", bill, fakeHistory{}, 400, ``},
		{"less than nothing", "tolerance_tokens=-1", "text/csv", bill, fakeHistory{}, 400, ``},
		{"dollars", "tolerance_usd=1e9", "text/csv", bill, fakeHistory{}, 400, ``},
		{"away", "", "text/csv", bill, fakeHistory{err: errors.New("the database is away")}, 503, `thedatabaseisaway`},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := httptest.NewRequest(http.MethodPost, "http://localhost/v1/quota/reconcile?"+c.query, strings.NewReader(c.bill))
			if c.kind != "" {
				q.Header.Set("Content-Type", c.kind)
			}
			w := httptest.NewRecorder()
			New(&fakeSource{}, metrics, Options{History: &c.history}).ServeHTTP(w, q)
			text := pressed(w.Body.String())
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %.300s", w.Code, c.status, text)
			}
			for _, want := range strings.Fields(c.has) {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s: %s", want, text)
				}
			}
		})
	}
}

// A client that sends bills drop by drop keeps others from sending theirs for a moment, and from nothing
// else.
func TestBillsAreBounded(t *testing.T) {
	h := New(&fakeSource{}, metrics, Options{History: &fakeHistory{}})
	held := make(chan struct{})
	began := make(chan struct{}, mostBills)
	for range mostBills {
		go func() {
			q := httptest.NewRequest(http.MethodPost, "http://localhost/v1/quota/reconcile", waiting{began, held})
			q.Header.Set("Content-Type", "text/csv")
			h.ServeHTTP(httptest.NewRecorder(), q)
		}()
	}
	for range mostBills {
		<-began
	}
	q := httptest.NewRequest(http.MethodPost, "http://localhost/v1/quota/reconcile", strings.NewReader("date,cost_usd\n"))
	q.Header.Set("Content-Type", "text/csv")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more gets %d %s", w.Code, w.Body)
	}
	if r := ask(h, http.MethodGet, "/v1/quota/history", "localhost"); r.StatusCode != 200 {
		t.Errorf("a question gets %d", r.StatusCode)
	}
	close(held)
}

// waiting is a body that says that it is read, and then waits.
type waiting struct{ began, held chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	w.began <- struct{}{}
	<-w.held
	return 0, errors.New("gone")
}
