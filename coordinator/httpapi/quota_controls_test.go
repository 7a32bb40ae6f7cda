package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/gateway"
	"taskbus/coordinator/view"
)

// What is asked for arrives as it was meant, and is answered with what stands.
func TestQuotaChanges(t *testing.T) {
	until := time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC)
	stands := view.QuotaChanged{Controls: []view.QuotaControl{{ID: "set-1", Kind: "set", Target: "pool/alpha",
		Key:   "weight",
		Value: "5"}}, Nodes: someQuotas.Nodes[:1]}
	for _, tc := range []struct {
		name string
		req  request
		done string // what the service is asked to do
		want any    // and in which words
	}{
		{"set", request{"POST", "/v1/quota/controls",
			`{"node":"pool/alpha","set":{"weight":5,"total_tokens.amount":"2000000","cost_usd.rate":0.10},"by":"ann",` +
				`"reason":"core"}`, nil}, "control pool/alpha",
			view.QuotaChange{Node: "pool/alpha", Values: []view.QuotaValue{{Key: "cost_usd.rate", Value: "0.10"},
				{Key: "total_tokens.amount", Value: "2000000"},
				{Key: "weight", Value: "5"}}, By: "ann", Reason: "core"}},
		{"boost for a time", request{"POST", "/v1/quota/controls",
			`{"node":"openai/gpt-4o/alpha","boost":{"requests":"+50%"},"for_seconds":7200}`, nil}, "control openai/gpt-4o/alpha",
			view.QuotaChange{Node: "openai/gpt-4o/alpha", Values: []view.QuotaValue{{Key: "requests", Value: "+50%"}},
				Boost: true,
				For:   2 * time.Hour}},
		{"until a time, and no set", request{"POST", "/v1/quota/controls",
			`{"node":"pool","boost":{"total_tokens":"+1"},"until":"2026-12-01T19:00:00+01:00","set":null}`, nil}, "control pool",
			view.QuotaChange{Node: "pool", Values: []view.QuotaValue{{Key: "total_tokens", Value: "+1"}}, Boost: true,
				Until: until}},
		{"correct", request{"POST", "/v1/quota/controls",
			`{"node":"pool/alpha","correct":{"total_tokens":-1900,"cost_usd":"+0.50"},"by":"ann","reason":"t-1 lied"}`, nil},
			"control pool/alpha",
			view.QuotaChange{Node: "pool/alpha", Values: []view.QuotaValue{{Key: "cost_usd", Value: "+0.50"},
				{Key: "total_tokens", Value: "-1900"}},
				Correct: true, By: "ann", Reason: "t-1 lied"}},
		{"end one", request{"DELETE", "/v1/quota/controls/set-1", ``, nil}, "uncontrol set-1", nil},
		// Equal entries are equal texts.
		{"a group", request{"PUT", "/v1/quota/groups/beta?by=ann&reason=new",
			`{ "weight": 2.0, "limits": {"cost_usd": {"per": "day", "amount": 0.15}}}`, nil}, "register beta",
			view.QuotaEntry{ID: "beta", Entry: `{"limits":{"cost_usd":{"amount":0.15,"per":"day"}},"weight":2.0}`, By: "ann",
				Reason: "new"}},
		{"an agent", request{"PUT", "/v1/quota/agents/b.1",
			`{"group_id":"beta","limits":{"requests":[{"rate":1,"per":"second"}]}}`, nil}, "register b.1",
			view.QuotaEntry{Agent: true, ID: "b.1", Entry: `{"group_id":"beta","limits":{"requests":[{"per":"second",` +
				`"rate":1}]}}`}},
		{"not a group any more", request{"DELETE", "/v1/quota/groups/beta", ``, nil}, "unregister group beta", nil},
		{"not an agent any more", request{"DELETE", "/v1/quota/agents/b.1", `{}`, nil}, "unregister agent b.1", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakeSource{changed: stands}
			tc.req.headers = [][2]string{bearer}
			r := change(src, tc.req)
			text := body(t, r)
			var got view.QuotaChanged
			if err := json.Unmarshal([]byte(text), &got); err != nil || r.StatusCode != 200 || len(got.Controls) != 1 ||
				got.Removed == nil || got.Nodes[0].ID != "pool/alpha" {
				t.Fatalf("%d, %v: %s", r.StatusCode, err, text)
			}
			if len(src.done) != 1 || src.done[0] != tc.done {
				t.Errorf("did %q, want %q", src.done, tc.done)
			}
			asked := any(src.quotaChange)
			if _, entry := tc.want.(view.QuotaEntry); entry {
				asked = src.quotaEntry
			}
			if q, is := asked.(view.QuotaChange); is {
				q.Until = q.Until.UTC()
				if q.Until.IsZero() {
					q.Until = time.Time{}
				}
				asked = q
			}
			if tc.want != nil && !reflect.DeepEqual(asked, tc.want) {
				t.Errorf("asked for %+v\nwant %+v", asked, tc.want)
			}
		})
	}
}

// A client that may not, or a request that makes no sense, changes nothing and is answered why.
func TestQuotaChangesThatAreRefused(t *testing.T) {
	post := func(body string) request { return request{"POST", "/v1/quota/controls", body, nil} }
	for _, tc := range []struct {
		name   string
		req    request
		status int
		says   string
	}{
		{"nothing said", post(``), 400, "node is missing"},
		{"a group of which nothing is said", request{"PUT", "/v1/quota/groups/beta", ``, nil}, 400, "keys of groups[]"},
		{"a group of blanks", request{"PUT", "/v1/quota/groups/beta", " \n", nil}, 400, "keys of groups[]"},
		{"a group with nothing in it", request{"PUT", "/v1/quota/groups/beta", `{ }`, nil}, 400,
			"take a share from the others"},
		{"an agent with nothing in it", request{"PUT", "/v1/quota/agents/a1", `{}`, nil}, 400,
			"take a share from the others"},
		{"no node", post(`{"set":{"weight":1}}`), 400, "node is missing"},
		{"no id of a node", post(`{"node":"../etc","set":{"weight":1}}`), 400, "node is not the id of a node"},
		{"a node too long", post(`{"node":"` + strings.Repeat("a", maxNodeID+1) + `","set":{"weight":1}}`), 400,
			"node is not the id of a node"},
		{"nothing to change", post(`{"node":"pool"}`), 400, "one of set, boost and correct"},
		{"both", post(`{"node":"pool","set":{"weight":1},"boost":{"weight":"+1"}}`), 400, "one of set, boost and correct"},
		{"a set and a correction", post(`{"node":"pool","set":{"weight":1},"correct":{"total_tokens":-1}}`), 400,
			"one of set, boost and correct"},
		{"a correction for a time", post(`{"node":"pool","correct":{"total_tokens":-1},"for_seconds":60}`), 400,
			"what is corrected stays so"},
		{"an empty set", post(`{"node":"pool","set":{}}`), 400, "set is empty: give at least one setting"},
		{"a set that is a list", post(`{"node":"pool","set":["weight"]}`), 400, "set is a list"},
		{"a value that is an object", post(`{"node":"pool","set":{"weight":{"a":1}}}`), 400, "neither text nor a number"},
		{"a value of null", post(`{"node":"pool","set":{"weight":null}}`), 400, "neither text nor a number"},
		{"a setting twice", post(`{"node":"pool","set":{"weight":1,"weight":2}}`), 400, "a key is given twice"},
		{"a value of 200 characters", post(`{"node":"pool","set":{"weight":"` + strings.Repeat("1", 200) + `"}}`), 400,
			"too long"},
		{"a value of two lines", post(`{"node":"pool","set":{"weight":"1\nadmin: true"}}`), 400, "not plain text"},
		{"33 settings", post(`{"node":"pool","set":{` + settings(33) + `}}`), 400, "too many settings"},
		{"a misspelt field", post(`{"node":"pool","sett":{"weight":1}}`), 400, `"sett" is no field of it`},
		{"a field twice", post(`{"node":"pool","node":"pool","set":{"weight":1}}`), 400, "given twice"},
		{"for and until", post(`{"node":"pool","set":{"weight":1},"for_seconds":5,"until":"2026-12-01T18:00:00Z"}`), 400,
			"both say how long"},
		{"for half a second", post(`{"node":"pool","set":{"weight":1},"for_seconds":0.5}`), 400,
			"for_seconds is not a whole number"},
		{"for ever and a day", post(`{"node":"pool","set":{"weight":1},"for_seconds":1e9}`), 400,
			"for_seconds is out of range"},
		{"until a time that counts as none", post(`{"node":"pool","boost":{"weight":"+1"},"until":"0001-01-01T00:00:00Z"}`),
			400, "until must be a time"},
		{"until some day", post(`{"node":"pool","set":{"weight":1},"until":"tomorrow"}`), 400, "until must be a time"},
		{"a novel for a reason", post(`{"node":"pool","set":{"weight":1},"reason":"` + strings.Repeat("x", MaxReason+1) +
			`"}`), 400, "reason is too long"},
		{"a body of 1 MB", post(`{"node":"pool","reason":"` + strings.Repeat("x", 1<<20) + `"}`), 413,
			"The body has more than 32768 bytes"},
		{"no JSON", post(`node=pool`), 400, "as JSON in UTF-8"},
		{"a query", request{"POST", "/v1/quota/controls?node=pool", `{}`, nil}, 400, "unknown parameter"},

		{"an entry of 1 MB", request{"PUT", "/v1/quota/groups/beta", `{"id":"` + strings.Repeat("x", 1<<20) + `"}`, nil}, 413,
			"The body has more than 32768 bytes"},
		{"an entry of 20 kB", request{"PUT", "/v1/quota/groups/beta", `{"provider":"` + strings.Repeat("x", 20_000) + `"}`,
			nil}, 400, "of at most 8192 bytes"},
		{"an entry that is a list", request{"PUT", "/v1/quota/groups/beta", `[]`, nil}, 400, "must be an object"},
		{"an entry with a key twice", request{"PUT", "/v1/quota/groups/beta",
			`{"limits":{"requests":{"amount":1,"amount":2}}}`, nil}, 400, "a key is given twice"},
		{"an entry without a bottom", request{"PUT", "/v1/quota/groups/beta", strings.Repeat(`{"a":`, 5000) + "1" +
			strings.Repeat(`}`, 5000), nil}, 400, "nests too deep"},
		{"an entry that is YAML", request{"PUT", "/v1/quota/groups/beta", `weight: 2`, nil}, 400, "as JSON in UTF-8"},
		{"no id of a group", request{"PUT", "/v1/quota/groups/a%20b", `{}`, nil}, 400, ""},
		{"a parameter that there is not", request{"PUT", "/v1/quota/groups/beta?who=ann", `{}`, nil}, 400,
			"known are by and reason"},
		{"another method", request{"POST", "/v1/quota/groups/beta", `{}`, nil}, 405, "GET, HEAD, PUT, DELETE"},
		{"another method for one change", request{"PUT", "/v1/quota/controls/set-1", `{}`, nil}, 405, "DELETE"},
		{"a body where none is read", request{"DELETE", "/v1/quota/controls/set-1", `{"force":true}`, nil}, 400,
			`"force" is no field of it`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakeSource{}
			req := tc.req
			if tc.status != 405 { // which says so before anything else
				if r := change(src, req); r.StatusCode != http.StatusUnauthorized {
					t.Errorf("without the token: %d", r.StatusCode)
				}
				if r := changeWith(src, Options{}, req); r.StatusCode != http.StatusForbidden {
					t.Errorf("of a coordinator that has none: %d", r.StatusCode)
				}
			}
			req.headers = [][2]string{bearer}
			r := change(src, req)
			text := body(t, r)
			var p gateway.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || r.StatusCode != tc.status ||
				!strings.Contains(p.Detail, tc.says) || r.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s; want %d with %q", r.StatusCode, text, tc.status, tc.says)
			}
			if len(text) > 1500 {
				t.Errorf("an answer of %d bytes repeats what was sent", len(text))
			}
			if len(src.done) > 0 {
				t.Errorf("did %q", src.done)
			}
		})
	}
}

// settings are n of them.
func settings(n int) string {
	var list []string
	for i := range n {
		list = append(list, `"k`+strings.Repeat("x", i)+`":1`)
	}
	return strings.Join(list, ",")
}

// Each reason why nothing was changed has an answer of its own.
func TestWhyQuotasWereNotChanged(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		says   string
	}{
		{&BadControl{Why: "pool has 1000 of total_tokens, less than those below it have"}, 422,
			"Nothing was changed: pool has 1000 of total_tokens, less than those below it have."},
		{ErrNoControl, 404, "nothing stands that has set up group beta"},
		{ErrOfFile, 409, "group beta is listed in quotas.yaml, and can only be removed there"},
		{ErrNoQuotas, 404, "has no quotas.yaml"},
		{errors.New("this coordinator is standby"), 503, "Nothing was changed: this coordinator is standby"},
	} {
		r := change(&fakeSource{doneErr: tc.err}, request{"DELETE", "/v1/quota/groups/beta", "", [][2]string{bearer}})
		if text := body(t, r); r.StatusCode != tc.status || !strings.Contains(text, tc.says) {
			t.Errorf("%v: %d %s; want %d with %q", tc.err, r.StatusCode, text, tc.status, tc.says)
		}
	}
}

func TestListOfQuotaControls(t *testing.T) {
	src := &fakeSource{}
	if r := ask(New(src, metrics, Options{}), http.MethodGet, "/v1/quota/controls", "localhost"); r.StatusCode != 200 ||
		!strings.Contains(body(t, r), `"controls": []`) {
		t.Errorf("without any: %d", r.StatusCode)
	}
	src.controls.Controls = []view.QuotaControl{{ID: "boost-1", Kind: "boost", Target: "pool/alpha", Key: "weight",
		Value: "-1",
		Rule:  "idle", Suspended: "it does not fit"}}
	r := ask(New(src, metrics, Options{}), http.MethodGet, "/v1/quota/controls", "localhost")
	if text := body(t, r); r.StatusCode != 200 || !strings.Contains(text, `"suspended": "it does not fit"`) ||
		!strings.Contains(text, `"rule": "idle"`) || strings.Contains(text, "until") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}
