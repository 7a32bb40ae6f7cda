package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLargeAnswersAreFew: two large answers are made at a time; a third is to be asked for again, while
// pages of the usual size are answered.
func TestLargeAnswersAreFew(t *testing.T) {
	a := &api{src: &fakeSource{}, larges: make(chan struct{}, mostLarge)}
	get := func(query string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.quotas(w, httptest.NewRequest(http.MethodGet, "/v1/quota"+query, nil))
		return w
	}
	for range mostLarge {
		a.larges <- struct{}{}
	}
	if w := get("?limit=100000"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if w := get("?limit=1000"); w.Code != http.StatusOK {
		t.Errorf("a page: %d", w.Code)
	}
	<-a.larges
	if w := get("?limit=100000&after=pool/a"); w.Code != http.StatusOK || len(a.larges) != mostLarge-1 {
		t.Errorf("%d, %d are being made", w.Code, len(a.larges))
	}
	if w := get("?after=%20"); w.Code != http.StatusBadRequest {
		t.Errorf("after nothing: %d", w.Code)
	}
}
