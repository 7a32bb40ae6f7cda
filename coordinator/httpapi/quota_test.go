package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

var renews = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// someQuotas are a group of 500,000 tokens a month of which agent_1 has 300,000, and its part
// at a provider.
var someQuotas = view.Quotas{
	Configured: true, TotalNodes: 4,
	Nodes: []view.QuotaNode{
		{ID: "pool/alpha", Kind: "group", Name: "alpha", Parent: "pool", Weight: 2, Budgets: []view.QuotaBudget{
			{Dimension: "requests", Limit: 10, Cap: 10},
			{Dimension: "total_tokens", Limit: 500_000, Cap: 500_000, Used: 100_000, Reserved: 20_000, Remaining: 380_000,
				ResetTime: renews},
		}},
		{ID: "pool/alpha/agent_1", Kind: "agent", Name: "agent_1", Parent: "pool/alpha", Weight: 3,
			Budgets: []view.QuotaBudget{{Dimension: "total_tokens", Limit: 300_000, Cap: 300_000, Used: 50_000,
				Remaining: 250_000}},
			Rates: []view.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 2, Burst: 10, Remaining: 7}}},
		{ID: "openai/alpha", Kind: "group", Name: "alpha", Parent: "openai"},
		{ID: "openai/alpha/agent_1", Kind: "agent", Name: "agent_1", Parent: "openai/alpha"},
	},
	Groups: []view.QuotaTurns{{Group: "alpha", Waiting: 3, WaitingForQuota: 2, Share: 0.5, TargetShare: 0.4},
		{Group: "other"}},
}

func TestQuotaEndpoints(t *testing.T) {
	for _, c := range []struct {
		name   string
		source fakeSource
		target string
		status int
		asks   view.QuotaSelection
		has    string // all of the body, without white space, must contain each of these
	}{
		{"everything", fakeSource{quotas: someQuotas}, "/v1/quota", 200, view.QuotaSelection{Limit: 1000},
			`"configured":true "total_nodes":4 "waiting_for_quota":2`},
		{"the first", fakeSource{quotas: someQuotas}, "/v1/quota?limit=7", 200, view.QuotaSelection{Limit: 7}, ``},
		{"none at all", fakeSource{quotas: someQuotas}, "/v1/quota?limit=0", 400, view.QuotaSelection{},
			`limitmustbeawholenumberfrom1to100000`},
		{"not a number", fakeSource{quotas: someQuotas}, "/v1/quota?limit=1e3", 400, view.QuotaSelection{}, ``},
		{"no quotas", fakeSource{quotasErr: ErrNoQuotas}, "/v1/quota", 200, view.QuotaSelection{Limit: 1000},
			`"configured":false "nodes":[] "groups":[]`},
		{"not to be had", fakeSource{quotasErr: fmt.Errorf("the engine does not answer")}, "/v1/quota", 503,
			view.QuotaSelection{Limit: 1000}, `theenginedoesnotanswer`},

		// FAIR-SHARE's fields: 500,000 less 100,000 and 20,000 are 380,000.
		{"a group", fakeSource{quotas: someQuotas}, "/v1/quota/groups/alpha", 200,
			view.QuotaSelection{Group: "alpha", Limit: MaxQuotaLimit},
			`"group_id":"alpha" "total_quota":500000, "used_quota":100000, "reserved_quota":20000, "remaining_quota":380000, ` +
				`"reset_time":"2026-12-01T00:00:00Z" "waiting":3 "openai/alpha/agent_1"`},
		// 5 in 2 seconds are 2.5 a second.
		{"an agent", fakeSource{quotas: someQuotas}, "/v1/quota/agents/agent_1", 200,
			view.QuotaSelection{Agent: "agent_1", Limit: MaxQuotaLimit},
			`"agent_id":"agent_1" "weight":3 "allocated_quota":300000, "used_quota":50000, "remaining_quota":250000, ` +
				`"group_info":{"id":"alpha","total":500000,"used":100000,"remaining":380000} "token_bucket":{"capacity":10,` +
				`"fill_rate":2.5,"current_tokens":7}`},
		{"a provider", fakeSource{quotas: view.Quotas{Nodes: someQuotas.Nodes[2:]}}, "/v1/quota/providers/openai", 200,
			view.QuotaSelection{Provider: "openai", Limit: MaxQuotaLimit}, `"provider":"openai" "openai/alpha/agent_1"`},
		{"a provider's key", fakeSource{quotas: view.Quotas{Nodes: []view.QuotaNode{{ID: "openai@b", Kind: "pool",
			Name: "openai@b"}}}},
			"/v1/quota/providers/openai@b", 200, view.QuotaSelection{Provider: "openai@b", Limit: MaxQuotaLimit},
			`"provider":"openai@b" "node":"openai@b"`},
		{"a key of no provider", fakeSource{}, "/v1/quota/providers/@b", 400, view.QuotaSelection{}, ``},
		{"a key without a name", fakeSource{}, "/v1/quota/providers/openai@", 400, view.QuotaSelection{}, ``},
		{"a key of a key", fakeSource{}, "/v1/quota/providers/openai@b@c", 400, view.QuotaSelection{}, ``},
		{"a key that there is not", fakeSource{}, "/v1/quota/providers/openai@z", 404,
			view.QuotaSelection{Provider: "openai@z", Limit: MaxQuotaLimit}, `aprovideropenai@z`},
		{"a node", fakeSource{quotas: view.Quotas{Nodes: someQuotas.Nodes[:1]}}, "/v1/quota/nodes/pool/alpha", 200,
			view.QuotaSelection{Node: "pool/alpha", Limit: MaxQuotaLimit}, `"node":"pool/alpha" "kind":"group"`},
		{"a group without a budget", fakeSource{quotas: view.Quotas{Nodes: []view.QuotaNode{{ID: "pool/x", Kind: "group",
			Name: "x"}}}},
			"/v1/quota/groups/x", 200, view.QuotaSelection{Group: "x", Limit: MaxQuotaLimit},
			`"total_quota":null "remaining_quota":null "reset_time":null`},
		{"an agent that is a group", fakeSource{quotas: someQuotas}, "/v1/quota/agents/alpha", 404,
			view.QuotaSelection{Agent: "alpha", Limit: MaxQuotaLimit}, `Thereisnoquotaofanagentalphainquotas.yaml GET/v1/quota`},
		{"a node that there is not", fakeSource{}, "/v1/quota/nodes/pool/zeta", 404,
			view.QuotaSelection{Node: "pool/zeta", Limit: MaxQuotaLimit}, `anodepool/zeta`},
		{"of no quotas", fakeSource{quotasErr: ErrNoQuotas}, "/v1/quota/groups/alpha", 404,
			view.QuotaSelection{Group: "alpha", Limit: MaxQuotaLimit}, `hasnoquotas.yaml docs/quotas.md`},
		{"of what is no id", fakeSource{}, "/v1/quota/groups/..a", 400, view.QuotaSelection{}, ``},
		{"a node too long", fakeSource{}, "/v1/quota/nodes/" + strings.Repeat("a", maxNodeID+1), 400, view.QuotaSelection{},
			``},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(New(&c.source, metrics, Options{}), http.MethodGet, c.target, "localhost")
			text := strings.Join(strings.Fields(body(t, r)), "")
			if r.StatusCode != c.status || c.source.selected != c.asks {
				t.Errorf("status %d, asked for %+v; want %d, %+v: %.300s", r.StatusCode, c.source.selected, c.status, c.asks, text)
			}
			for _, want := range strings.Fields(c.has) {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s: %s", want, text)
				}
			}
		})
	}
}

func TestExplainQuota(t *testing.T) {
	answer := view.QuotaAnswer{Reason: "the budget of pool/alpha in total_tokens is used up", Node: "pool/alpha",
		Dimension: "total_tokens", Limit: "budget", RetryAt: renews}
	for query, want := range map[string]struct {
		status int
		asked  view.QuotaQuestion
		says   string
	}{
		"": {200, view.QuotaQuestion{}, `"admitted": false`},
		"group=alpha&agent=a.1&provider=openai&model=o/m&task_type=t&requests=2&input_tokens=4000&output_tokens=5.5&" +
			"cost_usd=0.01&allow_borrowing=false": {200,
			view.QuotaQuestion{Group: "alpha", Agent: "a.1", Provider: "openai", Model: "o/m", TaskType: "t", Requests: 2,
				InputTokens: 4000, OutputTokens: 5.5, CostUSD: 0.01, NoBorrowing: true},
			`"retry_at": "2026-12-01T00:00:00Z"`},
		"provider=openai@b":    {200, view.QuotaQuestion{Provider: "openai@b"}, `"limits": []`},
		"provider=openai@":     {400, view.QuotaQuestion{}, "provider is not a name"},
		"allow_borrowing=true": {200, view.QuotaQuestion{}, `"limits": []`},
		"allow_borrowing=yes":  {400, view.QuotaQuestion{}, "true or false"},
		"group=a/b":            {400, view.QuotaQuestion{}, "group is not a name"},
		"input_tokens=-1":      {400, view.QuotaQuestion{}, "input_tokens must be a number from 0"},
		"input_tokens=NaN":     {400, view.QuotaQuestion{}, "input_tokens must be a number from 0"},
		"input_tokens=1e16":    {400, view.QuotaQuestion{}, "input_tokens must be a number from 0"},
		"tokens=1":             {400, view.QuotaQuestion{}, "unknown parameter"},
		"alternatives=openai@b/meta/llama-3@8b,lab": {200,
			view.QuotaQuestion{Alternatives: []coordinator.Service{{Provider: "openai@b", Model: "meta/llama-3@8b"},
				{Provider: "lab"}}}, `"limits": []`},
		"alternatives=": {400, view.QuotaQuestion{},
			"alternatives must be PROVIDER or PROVIDER/MODEL"},
		"alternatives=lab,": {400, view.QuotaQuestion{},
			"alternatives must be PROVIDER or PROVIDER/MODEL"},
		"alternatives=lab/": {400, view.QuotaQuestion{},
			"alternatives must be PROVIDER or PROVIDER/MODEL"},
		"alternatives=lab&model=m": {400, view.QuotaQuestion{},
			"alternatives stand for provider and model"},
		"alternatives=" + strings.Repeat("a,", 16) + "a": {400, view.QuotaQuestion{}, "at most 16"},
	} {
		src := &fakeSource{quotaAnswer: answer}
		r := ask(New(src, metrics, Options{}), http.MethodGet, "/v1/quota/explain?"+query, "localhost")
		text := body(t, r)
		if r.StatusCode != want.status || !reflect.DeepEqual(src.quotaAsked, want.asked) ||
			!strings.Contains(text, want.says) || !json.Valid([]byte(text)) {
			t.Errorf("?%s: %d, asked %+v; want %d, %+v, %q in %s", query, r.StatusCode, src.quotaAsked, want.status, want.asked,
				want.says, text)
		}
	}
	r := ask(New(&fakeSource{quotasErr: ErrNoQuotas}, metrics, Options{}), http.MethodGet, "/v1/quota/explain",
		"localhost")
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("without quotas: %d", r.StatusCode)
	}
}
