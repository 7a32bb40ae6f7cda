package httpapi

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/internal/web"
)

// leaderAt is a coordinator that leads, behind a real listener, and what of it a standby is told.
func leaderAt(t *testing.T, src Source, opts Options) string {
	t.Helper()
	server := httptest.NewServer(New(src, metrics, opts))
	t.Cleanup(server.Close)
	return server.URL
}

func standbyOf(address string) Options {
	return Options{AdminToken: []byte(token), Leader: func() string { return address }}
}

// Whatever is changed, and needs the leader, may be asked of one that stands by: the leader is asked
// the same, and its answer is the answer.
func TestChangesAreForwarded(t *testing.T) {
	for _, req := range []request{
		{http.MethodPost, "/v1/quota/controls", `{"node": "pool/team-a", "set": {"weight": 5}, "by": "me"}`, nil},
		{http.MethodDelete, "/v1/quota/controls/set-1", "", nil},
		{http.MethodPut, "/v1/quota/groups/team-c?by=me&reason=a%20launch", `{"weight": 2}`, nil},
		{http.MethodPut, "/v1/quota/agents/a-1", `{"group_id": "team-c"}`, nil},
		{http.MethodDelete, "/v1/quota/groups/team-c", "", nil},
		{http.MethodPost, "/agents/a1/cordon", "", nil},
		{http.MethodDelete, "/tasks/t-1?reason=why", "", nil},
		{http.MethodPut, "/v1/quota/groups/team-c", `{"weight":`, nil}, // the leader says what is wrong with it
	} {
		t.Run(req.method+" "+req.target, func(t *testing.T) {
			req.headers = [][2]string{bearer}
			direct, leader, standby := &fakeSource{}, &fakeSource{}, &fakeSource{}
			want := change(direct, req)
			var seen []Change
			address := leaderAt(t, leader,
				Options{AdminToken: []byte(token), Changed: func(c Change) { seen = append(seen, c) }})
			got := changeWith(standby, standbyOf(address), req)
			if g, w := body(t, got), body(t, want); got.StatusCode != want.StatusCode || g != w ||
				got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
				t.Errorf("%d %s\nand the leader itself answers %d %s", got.StatusCode, g, want.StatusCode, w)
			}
			if !reflect.DeepEqual(leader.done, direct.done) || len(standby.done) > 0 {
				t.Errorf("the leader has done %v and the one that stands by %v; want %v and nothing", leader.done, standby.done,
					direct.done)
			}
			if len(seen) != 1 || seen[0].Method != req.method || seen[0].Status != want.StatusCode {
				t.Errorf("the leader's log has %+v", seen)
			}
		})
	}
}

// A change without the token is not forwarded, and the token never is: what goes along is good for that
// request alone, and for a minute.
func TestForwardedChangesAreSigned(t *testing.T) {
	const target, text = "/v1/quota/controls", `{"node": "pool/team-a", "set": {"weight": 5}}`
	var caught *http.Request
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caught = r.Clone(t.Context())
		web.Problem(w, http.StatusUnprocessableEntity, "Does not fit", "Nothing was changed.")
	}))
	defer spy.Close()
	if resp := changeWith(&fakeSource{}, standbyOf(spy.URL),
		request{http.MethodPost, target, text, nil}); resp.StatusCode != 401 || caught != nil {
		t.Fatalf("without a token: %d, want 401, and nothing forwarded", resp.StatusCode)
	}
	if resp := changeWith(&fakeSource{}, standbyOf(spy.URL),
		request{http.MethodPost, target, text, [][2]string{bearer}}); resp.StatusCode != 422 {
		t.Fatalf("%d, want the leader's 422", resp.StatusCode)
	}
	for name, values := range caught.Header {
		if strings.Contains(strings.Join(values, " "), token) {
			t.Errorf("the admin token goes along in %s", name)
		}
	}
	signature := caught.Header.Get(forwardedHeader)
	key := credential.Hash([]byte(token))
	other := credential.Hash([]byte("another token of thirty-two letters"))
	now := time.Now().Unix()
	for _, tc := range []struct {
		name, method, target, body string
		signatures                 []string
		status                     int
	}{
		{"as it was signed", http.MethodPost, target, text, []string{signature}, 200},
		{"for another body", http.MethodPost, target, strings.Replace(text, "5", "6", 1), []string{signature}, 401},
		{"for another path", http.MethodPost, "/agents/a1/cordon", text, []string{signature}, 401},
		{"for another query", http.MethodPost, target + "?x=1", text, []string{signature}, 401},
		{"twice", http.MethodPost, target, text, []string{signature, signature}, 401},
		{"no signature", http.MethodPost, target, text, []string{""}, 401},
		{"by another token", http.MethodPost, target, text, []string{sign(&other, "POST", target, []byte(text), now)}, 401},
		{"with another time", http.MethodPost, target, text, []string{"1" + signature}, 401},
		{"50 s old", http.MethodPost, target, text, []string{sign(&key, "POST", target, []byte(text), now-50)}, 200},
		{"70 s old", http.MethodPost, target, text, []string{sign(&key, "POST", target, []byte(text), now-70)}, 401},
		{"70 s ahead", http.MethodPost, target, text, []string{sign(&key, "POST", target, []byte(text), now+70)}, 401},
	} {
		var headers [][2]string
		for _, s := range tc.signatures {
			headers = append(headers, [2]string{forwardedHeader, s})
		}
		src := &fakeSource{}
		resp := change(src, request{tc.method, tc.target, tc.body, headers})
		if resp.StatusCode != tc.status || (len(src.done) > 0) != (tc.status == 200) {
			t.Errorf("%s: %d with %v done, want %d", tc.name, resp.StatusCode, src.done, tc.status)
		}
	}
	// The token beside a wrong signature does not let a request through: one of them counts.
	if resp := change(&fakeSource{},
		request{http.MethodPost, target, text, [][2]string{bearer, {forwardedHeader, "1:ab"}}}); resp.StatusCode != 401 {
		t.Errorf("with the token and a wrong signature: %d", resp.StatusCode)
	}
	if resp := changeWith(&fakeSource{}, Options{},
		request{http.MethodPost, target, text, [][2]string{{forwardedHeader, signature}}}); resp.StatusCode != 403 {
		t.Errorf("where changes are off: %d, want 403", resp.StatusCode)
	}
}

// What cannot be forwarded is refused with the leader's address and what to do; nothing goes in circles.
func TestChangeThatCannotBeForwarded(t *testing.T) {
	req := request{http.MethodPost, "/agents/a1/cordon", "", [][2]string{bearer}}
	// It ends every connection; a port without a listener could be another program's by then.
	gone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer gone.Close()
	stranger := leaderAt(t, &fakeSource{}, Options{AdminToken: []byte("another token of thirty-two letters")})
	closed := leaderAt(t, &fakeSource{}, Options{})
	// It has begun to stand by, and thinks that the other one leads.
	second := &fakeSource{}
	circle := leaderAt(t, second, Options{AdminToken: []byte(token), Leader: func() string { return gone.URL }})
	for _, tc := range []struct {
		name, address, says string
		status              int
	}{
		{"it is gone", gone.URL, "it does not answer", 503},
		{"it has another admin token", stranger, "all coordinators need the same admin token", 503},
		{"it has none", closed, "all coordinators need the same admin token", 503},
		{"it stands by itself", circle, "", 200}, // the fake does what it is asked, and does not ask again
	} {
		src := &fakeSource{}
		resp := changeWith(src, standbyOf(tc.address), req)
		said := body(t, resp)
		if resp.StatusCode != tc.status || !strings.Contains(said, tc.says) || tc.status == 503 &&
			!strings.Contains(said, tc.address) || len(src.done) > 0 {
			t.Errorf("%s: %d %s", tc.name, resp.StatusCode, said)
		}
	}
	// Without a leader that is known it says itself why not; and what is each one's own is not forwarded.
	src := &fakeSource{}
	if resp := changeWith(src, standbyOf(""), req); resp.StatusCode != 200 || len(src.done) != 1 {
		t.Errorf("without a leader: %d, %v", resp.StatusCode, src.done)
	}
	if resp := changeWith(src, standbyOf(gone.URL), request{http.MethodPost, "/v1/quota/history/rebuild", "",
		[][2]string{bearer}}); strings.Contains(body(t, resp), gone.URL) {
		t.Error("to make the history anew is each coordinator's own, and was forwarded")
	}
}
