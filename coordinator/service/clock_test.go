package service

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/clock"
)

const fortyDays = 40 * 24 * time.Hour

// on is a coordinator on the same broker with a clock that differs by so much.
func (r *rig) on(by time.Duration) *rig {
	r.t.Helper()
	return r.onClock(func() time.Time { return time.Now().Add(by) })
}

func (r *rig) onClock(now func() time.Time) *rig {
	r.t.Helper()
	next := newRig(r.t, fleet)
	next.broker = r.broker
	o := next.service.options
	o.Bus, o.Registry, o.Now = r.broker, prometheus.NewRegistry(), now
	var err error
	if next.service, err = New(o); err != nil {
		r.t.Fatal(err)
	}
	next.start()
	return next
}

// heartbeatOf is one of an agent with a clock that differs by so much.
func (r *rig) heartbeatOf(agent string, by time.Duration) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0.0,"active_tasks":0,`+
			`"available_capacity":1,"timestamp":%q}`,
		agent, time.Now().Add(by).Format(time.RFC3339Nano)))
}

// leads tells which epoch the coordinator leads in; 0: it does not.
func (r *rig) leads() uint64 {
	r.t.Helper()
	st := r.status()
	if st.Leader == nil || !r.service.Ready(r.t.Context()).Ready {
		return 0
	}
	return uint64(st.Leader.Epoch)
}

// TestWrongClockDoesNotLead: the broker knows better than the clock of a machine, if most agents do not
// take its part: nothing is written by it, and another coordinator leads. It needs no agents for that and
// no journal, and hours are enough: a day's budget would be another's.
func TestWrongClockDoesNotLead(t *testing.T) {
	for _, by := range []time.Duration{fortyDays, -fortyDays, 3 * time.Hour, -3 * time.Hour, 11 * time.Minute} {
		for _, c := range []struct {
			name   string
			before bool // another has led
			agents int
		}{
			{"a journal and agents", true, 2},
			{"a journal", true, 0},
			{"agents", false, 2},
			{"nothing", false, 0},
		} {
			t.Run(fmt.Sprintf("%v, %s", by, c.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := newRig(t, fleet)
					if c.before {
						first.start()
						first.pass(time.Second)
						first.close()
					}
					wrong := first.on(by)
					for i := range c.agents {
						wrong.heartbeat(fmt.Sprintf("a%d", i+1), 0)
					}
					written := len(first.broker.Messages(bus.StreamJournal))
					wrong.pass(20 * time.Second)
					ready := wrong.service.Ready(t.Context())
					for range 20 { // it may just be trying again
						if strings.Contains(ready.Detail, "this machine's clock is ") {
							break
						}
						wrong.pass(time.Second)
						ready = wrong.service.Ready(t.Context())
					}
					if wrong.leads() != 0 || !strings.Contains(ready.Detail, "this machine's clock is ") ||
						!strings.Contains(wrong.log.String(), ready.Detail) {
						t.Errorf("%+v; the log: %s", ready, wrong.log)
					}
					if n := len(first.broker.Messages(bus.StreamJournal)); n != written {
						t.Errorf("the journal has %d messages, it had %d", n, written)
					}
					wrong.close()

					right := first.on(0)
					right.pass(time.Second)
					if right.leads() == 0 {
						t.Errorf("with the right clock: %+v", right.service.Ready(t.Context()))
					}
					right.close()
				})
			})
		}
	}
}

// TestBrokerClockWrong: a coordinator that agrees with most agents leads, and says what is wrong.
func TestBrokerClockWrong(t *testing.T) {
	for _, by := range []time.Duration{fortyDays, -3 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, fleet).on(by)
			r.heartbeatOf("a1", by)
			r.heartbeatOf("a2", by+time.Minute)
			r.pass(20 * time.Second)
			if r.leads() == 0 || !strings.Contains(r.log.String(), "the broker's clock is wrong") {
				t.Errorf("%+v; the log: %s", r.service.Ready(t.Context()), r.log)
			}
			r.close()
		})
	}
}

// TestClockTurnsWrong: a leader that has its clock set wrong leaves the lead before it is farther off than
// budgets wait for; until then nothing is amiss.
func TestClockTurnsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := newRig(t, fleet).onClock(func() time.Time { // as clock.Steady follows a time of day that is far ahead
			return time.Now().Add(time.Since(start) / clock.Slewing)
		})
		r.pass(time.Hour)
		if r.leads() != 1 {
			t.Fatalf("after an hour: %+v", r.service.Ready(t.Context()))
		}
		r.pass(time.Hour)
		if r.leads() != 0 || !strings.Contains(r.log.String(),
			"this machine's clock is ahead of the broker's by about 11m0s") {
			t.Errorf("after two: %+v; the log: %s", r.service.Ready(t.Context()), r.log)
		}
		r.close()
	})
}

// TestClockNotFarOff: what budgets wait for is no reason not to lead.
func TestClockNotFarOff(t *testing.T) {
	for _, by := range []time.Duration{9 * time.Minute, -9 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, fleet).on(by)
			r.pass(time.Hour)
			if r.leads() != 1 {
				t.Errorf("%v: %+v", by, r.service.Ready(t.Context()))
			}
			r.close()
		})
	}
}

// TestLongSilence: after forty days without a coordinator the next one leads.
func TestLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		first.task("t-1", "build", "")
		first.close()
		time.Sleep(fortyDays)
		next := first.on(0)
		next.pass(5 * time.Second)
		if next.leads() != 2 {
			t.Errorf("%+v; the log: %s", next.service.Ready(t.Context()), next.log)
		}
		next.close()
	})
}
