package quota_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent/quota"
	"taskbus/coordinator/callcache"
	"taskbus/coordinator/credential"
)

// gatewayBy is a gateway that asks a cache before coordinators one and two.
type gatewayBy struct {
	*rig
	cache *callcache.Cache
}

func (r *rig) gateway(lease quota.Lease) *gatewayBy {
	r.t.Helper()
	urls := []string{"http://one", "http://two"}
	c, err := callcache.New(callcache.Options{URLs: urls, HTTP: &http.Client{Transport: r}, Lease: lease})
	if err != nil {
		r.t.Fatal(err)
	}
	return &gatewayBy{r, c}
}

// asks asks for agent x, with headers X-Quota-*, and gives the status, in brackets behind it what X-Quota-Status says.
func (g *gatewayBy) asks(path string, headers ...string) string {
	q := httptest.NewRequest(http.MethodGet, "/v1/quota/"+path, nil)
	q.Header.Set("Authorization", "Bearer "+credential.AgentToken([]byte(secret), "x"))
	q.Header.Set("X-Quota-Agent", "x")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	g.cache.ServeHTTP(w, q)
	if w.Code == http.StatusOK && w.Header().Get("Cache-Control") != "no-store" {
		g.t.Errorf("a grant may be kept: %v", w.Header())
	}
	return strconv.Itoa(w.Code) + "[" + w.Header().Get("X-Quota-Status") + "]"
}

// hundred asks for a call of 100 tokens.
func (g *gatewayBy) hundred(more ...string) string {
	return g.asks("auth", append([]string{"X-Quota-Input-Tokens: 60", "X-Quota-Output-Tokens: 40"}, more...)...)
}

func (g *gatewayBy) close() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := g.cache.Close(ctx); err != nil {
		g.t.Error(err)
	}
	synctest.Wait()
}

const granted, refused = "200[200]", "403[429]"

// A call costs a coordinator an eighth of a question, and is charged as it was asked for.
func TestCacheAnswersOutOfLeases(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		g := r.gateway(quota.Lease{})
		for i := range 80 {
			if got := g.hundred(); got != granted {
				t.Errorf("call %d: %s", i, got)
			}
		}
		synctest.Wait()
		if asked, handed := r.count("reserve"), r.count("auth"); asked > 80/8+1 || handed > 0 {
			t.Errorf("80 calls made %d questions for leases, and %d were handed on", asked, handed)
		}
		g.close()
		r.stands("one", 8000, 0)
	})
}

// While no coordinator answers calls go on for as long as the lease has room, and its time is not over; what they
// have used is charged when one is back.
func TestCacheGoesOnWithoutCoordinators(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		g := r.gateway(quota.Lease{})
		passed := 0
		pass := func(n int) (through int) {
			for range n {
				if g.hundred() == granted {
					through++
				}
			}
			passed += through
			return through
		}
		pass(2)
		synctest.Wait()
		r.kill("one")
		if n := pass(4); n != 4 {
			t.Errorf("%d of 4 calls pass right away", n)
		}
		if n := pass(40); n == 0 || n > 16 {
			t.Errorf("%d more calls pass: two leases have 16", n)
		}
		time.Sleep(11 * time.Second)
		if n := pass(3); n != 0 {
			t.Errorf("%d calls pass when the lease is over", n)
		}
		if got := g.hundred(); got != "502[]" {
			t.Errorf("answered %s", got)
		}
		r.start("two")
		time.Sleep(10 * time.Second)
		if n := pass(1); n != 1 {
			t.Error("no call passes at the next coordinator")
		}
		g.close()
		r.stands("two", 100*passed, 0)
	})
}

// No more passes than the limit allows, whatever stands in leases, and the refusal is a coordinator's own.
func TestCacheNeverGrantsBeyondTheLimit(t *testing.T) {
	inRig(t, pool(2050, ""), func(r *rig) {
		a, b := r.gateway(quota.Lease{}), r.gateway(quota.Lease{})
		passed := 0
		for range 40 {
			for _, g := range []*gatewayBy{a, b} {
				switch got := g.hundred(); got {
				case granted:
					passed++
				case refused:
				default:
					t.Errorf("answered %s", got)
				}
				time.Sleep(time.Second)
			}
		}
		if passed != 20 {
			t.Errorf("%d calls of 100 tokens passed, of 2050", passed)
		}
		a.close()
		b.close()
		r.stands("one", 2000, 0)
	})
}

// An id stands for one call: asked about again it is charged once, by a coordinator too.
func TestCacheKnowsIds(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		g := r.gateway(quota.Lease{Calls: 2})
		id := "X-Quota-Reservation: r1"
		for _, tt := range []struct{ name, got, want string }{
			{"first", g.hundred(id), granted},
			{"again", g.hundred(id), granted},
			{"another call by its id", g.hundred(id, "X-Quota-Model: m"), "403[409]"},
			{"settled, and it was charged at once", g.asks("auth/settle", id), "403[409]"},
			{"reserved", g.hundred("X-Quota-Reservation: r3", "X-Quota-Mode: reserve"), granted},
			{"settled", g.asks("auth/settle", "X-Quota-Reservation: r3", "X-Quota-Output-Tokens: 1"), granted},
			{"settled again", g.asks("auth/settle", "X-Quota-Reservation: r3"), "403[409]"},
			{"reserved again when it has ended", g.hundred("X-Quota-Reservation: r3", "X-Quota-Mode: reserve"), "403[409]"},
			{"reserved, and never settled", g.hundred("X-Quota-Reservation: r4", "X-Quota-Mode: reserve"), granted},
			{"reserved, and the provider fails", g.hundred("X-Quota-Reservation: r5", "X-Quota-Mode: reserve"), granted},
			{"told", g.asks("auth/settle", "X-Quota-Reservation: r5", "X-Quota-Upstream-Status: 503"), granted},
			{"refused", g.hundred("X-Quota-Reservation: r2", "X-Quota-Input-Tokens: 5000"), "403[422]"},
			{"unknown", g.asks("auth/settle", "X-Quota-Reservation: r6"), "403[404]"},
			{"no agent's token", g.hundred("Authorization: Bearer nonsense"), "401[401]"},
			{"nothing known of it", g.asks("auth", "X-Quota-Reservation: r7"), "403[429]"},
			{"elsewhere", g.asks("controls"), "404[]"},
		} {
			if tt.got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
			}
		}
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		g.close()
		r.stands("one", 100+61+100, 0) // r1, r3, r4
	})
}

// While no coordinator answers what is asked costs no more and more memory, also by callers that are not known yet.
func TestCacheDoesNotGrowWithoutCoordinators(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		g := r.gateway(quota.Lease{})
		r.kill("one")
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 100 {
			if got := g.hundred(); got != "502[]" {
				t.Fatalf("answered %s", got)
			}
		}
		if n := runtime.NumGoroutine() - before; n > 20 {
			t.Errorf("100 questions of one caller leave %d goroutines", n)
		}
		r.start("one")
		time.Sleep(10 * time.Second)
		if got := g.hundred(); got != granted {
			t.Errorf("when it is back: %s", got)
		}
		g.close()
		r.stands("one", 100, 0)
	})
}

// What one coordinator cannot answer, or does not in time, is asked of the next when it is asked again.
func TestCacheHandsOnToWhoAnswers(t *testing.T) {
	inRig(t, pool(100_000, ""), func(r *rig) {
		r.start("two")
		g := r.gateway(quota.Lease{})
		if got := g.asks("auth"); got != granted {
			t.Errorf("by one: %s", got)
		}
		r.kill("one")
		time.Sleep(10 * time.Second)
		if got := g.asks("auth"); got != "502[]" {
			t.Errorf("by one that does not answer: %s", got)
		}
		for range 2 {
			if got := g.asks("auth", "X-Quota-Reservation: r1"); got != granted {
				t.Errorf("by two: %s", got)
			}
		}
		g.close()
	})
	for _, status := range []string{"503[]", "403[503]"} {
		asked := []string(nil)
		c, err := callcache.New(callcache.Options{URLs: []string{"http://one", "http://two"},
			HTTP: &http.Client{Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
				asked = append(asked, q.URL.Host)
				w := httptest.NewRecorder()
				if q.URL.Host == "two" {
					w.WriteHeader(http.StatusOK)
				} else {
					w.Header().Set("X-Quota-Status", status[4:len(status)-1])
					code, _ := strconv.Atoi(status[:3])
					w.WriteHeader(code)
				}
				return w.Result(), nil
			})}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/quota/check", nil))
		}
		if got := strings.Join(asked, " "); got != "one two two" {
			t.Errorf("while one answers %s: asked %s", status, got)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// What is too large for a coordinator is told so: asking again would not help.
func TestCacheRefusesWhatIsTooLarge(t *testing.T) {
	inRig(t, pool(1000, ""), func(r *rig) {
		g := r.gateway(quota.Lease{})
		w := httptest.NewRecorder()
		g.cache.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/quota/reserve",
			strings.NewReader(strings.Repeat(" ", 9<<10))))
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("answered %d: %s", w.Code, w.Body)
		}
		g.close()
	})
}
