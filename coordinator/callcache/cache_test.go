package callcache

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answering answers whatever is asked with a status.
type answering int

func (status answering) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(status))
	return w.Result(), nil
}

// A caller with a token that is none takes the place of no call that runs, nor of a caller.
func TestCallsOfNobodyAreForgotten(t *testing.T) {
	for token, status := range map[string]int{"wrong": http.StatusUnauthorized, "none at all": http.StatusOK} {
		c, err := New(Options{URLs: []string{"http://one"}, HTTP: &http.Client{Transport: answering(status)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range strings.Fields("r1 r2 r2 r3") {
			q := httptest.NewRequest(http.MethodGet, "/v1/quota/auth", nil)
			q.Header.Set("Authorization", "Bearer "+token)
			q.Header.Set("X-Quota-Agent", "x")
			q.Header.Set("X-Quota-Input-Tokens", "1")
			q.Header.Set("X-Quota-Output-Tokens", "1")
			q.Header.Set("X-Quota-Reservation", id)
			w := httptest.NewRecorder()
			if c.ServeHTTP(w, q); w.Code != status {
				t.Errorf("token %q: answered %d, want the coordinator's %d", token, w.Code, status)
			}
		}
		if len(c.calls)+len(c.oldest)+len(c.callers) > 0 {
			t.Errorf("token %q: %d calls, %d in order, and %d callers are remembered", token, len(c.calls), len(c.oldest),
				len(c.callers))
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
