package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"taskbus/coordinator/view"
)

// Everything about task.dead takes the admin token, and a misspelt request changes nothing.
func TestDeadLetters(t *testing.T) {
	const key = "3f2a09c1d4e5b678"
	source := func() *fakeSource {
		return &fakeSource{
			dead: view.DeadList{Messages: []view.DeadMessage{{Key: key, ReasonCode: "poisoned", TaskID: "t-1"}}, Matched: 1,
				Scanned: 4},
			deadDone: view.DeadDone{Done: []string{key}},
		}
	}
	with := [][2]string{bearer}
	many := `{"keys": ["` + strings.Repeat(key+`","`, MaxDeadKeys) + key + `"]}`
	for _, tc := range []struct {
		name   string
		req    request
		status int
		done   string // what the source was asked for
		has    string
	}{
		{"without the token", request{"GET", "/dead", "", nil}, 401, "", "TASKBUS_ADMIN_TOKEN"},
		{"one without the token", request{"GET", "/dead/" + key + "?payload=true", "", nil}, 401, "", ""},
		{"resend without the token", request{"POST", "/dead/resend", `{"keys":["` + key + `"]}`, nil}, 401, "", ""},
		{"list", request{"GET", "/dead?reason=poisoned&limit=3", "", with}, 200, "dead", `"scanned": 4`},
		{"a misspelt parameter", request{"GET", "/dead?resaon=poisoned", "", with}, 400, "",
			"known are reason, type, id and limit"},
		{"a limit too large", request{"GET", "/dead?limit=1001", "", with}, 400, "", "from 1 to 1000"},
		{"one", request{"GET", "/dead/" + key, "", with}, 200, "dead " + key + " false", `"poisoned"`},
		{"one with its payload", request{"GET", "/dead/" + key + "?payload=true", "", with}, 200, "dead " + key + " true",
			""},
		{"one that is not there", request{"GET", "/dead/0000000000000000", "", with}, 404, "dead 0000000000000000 false",
			"GET /dead"},
		{"one by its task id", request{"GET", "/dead/t-1", "", with}, 400, "", "?id="},
		{"resend", request{"POST", "/dead/resend", `{"keys":["` + key + `","` + key + `"]}`, with}, 200, "resend " + key,
			`"kept": []`},
		{"drop", request{"POST", "/dead/drop", `{"keys":["` + key + `"]}`, with}, 200, "drop " + key, key},
		{"drop nothing", request{"POST", "/dead/drop", "", with}, 400, "", `{\"keys\":`},
		{"drop an empty list", request{"POST", "/dead/drop", `{"keys":[]}`, with}, 400, "", "1 to 1000 keys"},
		{"drop too many", request{"POST", "/dead/drop", many, with}, 400, "", "1 to 1000 keys"},
		{"drop by a task id", request{"POST", "/dead/drop", `{"keys":["t-1"]}`, with}, 400, "", "16 hexadecimal digits"},
		{"drop by a reason", request{"POST", "/dead/drop", `{"reason":"poisoned"}`, with}, 400, "", "keys is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := source()
			r := change(src, tc.req)
			text := body(t, r)
			if r.StatusCode != tc.status || !strings.Contains(text, tc.has) {
				t.Errorf("%d %s, want %d and %q", r.StatusCode, text, tc.status, tc.has)
			}
			if done := strings.Join(src.done, ", "); done != tc.done {
				t.Errorf("asked for %q, want %q", done, tc.done)
			}
		})
	}
	src := source()
	src.doneErr = errors.New("no session with the broker")
	for _, req := range []request{{"GET", "/dead", "", with}, {"POST", "/dead/drop", `{"keys":["` + key + `"]}`, with}} {
		if r := change(src, req); r.StatusCode != http.StatusServiceUnavailable ||
			!strings.Contains(body(t, r), "no session") {
			t.Errorf("%s %s: %d", req.method, req.target, r.StatusCode)
		}
	}
}
