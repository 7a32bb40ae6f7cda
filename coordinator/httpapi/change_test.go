package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// token is the admin token of these tests: 32 characters.
const token = "canary-0123456789-abcdefghijklmn"

// request is one attempt to change something.
type request struct {
	method, target, body string
	headers              [][2]string
}

// bearer is the header that lets a request through.
var bearer = [2]string{"Authorization", "Bearer " + token}

// change sends a request into a handler whose admin token is set.
func change(src Source, req request) *http.Response {
	return changeWith(src, Options{AdminToken: []byte(token)}, req)
}

func changeWith(src Source, opts Options, req request) *http.Response {
	r := httptest.NewRequest(req.method, req.target, strings.NewReader(req.body))
	r.Host = "localhost:8551"
	for _, h := range req.headers {
		r.Header.Add(h[0], h[1])
	}
	w := httptest.NewRecorder()
	New(src, metrics, opts).ServeHTTP(w, r)
	return w.Result()
}

// What a request shows decides whether anything is changed; nothing else does.
func TestToken(t *testing.T) {
	with := func(values ...string) (headers [][2]string) {
		for _, v := range values {
			headers = append(headers, [2]string{"Authorization", v})
		}
		return headers
	}
	for _, tc := range []struct {
		name    string
		headers [][2]string
		status  int
	}{
		{"the token", with("Bearer " + token), 200},
		{"a scheme is not case-sensitive", with("bEARER " + token), 200},
		{"more than one space", with("Bearer   " + token), 200},

		{"no header", nil, 401},
		{"an empty header", with(""), 401},
		{"a scheme alone", with("Bearer"), 401},
		{"an empty token", with("Bearer "), 401},
		{"the token without a scheme", with(token), 401},
		{"another scheme", with("Basic " + token), 401},
		{"a scheme that begins with Bearer", with("Bearerx " + token), 401},
		{"another token as long", with("Bearer " + strings.Repeat("x", len(token))), 401},
		{"a prefix of the token", with("Bearer " + token[:len(token)-1]), 401},
		{"longer than the token", with("Bearer " + token + "x"), 401},
		{"the token twice in one header", with("Bearer " + token + " " + token), 401},
		{"another case", with("Bearer " + strings.ToUpper(token)), 401},
		{"a space behind it", with("Bearer " + token + " "), 401},
		{"two headers, the first right", with("Bearer "+token, "Bearer x"), 401},
		{"two headers, both right", with("Bearer "+token, "Bearer "+token), 401},
		{"another header", [][2]string{{"X-Admin-Token", token}, {"Proxy-Authorization", "Bearer " + token}}, 401},
		{"a cookie", [][2]string{{"Cookie", "token=" + token}}, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakeSource{}
			r := change(src, request{"POST", "/agents/gpu-1/cordon", "", tc.headers})
			if r.StatusCode != tc.status {
				t.Errorf("status %d, want %d", r.StatusCode, tc.status)
			}
			if changed := len(src.done) > 0; changed != (tc.status == 200) {
				t.Errorf("changed: %v", src.done)
			}
			if tc.status != 401 {
				return
			}
			if got := r.Header.Get("WWW-Authenticate"); got != `Bearer realm="taskbus"` {
				t.Errorf("WWW-Authenticate %q", got)
			}
			text := body(t, r)
			if r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, "TASKBUS_ADMIN_TOKEN") {
				t.Errorf("the answer does not say what is wanted: %s", text)
			}
			if strings.Contains(text+fmt.Sprint(r.Header), token[:8]) {
				t.Error("the answer repeats the token")
			}
		})
	}
}

// The token in the query is not the token: it would stand in every log on the way.
func TestTokenIsNeverReadFromTheQuery(t *testing.T) {
	for _, name := range []string{"token", "access_token", "authorization", "reason"} {
		src := &fakeSource{}
		r := change(src, request{"DELETE", "/tasks/task-1?" + name + "=" + token, "", nil})
		if r.StatusCode != 401 || len(src.done) > 0 || strings.Contains(body(t, r), token[:8]) {
			t.Errorf("?%s=: status %d, changed %v", name, r.StatusCode, src.done)
		}
	}
}

// Without an admin token nothing can be changed, whatever the request shows.
func TestChangesAreOffWithoutToken(t *testing.T) {
	for _, opts := range []Options{{}, {AdminToken: []byte{}}} {
		for _, header := range []string{"Bearer " + token, "Bearer ", "Bearer", ""} {
			src := &fakeSource{}
			r := changeWith(src, opts, request{"DELETE", "/tasks/task-1", "", [][2]string{{"Authorization", header}}})
			if r.StatusCode != 403 || len(src.done) > 0 {
				t.Errorf("Authorization %q: status %d, changed %v; want 403 and nothing", header, r.StatusCode, src.done)
			}
			if text := body(t, r); !strings.Contains(text, "TASKBUS_ADMIN_TOKEN_FILE") ||
				!strings.Contains(text, "32 characters") {
				t.Errorf("the answer does not say how to switch changes on: %s", text)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	say := func(state string) fakeSource {
		return fakeSource{cancel: view.Cancellation{TaskID: "task-1", State: state, Detail: "a sentence"}}
	}
	longest := strings.Repeat("ä", MaxReason)
	for _, tc := range []struct {
		name   string
		source fakeSource
		target string
		body   string
		status int
		done   string // what the source was asked; empty when nothing
		has    string // in the answer
	}{
		{"without a reason", say(view.Cancelled), "/tasks/task-1", "", 200, "cancel task-1", `"state": "cancelled"`},
		{"too late", say(view.CancelTooLate), "/tasks/task-1", "", 200, "cancel task-1", `"too_late"`},
		{"not known", say(view.CancelNoted), "/tasks/task-1", "", 200, "cancel task-1", `"noted"`},
		{"it may still be done: accepted, not done", say(view.CancelRequested), "/tasks/task-1", "", 202, "cancel task-1",
			`"cancel_requested"`},

		{"a reason in the body", say(view.Cancelled), "/tasks/task-1", `{"reason": "by mistake"}`, 200,
			"cancel task-1 by mistake",
			""},
		{"a reason in the query", say(view.Cancelled), "/tasks/task-1?reason=by%20mistake", "", 200,
			"cancel task-1 by mistake",
			""},
		{"an empty object", say(view.Cancelled), "/tasks/task-1", `{}`, 200, "cancel task-1", ""},
		{"a reason for terminals to trip over", say(view.Cancelled), "/tasks/task-1", `{"reason": "a\u001b[2J\nb"}`, 200,
			"cancel task-1 a [2J b", ""},
		{"the longest reason", say(view.Cancelled), "/tasks/task-1", `{"reason": "` + longest + `"}`, 200,
			"cancel task-1 " + longest, ""},
		{"the longest reason, escaped", say(view.Cancelled), "/tasks/task-1",
			`{"reason": "` + strings.Repeat(`\ud83d\ude00`, MaxReason) + `"}`, 200,
			"cancel task-1 " + strings.Repeat("😀", MaxReason), ""}, // 12 × 2048 bytes of escapes
		{"an id with every character", say(view.Cancelled), "/tasks/a.b_c:d-1", "", 200, "cancel a.b_c:d-1", ""},

		{"a reason too long", say(view.Cancelled), "/tasks/task-1", `{"reason": "` + longest + `x"}`, 400, "", "2048"},
		{"a reason too long, in the query", say(view.Cancelled), "/tasks/task-1?reason=" + strings.Repeat("x", MaxReason+1),
			"",
			400, "", "2048"},
		{"two reasons", say(view.Cancelled), "/tasks/task-1?reason=a", `{"reason": "b"}`, 400, "", "once"},
		{"a reason twice", say(view.Cancelled), "/tasks/task-1?reason=a&reason=b", "", 400, "", "2 times"},
		{"a misspelt parameter", say(view.Cancelled), "/tasks/task-1?raison=a", "", 400, "", "known are reason"},
		{"a reason that is no text", say(view.Cancelled), "/tasks/task-1?reason=%ff", "", 400, "", "UTF-8"},
		{"a misspelt key", say(view.Cancelled), "/tasks/task-1", `{"raison": "a"}`, 400, "", "reason"},
		{"a key in other letters", say(view.Cancelled), "/tasks/task-1", `{"Reason": "a"}`, 400, "", "letter case only"},
		{"a reason twice", say(view.Cancelled), "/tasks/task-1", `{"reason": "a", "reason": "b"}`, 400, "",
			"reason is given twice"},
		{"a reason that is null", say(view.Cancelled), "/tasks/task-1", `{"reason": null}`, 200, "cancel task-1", ""},
		{"a reason that is a number", say(view.Cancelled), "/tasks/task-1", `{"reason": 1}`, 400, "", "reason"},
		{"a list", say(view.Cancelled), "/tasks/task-1", `["reason"]`, 400, "", "reason"},
		{"half a body", say(view.Cancelled), "/tasks/task-1", `{"reason": "a`, 400, "", "reason"},
		{"two bodies", say(view.Cancelled), "/tasks/task-1", `{}{}`, 400, "", "reason"},
		{"a body that is not UTF-8", say(view.Cancelled), "/tasks/task-1", "{\"reason\": \"\xff\"}", 400, "", "UTF-8"},
		{"a body beyond every limit", say(view.Cancelled), "/tasks/task-1", strings.Repeat(" ", maxChangeBody+1), 413, "",
			"32768 bytes"},
		{"what is no id", say(view.Cancelled), "/tasks/-x", "", 400, "", "1 to 128"},
		{"a path in disguise", say(view.Cancelled), "/tasks/a%2fb", "", 400, "", "1 to 128"},
		{"a slash alone", say(view.Cancelled), "/tasks/%2F", "", 400, "", "Not an id"},
		{"a slash alone, in lower case", say(view.Cancelled), "/tasks/%2f", "", 400, "", "Not an id"},
		{"a slash for an id, with more behind", say(view.Cancelled), "/tasks/%2F/explain", "", 400, "", "Not an id"},
		{"a way up in disguise", say(view.Cancelled), "/tasks/..%2fx", "", 400, "", "Not an id"},
		{"a way up with its dots in disguise", say(view.Cancelled), "/tasks/%2e%2e", "", 400, "", "Not an id"},

		{"the service cannot", fakeSource{doneErr: errors.New("this instance is a standby")}, "/tasks/task-1", "", 503,
			"cancel task-1", "standby"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := change(&tc.source, request{"DELETE", tc.target, tc.body, [][2]string{bearer}})
			text := body(t, r)
			if r.StatusCode != tc.status || !strings.Contains(text, tc.has) || !json.Valid([]byte(text)) {
				t.Errorf("status %d, want %d with %q; answer %.400s", r.StatusCode, tc.status, tc.has, text)
			}
			if got := strings.Join(tc.source.done, "; "); got != tc.done {
				t.Errorf("the source was asked for %.100q, want %.100q", got, tc.done)
			}
		})
	}
}

// Half a body must not be taken for a body without a reason.
func TestCancelWithABodyThatDoesNotArrive(t *testing.T) {
	src := &fakeSource{}
	r := httptest.NewRequest("DELETE", "/tasks/task-1", iotest.ErrReader(errors.New("connection reset")))
	r.Header.Set(bearer[0], bearer[1])
	w := httptest.NewRecorder()
	New(src, metrics, Options{AdminToken: []byte(token)}).ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || len(src.done) > 0 {
		t.Errorf("status %d, changed %v; want 400 and nothing", w.Code, src.done)
	}
}

func TestOrders(t *testing.T) {
	gpu := fakeSource{agent: view.Agent{ID: "gpu-1", Cordoned: true}}
	for _, tc := range []struct {
		name         string
		source       fakeSource
		target, body string
		status       int
		done, has    string
	}{
		{"cordon", gpu, "/agents/gpu-1/cordon", "", 200, "cordon gpu-1", `"cordoned": true`},
		{"drain", gpu, "/agents/gpu-1/drain", "", 200, "drain gpu-1", `"id": "gpu-1"`},
		{"uncordon", gpu, "/agents/gpu-1/uncordon", "{}", 200, "uncordon gpu-1", ""},
		{"an unknown agent", fakeSource{doneErr: fmt.Errorf("order: %w", ErrNoAgent)}, "/agents/gpu-9/drain", "", 404,
			"drain gpu-9", "gpu-9 is not in the fleet"},
		{"the service cannot", fakeSource{doneErr: errors.New("draining")}, "/agents/gpu-1/drain", "", 503, "drain gpu-1",
			"Nothing was changed: draining"},
		{"what is no id", gpu, "/agents/a%20b/drain", "", 400, "", "1 to 128"},
		{"a slash for an id", gpu, "/agents/%2F/drain", "", 400, "", "1 to 128"},
		{"a body that would be passed over", gpu, "/agents/gpu-1/drain", `{"reason": "x"}`, 400, "", "nothing or {}"},
		{"a parameter that would be passed over", gpu, "/agents/gpu-1/drain?wait=true", "", 400, "", "knows none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := change(&tc.source, request{"POST", tc.target, tc.body, [][2]string{bearer}})
			text := body(t, r)
			if r.StatusCode != tc.status || !strings.Contains(text, tc.has) {
				t.Errorf("status %d, want %d with %q; answer %.400s", r.StatusCode, tc.status, tc.has, text)
			}
			if got := strings.Join(tc.source.done, "; "); got != tc.done {
				t.Errorf("the source was asked for %q, want %q", got, tc.done)
			}
		})
	}
	// Every order has an endpoint of its own.
	for _, o := range []coordinator.Order{coordinator.OrderCordon, coordinator.OrderDrain, coordinator.OrderUncordon} {
		src := &fakeSource{}
		change(src, request{"POST", "/agents/a/" + o.String(), "", [][2]string{bearer}})
		if !slices.Equal(src.done, []string{o.String() + " a"}) {
			t.Errorf("%s: asked for %v", o, src.done)
		}
	}
}

// What a web page makes a browser send changes nothing, even with the token.
func TestChangesFromWebPages(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers [][2]string
		status  int
	}{
		{"a program", nil, 200},
		{"this server's own origin", [][2]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://localhost:8551"}},
			200},
		{"another site", [][2]string{{"Sec-Fetch-Site", "cross-site"}}, 403},
		{"another port of this machine", [][2]string{{"Sec-Fetch-Site", "same-site"}, {"Origin", "http://localhost:3000"}},
			403},
		{"an old browser", [][2]string{{"Origin", "https://evil.example"}}, 403},
		{"a page without an origin", [][2]string{{"Origin", "null"}}, 403},
	} {
		src := &fakeSource{}
		r := change(src, request{"POST", "/agents/gpu-1/drain", "", append([][2]string{bearer}, tc.headers...)})
		if r.StatusCode != tc.status || (len(src.done) > 0) != (tc.status == 200) {
			t.Errorf("%s: status %d, want %d; changed %v", tc.name, r.StatusCode, tc.status, src.done)
		}
	}
	// A name that points at this machine is refused before anything is looked at.
	src := &fakeSource{}
	r := httptest.NewRequest("POST", "/agents/gpu-1/drain", nil)
	r.Host = "evil.example:8551"
	r.Header.Set(bearer[0], bearer[1])
	w := httptest.NewRecorder()
	New(src, metrics, Options{LoopbackHosts: true, AdminToken: []byte(token)}).ServeHTTP(w, r)
	if w.Code != http.StatusMisdirectedRequest || len(src.done) > 0 {
		t.Errorf("another host: status %d, changed %v; want 421 and nothing", w.Code, src.done)
	}
}

// A client that follows a redirect with a GET would take the answer for success.
func TestChangesAreNotRedirected(t *testing.T) {
	for _, target := range []string{"//tasks/task-1", "/tasks//task-1", "/x/../tasks/task-1", "/tasks/task-1/"} {
		src := &fakeSource{}
		r := ask(New(src, metrics, Options{AdminToken: []byte(token)}), "DELETE", target, "localhost")
		if r.StatusCode != http.StatusMethodNotAllowed || len(src.done) > 0 {
			t.Errorf("DELETE %s: status %d, changed %v; want 405 and nothing", target, r.StatusCode, src.done)
		}
	}
}

// A client with the token leaves a trace of every attempt; one without it, none.
func TestChangesAreReported(t *testing.T) {
	for _, tc := range []struct {
		name    string
		source  fakeSource
		headers [][2]string
		target  string
		want    []Change
	}{
		{"done", fakeSource{}, [][2]string{bearer}, "/agents/gpu-1/drain",
			[]Change{{"POST", "/agents/gpu-1/drain", "192.0.2.1:1234", 200}}},
		{"refused", fakeSource{doneErr: ErrNoAgent}, [][2]string{bearer}, "/agents/gpu-9/drain",
			[]Change{{"POST", "/agents/gpu-9/drain", "192.0.2.1:1234", 404}}},
		{"a panic", fakeSource{panics: true}, [][2]string{bearer}, "/agents/gpu-1/drain",
			[]Change{{"POST", "/agents/gpu-1/drain", "192.0.2.1:1234", 500}}},
		{"no token", fakeSource{}, nil, "/agents/gpu-1/drain", nil},
		{"a path that is no agent's", fakeSource{}, [][2]string{bearer}, "/agents/%0a/drain", nil},
	} {
		var got []Change
		opts := Options{AdminToken: []byte(token), Changed: func(c Change) { got = append(got, c) }}
		r := changeWith(&tc.source, opts, request{"POST", tc.target, "", tc.headers})
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: reported %+v, want %+v (status %d)", tc.name, got, tc.want, r.StatusCode)
		}
	}
}

// The list of endpoints says whether changes and reports are possible, and not by
// what.
func TestIndexSaysWhetherChangesAreOn(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		has  []string
	}{
		{"both", Options{AdminToken: []byte(token), AgentSecret: []byte(agentSecret)},
			[]string{"* changes something and needs Authorization: Bearer with the admin token",
				"** needs Authorization: Bearer with the agent's own token"}},
		{"orders alone", Options{AdminToken: []byte(token)}, []string{"* changes something and needs", "** is off"}},
		{"reports alone", Options{AgentSecret: []byte(agentSecret)}, []string{"* changes something and is off", "** needs"}},
		{"neither", Options{}, []string{"* changes something and is off", "** is off"}},
	} {
		text := body(t, changeWith(&fakeSource{}, tc.opts, request{"GET", "/", "", nil}))
		for _, want := range tc.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s", tc.name, want, text)
			}
		}
		if strings.Contains(text, token[:8]) || strings.Contains(text, agentSecret[:8]) {
			t.Errorf("%s: gives a secret away:\n%s", tc.name, text)
		}
	}
}
