package service

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/bus"
)

// on is a coordinator on the same broker whose clock differs by that.
func (r *rig) on(by time.Duration) *rig {
	r.t.Helper()
	next := newRig(r.t, fleet)
	next.broker = r.broker
	o := next.service.options
	o.Bus, o.Registry, o.Now = r.broker, prometheus.NewRegistry(), func() time.Time { return time.Now().Add(by) }
	var err error
	if next.service, err = New(o); err != nil {
		r.t.Fatal(err)
	}
	next.start()
	return next
}

const fortyDays = 40 * 24 * time.Hour

// TestClockAheadDoesNotLead: the broker and the agents know better than the clock of a machine that is
// ahead by days; nothing is written by it, and another coordinator leads.
func TestClockAheadDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		first.heartbeat("a1", 0)
		first.heartbeat("a2", 0)
		first.task("t-1", "build", "")
		first.pass(time.Second)
		first.close()
		written := len(first.broker.Messages(bus.StreamJournal))

		ahead := first.on(fortyDays)
		ahead.pass(20 * time.Second)
		ready := ahead.service.Ready(t.Context()).Ready
		if ready || !strings.Contains(ahead.log.String(), "this machine's clock is ahead by days") {
			t.Errorf("ready: %t; the log: %s", ready, ahead.log)
		}
		if n := len(first.broker.Messages(bus.StreamJournal)); n != written {
			t.Errorf("the journal has %d messages, it had %d", n, written)
		}
		ahead.close()

		right := first.on(0)
		right.pass(time.Second)
		if st := right.status(); st.Leader == nil || st.Leader.Epoch != 2 {
			t.Errorf("the leader is %+v", st.Leader)
		}
		right.close()
	})
}

// TestClockBehindBefore: a leader whose clock was behind has written a journal that looks old. Whose
// agents agree leads.
func TestClockBehindBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		behind := first.on(-fortyDays)
		behind.task("t-1", "build", "")
		behind.heartbeat("a1", 0)
		behind.pass(time.Second)
		behind.close()

		right := first.on(0)
		right.pass(5 * time.Second)
		if st := right.status(); st.Leader == nil || st.Leader.Epoch != 2 || !strings.Contains(right.log.String(), "may have had a clock that was behind") {
			t.Errorf("the leader is %+v; the log: %s", st.Leader, right.log)
		}
		right.close()
	})
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
		if st := next.status(); st.Leader == nil || st.Leader.Epoch != 2 {
			t.Errorf("the leader is %+v; the log: %s", st.Leader, next.log)
		}
		next.close()
	})
}
