package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// report is what an agent puts.
func (r *rig) report(agent string, capacity float64, pending int) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.service.ReportCapacity(ctx, agent, httpapi.CapacityReport{Capacity: capacity, Pending: pending})
	synctest.Wait()
	return err
}

// relays are the statuses that coordinators have published.
func (r *rig) relays() (found []message) {
	r.t.Helper()
	for _, m := range r.in(bus.StreamStatus) {
		if m.fields["relayed"] == true {
			found = append(found, m)
		}
	}
	return found
}

func (r *rig) info(agent string) view.AgentInfo {
	r.t.Helper()
	s, err := r.service.AgentStats(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range s.Agents {
		if a.ID == agent {
			return a
		}
	}
	r.t.Fatalf("no agent %s in the statistics", agent)
	return view.AgentInfo{}
}

// What an agent reports over HTTP is in the stream for all readers, and counts here.
func TestReportedCapacityIsRelayed(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 1)
		if err := r.report("a1", 8.5, 12); err != nil {
			t.Fatal(err)
		}
		all := r.relays()
		if len(all) != 1 {
			t.Fatalf("%d statuses relayed, want 1", len(all))
		}
		for field, want := range map[string]any{
			"message_type": "agent.status", "agent_id": "a1", "status": "ready", "capacity_items_per_second": 8.5,
			"pending_items": 12.0,
			"active_tasks":  1.0, "available_capacity": 0.0, // 12 items pending, one slot
		} {
			if got := all[0].fields[field]; got != want {
				t.Errorf("%s = %v, want %v", field, got, want)
			}
		}
		if all[0].Type != "agent.status" || all[0].AppID != "taskbus" {
			t.Errorf("properties %+v", all[0].Properties)
		}
		if a := r.info("a1"); a.Capacity != 8.5 || !a.CapacityReported || a.Pending != 12 { // 12 / 8.5 = 1.41 s
			t.Errorf("what counts: %+v", a)
		}
		if st := r.status().Counters; st.StatusReceived != 2 || st.StatusRefused["invalid"] != 0 {
			t.Errorf("statuses received %d, refused %v", st.StatusReceived, st.StatusRefused)
		}
	})
}

// An agent that reports over HTTP alone is online, and nothing pending gives its
// slot free.
func TestAgentThatOnlyReportsCapacity(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if err := r.report("a1", 2, 0); err != nil {
			t.Fatal(err)
		}
		if a := r.agent("a1"); a.State != "online" || a.Status != "ready" || !a.Eligible {
			t.Errorf("after its report: %+v", a)
		}
		r.task("t-1", "build", "")
		r.only("agent.a1")
		r.pass(10 * time.Second)
		if err := r.report("a1", 2, 1); err != nil {
			t.Fatal(err)
		}
		if a := r.agent("a1"); a.FreeSlots != 0 {
			t.Errorf("with an item pending: %+v", a)
		}
		r.pass(10 * time.Second)
		if err := r.report("a1", 2, 0); err != nil {
			t.Fatal(err)
		}
		if a := r.agent("a1"); a.FreeSlots != 1 {
			t.Errorf("with nothing pending: %+v", a)
		}
	})
}

// A mad agent does not flood the stream; others are not held up by it.
func TestReportsAreLimitedByAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if err := r.report("a1", 1, 1); err != nil {
			t.Fatal(err)
		}
		r.pass(300 * time.Millisecond)
		var soon *httpapi.TooSoon
		if err := r.report("a1", 1, 2); !errors.As(err, &soon) || soon.Wait != 700*time.Millisecond {
			t.Errorf("after 300 ms: %v, want to wait the other 700", err)
		}
		if err := r.report("a2", 1, 1); err != nil {
			t.Errorf("another agent: %v", err)
		}
		r.pass(700 * time.Millisecond)
		if err := r.report("a1", 1, 3); err != nil {
			t.Errorf("after a second: %v", err)
		}
		if n := len(r.relays()); n != 3 {
			t.Errorf("%d statuses relayed, want 3", n)
		}
	})
}

func TestReportOfAStranger(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if err := r.report("a9", 1, 1); !isNoAgent(err) {
			t.Errorf("%v, want ErrNoAgent", err)
		}
		if n := len(r.relays()); n != 0 {
			t.Errorf("%d statuses relayed", n)
		}
	})
}

// An agent that does not know its capacity any more takes back what it reported.
func TestReportedCapacityIsTakenBack(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		for i, c := range []struct {
			capacity float64
			reported bool
		}{{8.5, true}, {0, false}} {
			r.pass(time.Second)
			if err := r.report("a1", c.capacity, 0); err != nil {
				t.Fatal(err)
			}
			if got, given := r.relays()[i].fields["capacity_items_per_second"]; got != c.capacity || !given {
				t.Errorf("relayed %v, want %v", got, c.capacity)
			}
			if a := r.info("a1"); a.CapacityReported != c.reported {
				t.Errorf("after %v: %+v", c.capacity, a)
			}
		}
	})
}

// A coordinator that cannot publish says why, and which one can: nothing is lost in silence.
func TestReportWithoutSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		second := newRig(t, fleet)
		second.broker = first.broker
		second.service.options.Bus = first.broker
		second.start()
		if err := second.report("a1", 1, 1); err != nil {
			t.Errorf("the one that stands by publishes it as well: %v", err)
		}
		first.pass(10 * time.Second)
		// What the first was told the second knows.
		if err := first.report("a1", 7, 3); err != nil {
			t.Fatal(err)
		}
		first.close()
		second.pass(2 * time.Second)
		if a := second.info("a1"); a.Capacity != 7 || a.Pending != 3 || a.State != "online" {
			t.Errorf("after the take-over: %+v", a)
		}
		second.close()
	})
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		synctest.Wait()
		if err := r.report("a1", 1, 1); err == nil || !strings.Contains(err.Error(), "no session with the broker") {
			t.Errorf("without a session: %v", err)
		}
		r.broker.SetOpenError(nil)
		r.pass(20 * time.Second)
		r.connect()
	})
}

// The answer waits for the broker's, and for no longer than the caller.
func TestReportWaitsForTheConfirm(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply membus.Reply
		says  string // empty: confirmed
	}{
		{"confirmed", membus.Answer, ""},
		{"refused", membus.Nack, "rejected"},
		{"no answer", membus.Withhold, "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				r.heartbeat("a1", 0)
				r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
					if p.Key == bus.StreamStatus && strings.Contains(string(p.Body), "relayed") {
						return c.reply
					}
					return membus.Answer
				})
				err := r.report("a1", 1, 1)
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				r.broker.ReleaseConfirms()
			})
		})
	}
	// The session ends while a request waits.
	inRig(t, fleet, func(r *rig) {
		r.broker.SetConfirm(func(bus.Publication) membus.Reply { return membus.Withhold })
		answer := make(chan error, 1)
		go func() {
			answer <- r.service.ReportCapacity(context.Background(), "a1", httpapi.CapacityReport{Capacity: 1})
		}()
		synctest.Wait()
		r.broker.Cut()
		synctest.Wait()
		if err := <-answer; err == nil || !strings.Contains(err.Error(), "unknown") &&
			!strings.Contains(err.Error(), "session ended") {
			t.Errorf("%v, want the end of the session", err)
		}
		r.broker.SetConfirm(nil)
		r.pass(20 * time.Second)
		r.connect()
	})
}

// With agents.auth: strict a relayed status counts only from the coordinator's own
// user: an agent that claims to be relayed is not used.
func TestSenderOfARelayedStatusIsChecked(t *testing.T) {
	for _, c := range []struct {
		mode, user string
		counts     bool
	}{
		{"off", "", true}, {"off", "a1", true},
		{"warn", "taskbus", true}, {"warn", "a1", true}, {"warn", "", true},
		{"strict", "taskbus", true}, {"strict", "a1", false}, {"strict", "mallory", false}, {"strict", "", false},
	} {
		t.Run(c.mode+" "+c.user, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+c.mode+"\n", 1))
				r.broker.SetUser("taskbus")
				r.start()
				defer r.close()
				r.others = append(r.others, r.outside)
				r.broker.SetUser("") // outside are many
				r.connect()
				r.publish(bus.StreamStatus,
					`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,`+
						`"available_capacity":1,"timestamp":"2026-03-01T12:00:00Z","capacity_items_per_second":99,"pending_items":1,`+
						`"relayed":true}`,
					func(p *bus.Properties) { p.UserID = c.user })
				if counts := r.info("a1").State == "online"; counts != c.counts {
					t.Errorf("counts: %v, want %v", counts, c.counts)
				}
				wrong := c.user != "taskbus" && c.mode != "off"
				if n := r.status().Counters.StatusRefused["wrong_sender"]; n > 0 != wrong {
					t.Errorf("%d wrong senders counted", n)
				}
				if said := strings.Contains(r.log.String(), "relayed status"); said != wrong {
					t.Errorf("the log:\n%s", r.log)
				}
			})
		})
	}
}

// What the coordinator relays itself passes its own check, and where it could not pass the answer does not
// say that it was done.
func TestRelayUnderStrict(t *testing.T) {
	for _, c := range []struct {
		user string
		says string
	}{{"taskbus", ""}, {"", "agents.auth is strict"}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: strict\n", 1))
			r.broker.SetUser(c.user)
			r.start()
			defer r.close()
			err := r.report("a1", 4, 0)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if a := r.info("a1"); err != nil || a.State != "online" || a.Capacity != 4 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
}
