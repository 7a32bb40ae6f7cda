package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// agentSecret is what the tokens of these tests are derived from.
const agentSecret = "canary-agents-0123456789-abcdefg"

// balancing is the body of BALANCING's document.
const balancing = `{"capacity_items_per_second": 8.5, "pending_items": 12, "health": "BUSY"}`

// as is the header by which an agent shows its identity.
func as(agent string) [2]string {
	return [2]string{"Authorization", "Bearer " + credential.AgentToken([]byte(agentSecret), agent)}
}

// put sends a report of an agent's capacity.
func put(src Source, agent, body string, headers ...[2]string) *http.Response {
	return changeWith(src, Options{AdminToken: []byte(token), AgentSecret: []byte(agentSecret)},
		request{"PUT", "/agents/" + agent + "/capacity", body, headers})
}

// The token is what the documentation says, so that any language can make it.
func TestAgentToken(t *testing.T) {
	mac := hmac.New(sha256.New, []byte(agentSecret))
	mac.Write([]byte("agent:gpu-1"))
	want := hex.EncodeToString(mac.Sum(nil))
	if got := credential.AgentToken([]byte(agentSecret), "gpu-1"); got != want || len(got) != 64 {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, other := range []string{"gpu-2", "gpu-", "gpu-11", ""} {
		if credential.AgentToken([]byte(agentSecret), other) == want {
			t.Errorf("%q has the token of gpu-1", other)
		}
	}
}

func TestCapacityIsTheAgentsOwn(t *testing.T) {
	right := as("gpu-1")
	for _, tc := range []struct {
		name    string
		headers [][2]string
		status  int
	}{
		{"its own token", [][2]string{right}, 204},
		{"a scheme is not case-sensitive", [][2]string{{"Authorization", strings.Replace(right[1], "Bearer", "bearer", 1)}},
			204},

		{"no token", nil, 401},
		{"another agent's", [][2]string{as("gpu-2")}, 401},
		{"the admin token", [][2]string{bearer}, 401},
		{"the secret itself", [][2]string{{"Authorization", "Bearer " + agentSecret}}, 401},
		{"a prefix", [][2]string{{"Authorization", right[1][:len(right[1])-1]}}, 401},
		{"in capitals", [][2]string{{"Authorization", "Bearer " + strings.ToUpper(strings.TrimPrefix(right[1], "Bearer "))}},
			401},
		{"another scheme", [][2]string{{"Authorization", strings.Replace(right[1], "Bearer", "Basic", 1)}}, 401},
		{"twice", [][2]string{right, right}, 401},
		{"from a web page of another origin", [][2]string{right, {"Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "cross-site"}}, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakeSource{}
			r := put(src, "gpu-1", balancing, tc.headers...)
			text := body(t, r)
			if r.StatusCode != tc.status || (len(src.done) > 0) != (tc.status == 204) {
				t.Errorf("status %d, want %d; done %v; %s", r.StatusCode, tc.status, src.done, text)
			}
			if tc.status == 204 {
				if want := []string{"gpu-1 8.5 items/s, 12 pending"}; !slices.Equal(src.done, want) || text != "" {
					t.Errorf("reported %v, want %v; body %q", src.done, want, text)
				}
				return
			}
			if tc.status == 401 && r.Header.Get("WWW-Authenticate") == "" {
				t.Error("a 401 says how to authenticate")
			}
			if strings.Contains(text, agentSecret[:8]) ||
				strings.Contains(text, credential.AgentToken([]byte(agentSecret), "gpu-1")[:8]) {
				t.Errorf("the answer gives a secret away: %s", text)
			}
		})
	}
}

// A client without a token does not learn whether there is such an agent.
func TestRefusalsOfATokenAreTheSame(t *testing.T) {
	known, unknown := &fakeSource{}, &fakeSource{doneErr: ErrNoAgent}
	a, b := put(known, "gpu-1", balancing, as("x")), put(unknown, "gpu-1", balancing, as("x"))
	if a.StatusCode != b.StatusCode || body(t, a) != body(t, b) {
		t.Error("the answers differ")
	}
}

func TestReportsAreOffWithoutSecret(t *testing.T) {
	src := &fakeSource{}
	r := changeWith(src, Options{AdminToken: []byte(token)}, request{"PUT", "/agents/gpu-1/capacity", balancing,
		[][2]string{{"Authorization", "Bearer " + credential.AgentToken(nil, "gpu-1")}}})
	if text := body(t, r); r.StatusCode != http.StatusForbidden || len(src.done) > 0 ||
		!strings.Contains(text, "TASKBUS_AGENT_SECRET_FILE") {
		t.Errorf("status %d, done %v, %s", r.StatusCode, src.done, text)
	}
}

func TestCapacityBody(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		status     int
		says       string // part of the answer, or what was reported
	}{
		{"BALANCING's", balancing, 204, "gpu-1 8.5 items/s, 12 pending"},
		{"without health", `{"capacity_items_per_second":4,"pending_items":0}`, 204, "gpu-1 4 items/s, 0 pending"},
		{"a capacity that is not known", `{"capacity_items_per_second":0,"pending_items":1}`, 204,
			"gpu-1 0 items/s, 1 pending"},
		{"the least", `{"capacity_items_per_second":1e-9,"pending_items":0}`, 204, "gpu-1 1e-09 items/s, 0 pending"},
		{"whole, written as a fraction", `{"capacity_items_per_second":4.0,"pending_items":12.0}`, 204,
			"gpu-1 4 items/s, 12 pending"},
		{"the most", `{"capacity_items_per_second":1e9,"pending_items":1000000000}`, 204,
			"gpu-1 1e+09 items/s, 1000000000 pending"},

		{"nothing", "", 400, "capacity_items_per_second is missing"},
		{"an empty object", "{}", 400, "capacity_items_per_second is missing"},
		{"null", `{"capacity_items_per_second":null,"pending_items":1}`, 400, "capacity_items_per_second is missing"},
		{"no pending items", `{"capacity_items_per_second":4}`, 400, "pending_items is missing"},
		{"negative capacity", `{"capacity_items_per_second":-1,"pending_items":1}`, 400,
			"capacity_items_per_second is out of range: it must be 0 (not known), or a number from 1e-9 to 1000000000"},
		{"too much", `{"capacity_items_per_second":1000000001,"pending_items":1}`, 400,
			"capacity_items_per_second is out of range"},
		{"too little", `{"capacity_items_per_second":9.99e-10,"pending_items":1}`, 400,
			"capacity_items_per_second is out of range"},
		{"less than floating point knows", `{"capacity_items_per_second":1e-999,"pending_items":1}`, 400,
			"capacity_items_per_second is out of range"},
		{"beyond floating point", `{"capacity_items_per_second":1e999,"pending_items":1}`, 400,
			"capacity_items_per_second is out of range"},
		{"NaN", `{"capacity_items_per_second":NaN,"pending_items":1}`, 400, "as JSON"},
		{"half an item", `{"capacity_items_per_second":4,"pending_items":1.5}`, 400, "pending_items is not a whole number"},
		{"negative items", `{"capacity_items_per_second":4,"pending_items":-1}`, 400,
			"pending_items is out of range: it must be a whole number from 0 to 1000000000"},
		{"too many items", `{"capacity_items_per_second":4,"pending_items":1000000001}`, 400,
			"pending_items is out of range"},
		{"an unknown health", `{"capacity_items_per_second":4,"pending_items":1,"health":"FINE"}`, 400,
			"HEALTHY, BUSY, OVERLOADED"},
		{"a misspelt field", `{"capacity_items_per_second":4,"pending":1}`, 400,
			`\"pending\" is no field of it: known are capacity_items_per_second, pending_items and health`},
		{"in other letters", `{"capacity_items_per_second":4,"Pending_Items":1}`, 400,
			`\"Pending_Items\" differs from pending_items by letter case only`},
		{"twice", `{"capacity_items_per_second":4,"pending_items":1,"pending_items":2}`, 400, "pending_items is given twice"},
		{"twice, once escaped", `{"capacity_items_per_second":4,"pending_items":1,"\u0070ending_items":2}`, 400,
			"pending_items is given twice"},
		{"twice, once null", `{"capacity_items_per_second":null,"capacity_items_per_second":4,"pending_items":1}`, 400,
			"capacity_items_per_second is given twice"},
		{"an endless field", `{"` + strings.Repeat("x", 500) + `":1}`, 400, strings.Repeat("x", 61) + `…\" is no field`},
		{"text for a number", `{"capacity_items_per_second":"4","pending_items":1}`, 400,
			"capacity_items_per_second is text: it must be"},
		{"an object for a number", `{"capacity_items_per_second":4,"pending_items":{}}`, 400, "pending_items is an object"},
		{"a list for a number", `{"capacity_items_per_second":4,"pending_items":[1]}`, 400, "pending_items is a list"},
		{"true for a number", `{"capacity_items_per_second":4,"pending_items":true}`, 400, "pending_items is true or false"},
		{"a number for a word", `{"capacity_items_per_second":4,"pending_items":1,"health":1}`, 400,
			"health is a number: it must be text"},
		{"a list", `[4, 1]`, 400, "as JSON"},
		{"something behind it", balancing + "x", 400, "as JSON"},
		{"not UTF-8", "{\"capacity_items_per_second\":4,\"pending_items\":1,\"health\":\"\xff\"}", 400, "UTF-8"},
		{"too long", balancing + strings.Repeat(" ", 1<<10), 413, "1024 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fakeSource{}
			r := put(src, "gpu-1", tc.body, as("gpu-1"))
			text := body(t, r)
			if r.StatusCode != tc.status {
				t.Errorf("status %d, want %d: %s", r.StatusCode, tc.status, text)
			}
			if said := text + strings.Join(src.done, ""); !strings.Contains(said, tc.says) {
				t.Errorf("%q is not in %q", tc.says, said)
			}
			if len(src.done) > 0 != (tc.status == 204) {
				t.Errorf("reported %v", src.done)
			}
			if typ := r.Header.Get("Content-Type"); tc.status >= 400 && typ != "application/problem+json" {
				t.Errorf("content type %q", typ)
			}
		})
	}
}

// Whatever is let through here the schema of agent.status lets through: what the
// coordinator publishes every coordinator can read.
func TestCapacityFitsAgentStatus(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	decoder := messages.NewDecoder(set, messages.DefaultLimits())
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.OneOf(rapid.Float64Range(0, 2e9), rapid.Float64Range(0, 1e-8),
			rapid.SampledFrom([]float64{0, 1e-320, 1e-9, math.Nextafter(1e-9, 0), 1e9, math.Nextafter(1e9, 2e9), 1e300}))
		pending := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(999_999_990, 1_000_000_010))
		given := CapacityReport{capacity.Draw(t, "capacity"), pending.Draw(t, "pending")}
		src := &fakeSource{}
		r := put(src, "gpu-1", fmt.Sprintf(`{"capacity_items_per_second":%g,"pending_items":%d}`, given.Capacity,
			given.Pending), as("gpu-1"))
		body, err := json.Marshal(messages.AgentStatus{
			AgentID: "gpu-1", Status: coordinator.StatusReady, Timestamp: time.Unix(1, 0),
			CapacityItemsPerSecond: given.Capacity, HasCapacity: true, PendingItems: given.Pending, HasPending: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		refusal := decoder.DecodeAgentStatus(body, new(messages.AgentStatus))
		if (r.StatusCode == http.StatusNoContent) != (refusal == nil) {
			t.Fatalf("%+v: status %d, the schema says %+v", given, r.StatusCode, refusal)
		}
	})
}

func TestCapacityAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		agent  string
		query  string
		err    error
		status int
		retry  string
		says   string
	}{
		{"an agent that is not in the fleet", "gpu-9", "", ErrNoAgent, 404, "", "gpu-9 is not in the fleet"},
		{"wrapped", "gpu-9", "", fmt.Errorf("report: %w", ErrNoAgent), 404, "", ""},
		{"a moment after the last", "gpu-1", "", &TooSoon{Wait: 300 * time.Millisecond}, 429, "1", "once a second"},
		{"longer than a second", "gpu-1", "", &TooSoon{Wait: 1001 * time.Millisecond}, 429, "2", ""},
		{"on a standby", "gpu-1", "", errors.New("this coordinator stands by"), 503, "1", "this coordinator stands by"},
		{"what is no id", "a%20b", "", nil, 400, "", "1 to 128"},
		{"a query", "gpu-1", "?pending=1", nil, 400, "", "knows none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := strings.ReplaceAll(tc.agent, "%20", " ")
			r := put(&fakeSource{doneErr: tc.err}, tc.agent, balancing, as(id))
			if tc.query != "" {
				r = changeWith(&fakeSource{}, Options{AgentSecret: []byte(agentSecret)},
					request{"PUT", "/agents/" + tc.agent + "/capacity" + tc.query, balancing, [][2]string{as(id)}})
			}
			text := body(t, r)
			if r.StatusCode != tc.status || r.Header.Get("Retry-After") != tc.retry || !strings.Contains(text, tc.says) {
				t.Errorf("status %d, Retry-After %q, %s; want %d, %q, %q", r.StatusCode, r.Header.Get("Retry-After"), text,
					tc.status, tc.retry, tc.says)
			}
		})
	}
}

func TestWhatIf(t *testing.T) {
	const task = `{"task_id": "t", "task_type": "x", "payload": {}}`
	prospect := view.Prospect{ID: "t", Agent: "gpu-1", Explanation: &view.Explanation{Text: "gpu-1 by load_balanced"}}
	for _, tc := range []struct {
		name    string
		source  fakeSource
		target  string
		body    string
		headers [][2]string
		status  int
		says    string
	}{
		{"an answer, without any token", fakeSource{prospect: prospect}, "/whatif", task, nil, 200, "gpu-1 by load_balanced"},
		{"what is no task", fakeSource{prospectErr: &BadTask{Text: "/task_id: missing"}}, "/whatif", "{}", nil, 400,
			"/task_id: missing"},
		{"it is not known", fakeSource{prospectErr: errors.New("the coordinator has stopped")}, "/whatif", task, nil, 503,
			"the coordinator has stopped"},
		{"a query", fakeSource{}, "/whatif?x=1", task, nil, 400, "knows none"},
		{"beyond max_message_bytes", fakeSource{}, "/whatif", task + strings.Repeat(" ", 100), nil, 413,
			"more than 100 bytes"},
		{"from a web page of another origin", fakeSource{}, "/whatif", task,
			[][2]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}}, 403, "another origin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := changeWith(&tc.source, Options{MaxTaskBytes: 100}, request{"POST", tc.target, tc.body, tc.headers})
			text := body(t, r)
			if r.StatusCode != tc.status || !strings.Contains(text, tc.says) {
				t.Errorf("status %d, want %d with %q: %s", r.StatusCode, tc.status, tc.says, text)
			}
			if asked := string(tc.source.whatIf); tc.status == 200 && asked != task || tc.status == 403 && asked != "" {
				t.Errorf("the service was asked about %q", asked)
			}
			if len(tc.source.done) > 0 {
				t.Errorf("something was changed: %v", tc.source.done)
			}
		})
	}
}

// What a formula gives that JSON does not know travels as null.
func TestNumber(t *testing.T) {
	for text, want := range map[string]string{"0.25": "0.25", "-3": "-3", "null": "null"} {
		var n view.Number
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(n); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	var n view.Number
	if err := json.Unmarshal([]byte(`"x"`), &n); err == nil {
		t.Error("text was read as a number")
	}
}

func TestAttemptOutcomesBelongToTheCaller(t *testing.T) {
	view.AttemptOutcomes()[0] = "changed"
	if !slices.Contains(view.AttemptOutcomes(), "succeeded") {
		t.Error("a caller changed the list for all")
	}
}
