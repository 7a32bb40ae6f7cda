package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbus/agent/balance"
	"taskbus/coordinator/view"
)

// fleetStatistics are three agents online, one of them a1, and one that is gone: 21 items
// are held by the others, 7 by a1, and 21 by none.
const fleetStatistics = `{
	"agents": [
		{"agent_id": "a1", "state": "online", "capacity_items_per_second": 16, "pending_items": 7, "load": 0.5},
		{"agent_id": "a2", "state": "online", "capacity_items_per_second": 8, "pending_items": 14},
		{"agent_id": "a3", "state": "online", "capacity_items_per_second": 4, "pending_items": 7},
		{"agent_id": "a4", "state": "gone", "capacity_items_per_second": 99, "pending_items": 99}
	],
	"total_capacity": 28, "global_queue_depth": 49,
	"queue_depth": {"agents": 28, "waiting": 20, "unread": 1}, "swarm": {"total": 4}
}`

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// What a coordinator says is understood, by the names that it has for it.
func TestRegistryOfACoordinator(t *testing.T) {
	body, err := json.Marshal(view.AgentStats{
		Agents: []view.AgentInfo{
			{ID: "a1", State: "online", Capacity: 16, Pending: 7},
			{ID: "a2", State: "online", Capacity: 8.5, Pending: 14},
			{ID: "a3", State: "stale", Capacity: 4, Pending: 9},
		},
		TotalCapacity: 24.5, GlobalQueueDepth: 30, QueueDepth: view.QueueDepth{Agents: 21, Waiting: 4, Unread: 5},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := othersIn(body, "a1")
	if want := (balance.Others{Agents: 1, Pending: 14, Unclaimed: 9, Capacity: 8.5}); err != nil || got != want { // 4+5
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

// hang answers nothing until the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// What a registry says, and all that may be wrong with it. No error has the URL, whose
// query may hold a secret, or what else the registry says.
func TestRegistryReading(t *testing.T) {
	const secret = "s3cr3t"
	tests := []struct {
		name    string
		serve   http.HandlerFunc
		timeout time.Duration
		outcome string
		others  balance.Others
		err     string
	}{
		// The one that is gone does not count, nor a1 itself: 14+7 and 49−7−14−7.
		{"a fleet", say(200, fleetStatistics), 0, registryRead, balance.Others{Agents: 2, Pending: 21, Unclaimed: 21,
			Capacity: 12}, ""},
		{"an empty fleet", say(200, `{"agents": [], "global_queue_depth": 5}`), 0, registryRead, balance.Others{Unclaimed: 5},
			""},
		// BALANCING's registry has no states.
		{"BALANCING's",
			say(200,
				`{"agents":[{"agent_id":"b","capacity_items_per_second":28.5,"pending_items":40}],"total_capacity":28.5,`+
					`"global_queue_depth":100}`),
			0, registryRead, balance.Others{Agents: 1, Pending: 40, Unclaimed: 60, Capacity: 28.5}, ""},
		{"numbers that cannot be", say(200,
			`{"agents":[{"agent_id":"b","capacity_items_per_second":-1,"pending_items":-40}],"global_queue_depth":-1}`),
			0, registryRead, balance.Others{Agents: 1}, ""},
		{"broken", say(500, secret), 0, registryRefused, balance.Others{},
			"it answers 500 Internal Server Error: is that a coordinator?"},
		{"a standby", say(503, secret), 0, registryRefused, balance.Others{},
			"it answers 503: it does not know the fleet, as while it does not lead"},
		{"something else", say(404, secret), 0, registryRefused, balance.Others{},
			"it answers 404 Not Found: is that a coordinator?"},
		{"garbage", say(200, "<html>"+secret), 0, registryInvalid, balance.Others{},
			"its answer is not a coordinator's /agents/stats: no JSON, or of other types"},
		{"other types", say(200, `{"agents": "`+secret+`", "global_queue_depth": 5}`), 0, registryInvalid, balance.Others{},
			"its answer is not a coordinator's /agents/stats: no JSON, or of other types"},
		{"other JSON", say(200, `{"status": "`+secret+`"}`), 0, registryInvalid, balance.Others{},
			"its answer is not a coordinator's /agents/stats: it lacks agents or global_queue_depth"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := []byte(strings.Repeat(" ", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, 0, registryInvalid, balance.Others{}, "its answer has more than 16777216 bytes"},
		{"slow", hang, 50 * time.Millisecond, registryTimeout, balance.Others{}, "context deadline exceeded"},
		{"slow in the middle", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"agents": [`)
			w.(http.Flusher).Flush()
			hang(w, r)
		}, 50 * time.Millisecond, registryTimeout, balance.Others{}, "context deadline exceeded"},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, registryUnreachable,
			balance.Others{}, "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path+" close: "+strconv.FormatBool(r.Close))
				tt.serve(w, r)
			}))
			g := testRegistry(t, server.URL+"/fleet/?token="+secret, tt.timeout)
			got := g.read(context.Background())
			server.Close() // nothing is asked any more
			if got.outcome != tt.outcome || got.others != tt.others {
				t.Errorf("%s %+v, want %s %+v", got.outcome, got.others, tt.outcome, tt.others)
			}
			if text := fmt.Sprint(got.err); tt.err == "" && got.err != nil || tt.err != "" && text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
			if len(asked) != 1 || asked[0] != "GET /fleet/agents/stats close: true" {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

// testRegistry is that of a1; timeout 0 is as long as a test may take.
func testRegistry(t *testing.T, url string, timeout time.Duration) *registry {
	t.Helper()
	if timeout == 0 {
		timeout = time.Minute
	}
	g, err := newRegistry(balance.Registry{URL: url}, "a1", timeout, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A redirect is not followed: the answer does not choose what else is asked.
func TestRegistryRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/?token=s3cr3t", http.StatusTemporaryRedirect))
	defer server.Close()
	got := testRegistry(t, server.URL, 0).read(context.Background())
	if want := "it redirects (307): give the address to which it does"; got.outcome != registryRefused ||
		fmt.Sprint(got.err) != want {
		t.Errorf("%s %v, want %s %s", got.outcome, got.err, registryRefused, want)
	}
}

// No listener; a certificate without a known authority.
func TestRegistryUnreachable(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	unsigned := httptest.NewUnstartedServer(say(200, fleetStatistics))
	unsigned.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that hangs up
	unsigned.StartTLS()
	defer unsigned.Close()
	for url, want := range map[string]string{closed.URL: "connection refused", unsigned.URL: "certificate"} {
		got := testRegistry(t, url+"/?token=s3cr3t", 0).read(context.Background())
		if text := fmt.Sprint(got.err); got.outcome != registryUnreachable || !strings.Contains(text, want) ||
			strings.Contains(text, "s3cr3t") {
			t.Errorf("%s %q, want %s with %q", got.outcome, text, registryUnreachable, want)
		}
	}
}

// While a reading has not been taken no other begins, nor without a registry.
func TestOneReadingAtATime(t *testing.T) {
	asked := make(chan struct{}, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		_, _ = io.WriteString(w, fleetStatistics)
	}))
	defer server.Close()
	o := newLookout(testRegistry(t, server.URL, 0))
	for want := 1; want <= 2; want++ {
		for range 3 {
			o.begin(context.Background())
			o.reads.Wait()
		}
		if len(asked) != want {
			t.Errorf("asked %d times, want %d", len(asked), want)
		}
		if r, ended := o.take(); !ended || r.outcome != registryRead {
			t.Errorf("took %+v, %v", r, ended)
		}
		if r, ended := o.take(); ended {
			t.Errorf("took %+v twice", r)
		}
	}
	none := newLookout(nil)
	none.begin(context.Background())
	if r, ended := none.take(); ended || none.open {
		t.Errorf("without a registry: %+v", r)
	}
}

// No URL, no registry.
func TestRegistryWithoutURL(t *testing.T) {
	g, err := newRegistry(balance.Registry{}, "a1", time.Second, nil)
	if g != nil || err != nil {
		t.Errorf("%v %v, want none", g, err)
	}
}
