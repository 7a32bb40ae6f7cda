package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent"
	"taskbus/agent/balance"
	"taskbus/messages"
)

// pipes is a network of pipes: what waits in it lets virtual time pass.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// withRegistry is a1's configuration with a registry that answers so; stop ends it.
func (r *rig) withRegistry(pull *balance.Config, serve http.HandlerFunc) (c agent.Config, stop func()) {
	r.t.Helper()
	network := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: serve}
	served := make(chan error, 1)
	go func() { served <- server.Serve(network) }()
	c = r.config()
	c.Slots, c.Pull = 50, pull
	c.Pull.Registry.URL = "http://registry.example:8090/?token=s3cr3t"
	c.DialRegistry(network.dial)
	return c, func() {
		_ = server.Close()
		if err := <-served; err != http.ErrServerClosed {
			r.t.Error(err)
		}
	}
}

// One other agent, hardly of any capacity, and 30 items that no agent holds.
const plentyToDo = `{"agents": [{"agent_id": "a2", "state": "online", "capacity_items_per_second": 0.001, ` +
	`"pending_items": 0}], "global_queue_depth": 30}`

// Without answers the agent goes by what the registry says, while that is younger than
// 30 s, and then blindly; what it says is no answer.
func TestUnansweredClaimsGoByTheRegistry(t *testing.T) {
	inRig(t, func(r *rig) {
		var broken atomic.Bool
		pull := pullConfig(balance.ModeEqual, true)
		pull.LoadBalancing.CapacityWindowSize = 1 // one task ends the warm-up
		c, stop := r.withRegistry(pull, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path != "/agents/stats" || q.Header.Get("Authorization") != "" {
				t.Errorf("asked for %s with %v", q.URL, q.Header)
			}
			if broken.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, plentyToDo)
		})
		defer stop()
		registry := prometheus.NewRegistry()
		c.Metrics = registry
		r.runWith(c, work(2*time.Second))
		r.give("t") // so that the first claim waits 5 s for its answer; the others, idle, 15 s
		claims := 0
		expect := func(items int) request[*messages.TaskClaim] {
			t.Helper()
			claims++
			claim := r.awaitClaim(claims, 15*time.Second+balance.MinInterval)
			if claim.said.MaxItems != items {
				t.Errorf("claim %d asks for %d, want %d", claims, claim.said.MaxItems, items)
			}
			return claim
		}
		expect(1) // nothing is known
		// 1 item in 2 s of which the weight halves in each: (1+1)/(2+1.082) = 0.649 items/s.
		// 30 s of that are 19 items of the 30, and half of them without an answer 10.
		expect(10)
		expect(10)
		broken.Store(true) // the last reading that succeeds was begun at the end of the second claim
		expect(10)         // 15.2 s old
		last := expect(1)  // 30.6 s: blind
		r.expectLog("the registry tells of the fleet", 1)
		r.expectLog("the registry does not tell of the fleet either", 1)
		r.expectLog("registry=registry.example:8090", 2)
		got := values(t, registry)
		for name, want := range map[string]float64{
			"taskbus_agent_registry_reads_total read":                 2,
			"taskbus_agent_registry_reads_total refused":              2,
			"taskbus_agent_registry_reads_total timeout":              0,
			"taskbus_agent_registry_reads_total unreachable":          0,
			"taskbus_agent_registry_reads_total invalid":              0,
			"taskbus_agent_claims_total unanswered":                   4,
			"taskbus_agent_claims_total empty":                        0,
			"taskbus_agent_load_balancing_load_factor":                4, // all but the first
			"taskbus_agent_load_balancing_current_load_factor":        0,
			"taskbus_agent_load_balancing_target_drain_seconds":       0, // the leader has said nothing
			"taskbus_agent_load_balancing_discovery_total":            5,
			"taskbus_agent_load_balancing_current_queue_depth":        0,
			"taskbus_agent_claimed_items_total":                       0,
			"taskbus_agent_load_balancing_queue_depth":                5,
			"taskbus_agent_load_balancing_discovery_interval_seconds": 5,
		} {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s is %v (there: %v), want %v", name, value, there, want)
			}
		}
		// An answer ends it, and the next silence is told anew.
		r.grant(last.said.ClaimID, 0, 3)
		expect(3)
		expect(2) // ⌈0.5·3⌉ by the leader's picture, and the registry is asked again
		r.expectLog("the registry does not tell of the fleet either", 2)
		r.expectLog("s3cr3t", 0)
	})
}

// A registry that does not answer holds up nothing: claims come as without it, but for the
// 200 ms in which it might have, one reading at a time; and the agent can leave.
func TestSlowRegistryHoldsUpNothing(t *testing.T) {
	inRig(t, func(r *rig) {
		var open, most, all atomic.Int32
		pull := pullConfig(balance.ModeLiteral, true)
		pull.Registry.ConnectionTimeoutMS = 2000
		c, stop := r.withRegistry(pull, func(_ http.ResponseWriter, q *http.Request) {
			all.Add(1)
			most.Store(max(most.Load(), open.Add(1)))
			<-q.Context().Done()
			open.Add(-1)
		})
		defer stop()
		a := r.runWith(c, nothing)
		var before time.Time
		for n := 1; n <= 10; n++ {
			claim := r.awaitClaim(n, 3*time.Second)
			// 2 s for the answer, which is more than the interval of 1 s.
			if gap := claim.at.Sub(before); n > 1 && gap != 2*time.Second+balance.MinInterval && gap != 2*time.Second {
				t.Errorf("claim %d comes %v after the one before", n, gap)
			}
			before = claim.at
		}
		if most.Load() != 1 || all.Load() > 9 {
			t.Errorf("%d readings at a time, %d for 9 claims without an answer", most.Load(), all.Load())
		}
		r.expectLog("the registry does not tell of the fleet either", 1)
		r.pass(2*time.Second + balance.MinInterval/2) // the tenth is not answered either
		left := time.Now()
		a.stop()
		if err := <-a.done; err != nil || time.Since(left) > 0 {
			t.Errorf("Run returned %v after %v", err, time.Since(left))
		}
		a.done <- nil // for the rig
		r.expectLog("s3cr3t", 0)
	})
}

// The registry is for silence: neither while claims are answered nor where nothing it says
// would be used is it asked.
func TestRegistryIsNotAskedInVain(t *testing.T) {
	for _, tt := range []struct {
		name             string
		mode             string
		enabled, answers bool
	}{{"answers", balance.ModeEqual, true, true}, {"answers to literal", balance.ModeLiteral, true, true},
		{"switched off", balance.ModeEqual, false, false}} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				c, stop := r.withRegistry(pullConfig(tt.mode, tt.enabled), func(_ http.ResponseWriter, q *http.Request) {
					t.Error("asked for", q.URL.Path)
				})
				defer stop()
				r.runWith(c, nothing)
				for n := 1; n <= 5; n++ {
					claim := r.awaitClaim(n, 12*time.Second)
					if tt.answers {
						r.grant(claim.said.ClaimID, 0, 1)
					}
				}
			})
		})
	}
}

// Whatever a registry says, literal or not, claims go on, each within what is allowed.
func TestClaimsWithAnyRegistry(t *testing.T) {
	for _, mode := range []string{balance.ModeEqual, balance.ModeLiteral, balance.ModeLiteralShare} {
		for i, body := range []string{plentyToDo, `{"agents": [], "global_queue_depth": 0}`, `[]`, ``,
			`{"agents": [{"pending_items": 1e99}], "global_queue_depth": 1}`,
			`{"agents": [{"capacity_items_per_second": 1e308}, {"capacity_items_per_second": 1e308}], "global_queue_depth": ` +
				`9223372036854775807}`} {
			t.Run(fmt.Sprint(mode, i), func(t *testing.T) {
				inRig(t, func(r *rig) {
					c, stop := r.withRegistry(pullConfig(mode, true),
						func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
					defer stop()
					r.runWith(c, nothing)
					for n := 1; n <= 5; n++ {
						// 10 s of waiting and 5 s for the answer, or intervals of 10 s.
						claim := r.awaitClaim(n, 15*time.Second+balance.MinInterval)
						if claim.said.MaxItems < 1 || claim.said.MaxItems > 50 {
							t.Errorf("claims %d", claim.said.MaxItems)
						}
					}
				})
			})
		}
	}
}
