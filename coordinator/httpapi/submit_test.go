package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

const producerToken = "producers-0123456789-abcdefghijkl"

// post submits a body; headers come in pairs.
func post(h http.Handler, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/tasks", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// Tasks come from holders of the producers' token or the admin token alone; a token that is nearly right, or one of
// two, is none.
func TestSubmittingNeedsAToken(t *testing.T) {
	producers, both := Options{ProducerToken: []byte(producerToken)},
		Options{ProducerToken: []byte(producerToken), AdminToken: []byte(token)}
	for _, c := range []struct {
		name    string
		options Options
		headers []string
		status  int
		has     string
	}{
		{"the producers' token", producers, []string{"Authorization", "Bearer " + producerToken}, 202, `"task_id": "t-1"`},
		{"the admin token", both, []string{"Authorization", "Bearer " + token}, 202, ""},
		{"the admin token alone", Options{AdminToken: []byte(token)}, []string{"Authorization", "Bearer " + token}, 202, ""},
		{"none", producers, nil, 401, "TASKBUS_PRODUCER_TOKEN"},
		{"nearly it", producers, []string{"Authorization", "Bearer " + producerToken[1:]}, 401, ""},
		{"an empty one", Options{AdminToken: []byte(token)}, []string{"Authorization", "Bearer "}, 401, ""},
		{"two", both, []string{"Authorization", "Bearer " + producerToken, "Authorization", "Bearer " + token}, 401, ""},
		{"none is configured", Options{}, []string{"Authorization", "Bearer " + producerToken}, 403,
			"TASKBUS_PRODUCER_TOKEN_FILE"},
		{"a page of another origin", producers,
			[]string{"Authorization", "Bearer " + producerToken, "Sec-Fetch-Site", "cross-site"}, 403, "another origin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := &fakeSource{}
			r := post(New(src, metrics, c.options), "{}", c.headers...)
			text := body(t, r)
			if r.StatusCode != c.status || !strings.Contains(text, c.has) {
				t.Errorf("%d %s; want %d with %q", r.StatusCode, text, c.status, c.has)
			}
			if submitted := src.submission.Body != nil; submitted != (c.status == 202) {
				t.Errorf("submitted: %v", submitted)
			}
		})
	}
}

// What the service says of a submission is what its producer is told: what to mend, or how to repeat it.
func TestSubmissionsAreAnswered(t *testing.T) {
	for _, c := range []struct {
		name, body, key string
		err             error
		status          int
		has             []string
	}{
		{"confirmed", `{}`, "", nil, 202, []string{`"task_id": "t-1"`}},
		{"no task", `{}`, "", &BadTask{Text: "/task_type: is missing"}, 400, []string{"/task_type: is missing"}},
		{"more than a message may have once it has its id", `{}`, "", &BadTask{Text: "too many bytes", TooLarge: true}, 413,
			[]string{"too many bytes"}},
		{"another task", `{}`, "", ErrOtherTask, 409, []string{"/tasks/t-1", "Idempotency-Key"}},
		{"not confirmed", `{}`, "", errors.New("no session"), 503, []string{"no session", "task_id t-1", "done once"}},
		{"too large: 16 bytes of 15", `{"a":"12345678"}`, "", nil, 413, []string{"more than 15 bytes"}},
		{"a key", `{}`, "order 7", nil, 202, nil},
		{"a key too long by a byte", `{}`, strings.Repeat("k", 256), nil, 400, []string{"1 to 255"}},
		{"an empty key", `{}`, "-", nil, 400, []string{"1 to 255"}},
		{"a key that is not ASCII", `{}`, "ключ", nil, 400, []string{"1 to 255"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := &fakeSource{submitErr: c.err}
			h := New(src, metrics, Options{ProducerToken: []byte(producerToken), MaxTaskBytes: 15})
			headers := []string{"Authorization", "Bearer " + producerToken, "Traceparent", "00-1", "Tracestate", "a=b"}
			if c.key != "" {
				headers = append(headers, "Idempotency-Key", strings.TrimPrefix(c.key, "-"))
			}
			r := post(h, c.body, headers...)
			text := body(t, r)
			if r.StatusCode != c.status {
				t.Errorf("%d %s, want %d", r.StatusCode, text, c.status)
			}
			for _, has := range c.has {
				if !strings.Contains(text, has) {
					t.Errorf("%s lacks %q", text, has)
				}
			}
			if c.status != 202 {
				return
			}
			if at := r.Header.Get("Location"); at != "/tasks/t-1" {
				t.Errorf("Location %q", at)
			}
			if s := src.submission; string(s.Body) != c.body || s.Key != c.key || s.TraceParent != "00-1" ||
				s.TraceState != "a=b" {
				t.Errorf("submitted: %+v", s)
			}
		})
	}
}

// What an agent has found out is for holders of a token alone, as the agent wrote it but for white space.
func TestOutputsNeedAToken(t *testing.T) {
	src := &fakeSource{
		list: []view.Task{
			{ID: "t-1", State: "succeeded", Agent: "a1", CompletedAt: someTime},
			{ID: "t-2", State: "succeeded", Agent: "a1", CompletedAt: someTime},
			{ID: "t-3", State: "dispatched", Agent: "a1"},
		},
		outputs: map[string]*coordinator.Output{
			"t-1/a1": {Value: []byte(`{"z":12345678901234567890}`)},
			"t-2/a1": {Ref: &coordinator.OutputRef{URI: "s3://b/k", SHA256: "00ff", Size: 7}},
			"t-3/a1": {Value: []byte(`"of an attempt before"`)},
		},
	}
	h := New(src, metrics, Options{ProducerToken: []byte(producerToken)})
	for _, c := range []struct{ id, token, has string }{
		{"t-1", producerToken, `"z": 12345678901234567890`},
		{"t-2", producerToken, `"sha256": "00ff"`},
		{"t-1", producerToken + "x", ""},
		{"t-2", "", ""},
		{"t-3", producerToken, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/tasks/"+c.id, nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text := w.Body.String()
		if w.Code != 200 || !strings.Contains(text, c.has) || strings.Contains(text, "output") != (c.has != "") {
			t.Errorf("%s with %q: %d %s; want %q", c.id, c.token, w.Code, text, c.has)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/tasks", nil)
	r.Header.Set("Authorization", "Bearer "+producerToken)
	h.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "output") {
		t.Errorf("the list has outputs: %s", w.Body)
	}
}
