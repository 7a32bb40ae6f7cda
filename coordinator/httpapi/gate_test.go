package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/httpapi/calls"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/view"
)

// stuckSource answers nothing that grows with the fleet or the quotas until it may.
type stuckSource struct {
	fakeSource
	stuckHistory
	may    chan struct{}
	inside chan struct{} // has a place for each that waits
}

func newStuckSource() *stuckSource {
	s := &stuckSource{may: make(chan struct{}), inside: make(chan struct{}, 1000)}
	s.stuckHistory.source = s
	return s
}

func (s *stuckSource) wait() {
	s.inside <- struct{}{}
	<-s.may
	<-s.inside
}

func (s *stuckSource) Status(context.Context) (view.Status, error) {
	s.wait()
	return view.Status{}, nil
}
func (s *stuckSource) Tasks(context.Context, view.TaskFilter) []view.Task {
	s.wait()
	return nil
}
func (s *stuckSource) Explain(context.Context, string) (view.TaskExplanation, bool) {
	s.wait()
	return view.TaskExplanation{}, true
}
func (s *stuckSource) WhatIf(context.Context, []byte) (view.Prospect, error) {
	s.wait()
	return view.Prospect{}, nil
}
func (s *stuckSource) AgentStats(context.Context) (view.AgentStats, error) {
	s.wait()
	return view.AgentStats{}, nil
}
func (s *stuckSource) Capabilities(context.Context) ([]view.Capability, error) {
	s.wait()
	return nil, nil
}
func (s *stuckSource) Quotas(context.Context, view.QuotaSelection) (view.Quotas, error) {
	s.wait()
	return view.Quotas{}, nil
}
func (s *stuckSource) QuotaControls(context.Context) (view.QuotaControls, error) {
	s.wait()
	return view.QuotaControls{}, nil
}

// stuckHistory is the history beside it.
type stuckHistory struct {
	noHistory
	source *stuckSource
}

func (h stuckHistory) Usage(ctx context.Context, q usage.Query) ([]usage.Row, bool, error) {
	h.source.wait()
	return h.noHistory.Usage(ctx, q)
}

// Many requests, or requests to a coordinator that is slow, take no more of it than a few answers' memory:
// one too many gets an error to try again. What is small, and what others judge this process by, is
// answered all the same.
func TestEveryLargeAnswerIsOneOfFew(t *testing.T) {
	small := map[string]bool{ // bounded whatever the fleet, the quotas and the history
		"/openapi.yaml": true, "/health": true, "/livez": true, "/readyz": true, "/tasks/{id}": true,
		"/v1/quota/nodes/{id...}": true, "/v1/quota/agents/{id}": true, "/v1/quota/explain": true,
		"/dead": true, "/dead/{id}": true, // one at a time, and for the holder of the admin token alone
	}
	a := &api{src: &fakeSource{}, permission: newPermission(nil), calls: calls.New(nil, calls.Options{})}
	for _, e := range a.endpoints(nil) {
		if e.read == nil && e.path != "/whatif" || small[e.path] {
			continue
		}
		targets := []string{strings.ReplaceAll(e.path, "{id}", "a")}
		if e.path == "/v1/quota" {
			targets = append(targets, "/v1/quota?limit=100000")
		}
		for _, target := range targets {
			t.Run(target, func(t *testing.T) { testFew(t, target) })
		}
	}
}

// testFew asks for a target twenty times at once.
func testFew(t *testing.T, target string) {
	synctest.Test(t, func(t *testing.T) {
		const asked, most = 20, 4
		src := newStuckSource()
		h := New(src, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { src.wait() }),
			Options{History: src.stuckHistory})
		method := http.MethodGet
		if target == "/whatif" {
			method = http.MethodPost
		}
		ask := func(w http.ResponseWriter) {
			h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader("{}")))
		}
		var answers [asked]*httptest.ResponseRecorder
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			go ask(answers[i])
		}
		synctest.Wait()
		if n := len(src.inside); n == 0 || n > most {
			t.Errorf("%d answers are being made, want 1 to %d: 0 where stuckSource lacks the method that %s asks, "+
				"more where endpoints.go does not put it in a gate", n, most, target)
		}
		inside := len(src.inside)
		time.Sleep(turnWait + time.Millisecond)
		synctest.Wait()
		refused := 0
		for _, w := range answers {
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "1" {
				refused++
			}
		}
		if refused != asked-inside {
			t.Errorf("%d of %d are to ask again, %d are being answered", refused, asked, inside)
		}
		close(src.may)
		synctest.Wait()
		w := httptest.NewRecorder()
		if ask(w); w.Code == http.StatusServiceUnavailable {
			t.Error("none is being made, and the next one is to ask again")
		}
	})
}

// Whose turn comes within two seconds is answered.
func TestATurnIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newStuckSource()
		h := New(src, metrics, Options{})
		answers := make([]*httptest.ResponseRecorder, mostReads+2)
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			go h.ServeHTTP(answers[i], httptest.NewRequest(http.MethodGet, "/status", nil))
		}
		time.Sleep(turnWait - time.Millisecond)
		close(src.may)
		synctest.Wait()
		for i, w := range answers {
			if w.Code != http.StatusOK || w.Header().Get("Retry-After") != "" {
				t.Errorf("answer %d: %d, Retry-After %q", i, w.Code, w.Header().Get("Retry-After"))
			}
		}
	})
}

// slowReader takes an answer in when it may.
type slowReader struct {
	*httptest.ResponseRecorder
	may chan struct{}
}

func (s *slowReader) Write(p []byte) (int, error) {
	<-s.may
	return s.ResponseRecorder.Write(p)
}

// listing has the same tasks for every request.
type listing struct {
	fakeSource
	list []view.Task
}

func (l *listing) Tasks(context.Context, view.TaskFilter) []view.Task { return l.list }

// A small answer whose reader is slow keeps no other out; a large one keeps its turn until it has been
// read.
func TestSlowReadersOfLargeAnswersKeepTheirTurn(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes int
		want  int
	}{{"small", 1000, http.StatusOK}, {"large", quickAnswer, http.StatusServiceUnavailable}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := New(&listing{list: []view.Task{{Error: strings.Repeat("x", c.bytes)}}}, metrics, Options{})
				may := make(chan struct{})
				for range mostReads {
					go h.ServeHTTP(&slowReader{httptest.NewRecorder(), may}, httptest.NewRequest(http.MethodGet, "/tasks", nil))
				}
				synctest.Wait()
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tasks", nil))
				if w.Code != c.want {
					t.Errorf("while others read slowly: %d, want %d", w.Code, c.want)
				}
				close(may)
				synctest.Wait()
				w = httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/tasks", nil))
				if w.Code != http.StatusOK {
					t.Errorf("when they have read: %d", w.Code)
				}
			})
		})
	}
}

// A handler that panics gives its turn back.
func TestAPanicGivesTheTurnBack(t *testing.T) {
	h := New(&panicking{}, metrics, Options{})
	for range mostReads + 1 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/agents/stats", nil))
		if w.Code != http.StatusInternalServerError {
			t.Fatalf("%d", w.Code)
		}
	}
}

type panicking struct{ fakeSource }

func (*panicking) AgentStats(context.Context) (view.AgentStats, error) {
	panic("a fault")
}
