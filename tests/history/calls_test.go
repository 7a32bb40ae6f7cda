package history

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// callQuotas has a price for each model: of input and output tokens, in micro-USD each, gpt-4o 2 and
// 10, gpt-4o-mini 1 and 4, claude 3 and 15.
const callQuotas = `
timezone: %s
pool:
  limits: {total_tokens: {amount: 1000000, per: month}}
groups:
  - {id: alpha, provider: openai, model: gpt-4o}
  - {id: beta, provider: anthropic, model: claude}
agents:
  - {id: a1, group_id: alpha}
  - {id: a2, group_id: alpha}
  - {id: b1, group_id: beta}
prices:
  - {provider: openai, model: gpt-4o, input_per_million_tokens: 2, output_per_million_tokens: 10}
  - {provider: openai, model: gpt-4o-mini, input_per_million_tokens: 1, output_per_million_tokens: 4}
  - {provider: anthropic, model: claude, input_per_million_tokens: 3, output_per_million_tokens: 15}
`

// noonZone is a time zone in which it is between 12 and 13 o'clock: no test of a minute sees the day
// change there, and its day need not be that of UTC.
func noonZone(now time.Time) string {
	return fmt.Sprintf("Etc/GMT%+d", now.UTC().Hour()-12) // the sign is that of POSIX: -5 is five hours east
}

// tell asks about a call over HTTP, as a gateway.
func (p *process) tell(op, body string, want int) {
	p.r.t.Helper()
	q, err := http.NewRequestWithContext(p.r.t.Context(), http.MethodPost, p.base+"/v1/quota/"+op, strings.NewReader(body))
	if err != nil {
		p.r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+gatewayToken)
	q.Header.Set("Content-Type", "application/json")
	a, err := httpClient.Do(q)
	if err != nil {
		p.r.t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != want {
		p.r.t.Errorf("%s %s: %d, want %d", op, body, a.StatusCode, want)
	}
}

// used is what one agent has used of one model.
func used(requests, input, output, microUSD int64) view.HistoryCounts {
	return view.HistoryCounts{Requests: requests, InputTokens: input, OutputTokens: output, TotalTokens: input + output,
		CostUSD: float64(microUSD) / 1e6}
}

// ended adds how reservations have ended.
func ended(c view.HistoryCounts, settled, released, expired, late int64) view.HistoryCounts {
	c.Calls, c.Settled, c.Released, c.Expired, c.Late = settled+released+expired, settled, released, expired, late
	return c
}

// Calls that are asked for over HTTP are in the history as they were told, once each: by day, group,
// agent and model. What was released, refused or is still open has used nothing. It is the same after
// the coordinator was killed, and when it is made anew.
func TestCallsOverHTTPAreInTheHistory(t *testing.T) {
	r := newRig(t)
	zone := noonZone(time.Now())
	r.write("quotas.yaml", fmt.Sprintf(callQuotas, zone))
	file := filepath.Join(r.dir, "history.db")
	p := r.start(file)

	// a1, gpt-4o by its group:                              requests  input  output  micro-USD
	p.tell("consume", `{"agent_id":"a1","input_tokens":100,"output_tokens":20}`, 200) // 1  100  20   200 + 200 =  400
	p.tell("reserve", `{"agent_id":"a1","reservation_id":"r1","input_tokens":1000,"output_tokens":1000}`, 200)
	// 1 300 50 600 + 500 = 1100
	p.tell("settle", `{"agent_id":"a1","reservation_id":"r1","input_tokens":300,"output_tokens":50}`, 200)
	// told again: nothing
	p.tell("settle", `{"agent_id":"a1","reservation_id":"r1","input_tokens":900,"output_tokens":900}`, 409)
	// 1 10 1 20 + 10 = 30
	p.tell("consume", `{"agent_id":"a1","reservation_id":"c2","input_tokens":10,"output_tokens":1}`, 200)
	// stands already: nothing
	p.tell("consume", `{"agent_id":"a1","reservation_id":"c2","input_tokens":10,"output_tokens":1}`, 200)
	p.tell("reserve", `{"agent_id":"a1","reservation_id":"r2","input_tokens":100,"output_tokens":10}`, 200)
	p.tell("extend", `{"agent_id":"a1","reservation_id":"r2","input_tokens":50,"output_tokens":0}`, 200)
	// 1 150 10 300 + 100 = 400
	p.tell("settle", `{"agent_id":"a1","reservation_id":"r2","input_tokens":150,"output_tokens":10}`, 200)
	a1 := ended(used(4, 560, 81, 1930), 4, 0, 0, 0)

	// a2, gpt-4o-mini by its own word:
	const mini = `"provider":"openai","model":"gpt-4o-mini",`
	// 1 40 4 40 + 16 = 56
	p.tell("consume", `{"agent_id":"a2",`+mini+`"input_tokens":40,"output_tokens":4}`, 200)
	p.tell("reserve", `{"agent_id":"a2","reservation_id":"r3",`+mini+`"input_tokens":500,"output_tokens":500}`, 200)
	p.tell("release", `{"agent_id":"a2","reservation_id":"r3"}`, 200) // nothing
	p.tell("check", `{"agent_id":"a2",`+mini+`"input_tokens":500,"output_tokens":500}`, 200)
	p.tell("consume", `{"agent_id":"a2",`+mini+`"input_tokens":2000000,"output_tokens":0}`, 422) // more than the month has
	p.tell("reserve", `{"agent_id":"a2","reservation_id":"open",`+mini+
		`"input_tokens":5,"output_tokens":5,"ttl_seconds":86400}`, 200)
	a2mini := ended(used(1, 40, 4, 56), 1, 1, 0, 0)

	// b1, claude by its group:
	p.tell("reserve", `{"agent_id":"b1","reservation_id":"r4","input_tokens":500,"output_tokens":500}`, 200)
	p.tell("release", `{"agent_id":"b1","reservation_id":"r4"}`, 200)
	// released already: nothing
	p.tell("settle", `{"agent_id":"b1","reservation_id":"r4","input_tokens":500,"output_tokens":500}`, 409)
	p.tell("reserve", `{"agent_id":"b1","reservation_id":"r5","input_tokens":10,"output_tokens":10}`, 200)
	// 3 7 3 21 + 45 = 66
	p.tell("settle", `{"agent_id":"b1","reservation_id":"r5","requests":3,"input_tokens":7,"output_tokens":3}`, 200)
	// 1 1000 0 3000
	p.tell("charge", `{"agent_id":"b1","input_tokens":1000,"output_tokens":0}`, 200)
	// 1 1 1 500000, by its word
	p.tell("consume", `{"agent_id":"b1","input_tokens":1,"output_tokens":1,"cost_usd":0.5}`, 200)
	b1 := ended(used(5, 1008, 4, 503066), 3, 1, 0, 0)

	type key struct{ group, agent, model string }
	rows := map[key]view.HistoryCounts{{"alpha", "a1", "gpt-4o"}: a1, {"alpha", "a2", "gpt-4o-mini"}: a2mini,
		{"beta", "b1", "claude"}: b1}
	says := func(what string) {
		t.Helper()
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		today := time.Now().In(loc).Format(time.DateOnly)
		r.eventually(what+": the history is what was told", func() (bool, string) {
			var l view.HistoryList
			p.read(http.MethodGet, "/v1/quota/history", "", &l)
			got := make(map[key]view.HistoryCounts)
			for _, row := range l.Rows {
				if row.Source != "call" || row.Day != today || row.Provider == "" {
					return false, fmt.Sprintf("%+v, want a call of %s", row, today)
				}
				got[key{row.Group, row.Agent, row.Model}] = row.HistoryCounts
			}
			return len(l.Rows) == len(got) && reflect.DeepEqual(got, rows), fmt.Sprintf("%+v\nwant %+v", got, rows)
		})
	}
	says("at first")

	// a2, gpt-4o by its group: its end is not reported, and then it is all the same.
	p.tell("reserve", `{"agent_id":"a2","reservation_id":"r6","input_tokens":20,"output_tokens":2,"ttl_seconds":1}`, 200)
	late := key{"alpha", "a2", "gpt-4o"}
	rows[late] = ended(used(0, 0, 0, 0), 0, 0, 1, 0)
	says("when one has expired")
	// 1 20 2 40 + 20 = 60
	p.tell("settle", `{"agent_id":"a2","reservation_id":"r6","input_tokens":20,"output_tokens":2}`, 200)
	rows[late] = ended(used(1, 20, 2, 60), 1, 0, 0, 1)
	says("when that was told late")

	p.kill()
	p = r.start(file)
	says("after a crash")
	p.costs(t)

	var made view.Rebuilt
	if status := p.read(http.MethodPost, "/v1/quota/history/rebuild", "", &made); status != http.StatusOK ||
		made.State != "done" || made.FromDay != "" || made.Rows != len(rows) {
		t.Fatalf("the rebuild answers %d, %+v", status, made)
	}
	says("made anew")
	r.eventually("the metrics say that nothing of the journal is missing", func() (bool, string) {
		state, lag := p.metric(`taskbus_history_state{state="following"}`), p.metric("taskbus_history_lag_records")
		return state == "1" && lag == "0", fmt.Sprintf("following %s, lag %s", state, lag)
	})
	p.costs(t)

	// What was open all the time ends now, and counts then.
	// 1 3 1 3 + 4 = 7
	p.tell("settle", `{"agent_id":"a2","reservation_id":"open","input_tokens":3,"output_tokens":1}`, 200)
	rows[key{"alpha", "a2", "gpt-4o-mini"}] = ended(used(2, 43, 5, 63), 2, 1, 0, 0)
	says("when the open one has ended")
}

// costs checks what the commands say of group, agent and model: the sums of the rows above, before
// what is open has ended.
func (p *process) costs(t *testing.T) {
	t.Helper()
	for _, tc := range []struct {
		args string
		want view.HistoryCounts
	}{
		// requests 4 + 1 + 1 + 5, input 560 + 40 + 20 + 1008, output 81 + 4 + 2 + 4, cost 1930 + 56 + 60 + 503066
		{"", ended(used(11, 1628, 91, 505112), 9, 2, 0, 1)},
		{"--group alpha", ended(used(6, 620, 87, 2046), 6, 1, 0, 1)},          // without b1's
		{"--agent a2", ended(used(2, 60, 6, 116), 2, 1, 0, 1)},                // of both models
		{"--model gpt-4o", ended(used(5, 580, 83, 1990), 5, 0, 0, 1)},         // a1's, and a2's late one
		{"--provider anthropic", ended(used(5, 1008, 4, 503066), 3, 1, 0, 0)}, // b1's
		{"--to 2020-01-01", view.HistoryCounts{}},
	} {
		var cost view.CostReport
		p.says(t, "cost", tc.args, &cost)
		if !near(cost.Total, tc.want) {
			t.Errorf("taskbus quota cost %s: %+v, want %+v", tc.args, cost.Total, tc.want)
		}
		var list view.HistoryList
		p.says(t, "history", tc.args+" --by total", &list)
		var sum view.HistoryCounts
		for _, row := range list.Rows {
			sum = plus(sum, row.HistoryCounts)
		}
		if !near(sum, tc.want) {
			t.Errorf("taskbus quota history %s: %+v, want %+v", tc.args, sum, tc.want)
		}
	}

	var cost view.CostReport
	p.says(t, "cost", "", &cost)
	var got []string
	for _, lines := range [][]view.CostLine{cost.Groups, cost.Agents, cost.Models} {
		for _, l := range lines {
			got = append(got, fmt.Sprintf("%s%s%s %.6f", l.Group, l.Agent, l.Model, l.CostUSD))
		}
	}
	want := []string{
		"beta 0.503066", "alpha 0.002046", // the dearest first
		"betab1 0.503066", "alphaa1 0.001930", "alphaa2 0.000116",
		"claude 0.503066", "gpt-4o 0.001990", "gpt-4o-mini 0.000056",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("taskbus quota cost: %q, want %q", got, want)
	}
}

// says reads what a command of quotas answers.
func (p *process) says(t *testing.T, command, args string, into any) {
	t.Helper()
	all := append([]string{"quota", command, "-o", "json"}, strings.Fields(args)...)
	code, out := p.taskbus(all...)
	if err := json.Unmarshal([]byte(out), into); code != 0 || err != nil {
		t.Fatalf("taskbus %v ends with %d, %v:\n%s", all, code, err, out)
	}
}

// metric is one sample of /metrics; empty: it is not there.
func (p *process) metric(sample string) string {
	p.r.t.Helper()
	resp, err := httpClient.Get(p.base + "/metrics")
	if err != nil {
		p.r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func plus(a, b view.HistoryCounts) view.HistoryCounts {
	return view.HistoryCounts{
		Requests: a.Requests + b.Requests, InputTokens: a.InputTokens + b.InputTokens,
		OutputTokens: a.OutputTokens + b.OutputTokens,
		TotalTokens:  a.TotalTokens + b.TotalTokens, CostUSD: a.CostUSD + b.CostUSD,
		Calls: a.Calls + b.Calls, Settled: a.Settled + b.Settled, Released: a.Released + b.Released,
		Expired: a.Expired + b.Expired, Late: a.Late + b.Late,
	}
}

// near compares to the token, and dollars to a thousandth of the smallest that is counted.
func near(a, b view.HistoryCounts) bool {
	differ := math.Abs(a.CostUSD - b.CostUSD)
	a.CostUSD, b.CostUSD = 0, 0
	return a == b && differ < 1e-9
}
