package service

import (
	"fmt"
	"testing"
	"time"
)

// TestKilledWhileIdleGetsNothing: an agent that is killed while it has nothing to do is gone
// within five seconds, and gets nothing from then on; the same when the coordinator was started
// anew in between.
func TestKilledWhileIdleGetsNothing(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "and the coordinator is started anew": true} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				a1 := r.worker("a1", true)
				r.pass(2 * time.Second)
				if restart {
					a1.vanish()
					r.broker.Cut()
					r.pass(backoffMax + time.Second)
					r.connect()
					r.reportTasks("a1") // sent before, read now
				} else {
					a1.vanish()
					r.pass(5 * time.Second)
				}
				r.task("t-1", "build", "")
				r.pass(2 * time.Second)
				r.empty("agent.a1")
				a2 := r.worker("a2", true)
				r.pass(time.Second)
				if has := a2.has(); len(has) != 1 {
					t.Errorf("a2 has %v, want t-1", has)
				}
				a2.finish("succeeded", "")
			})
		})
	}
}

// until lets virtual time pass until something is so, and tells when that was; not before most is over
// it gives up.
func (r *rig) until(what string, most time.Duration, is func() bool) time.Time {
	r.t.Helper()
	for end := time.Now().Add(most); !is(); r.pass(50 * time.Millisecond) {
		if !time.Now().Before(end) {
			r.t.Fatalf("%s: not within %s; log:\n%s", what, most, r.log)
		}
	}
	return time.Now()
}

// TestSentToAKilledAgent: what is sent to an idle agent between its kill and the moment at which it is
// missed is with another within five seconds of that moment, and the moment comes within five seconds
// of the kill; the same at a coordinator that has taken over, before the kill or after it.
func TestSentToAKilledAgent(t *testing.T) {
	const tasks = 4
	for name, c := range map[string]struct{ before, after bool }{
		"one leads":                 {},
		"killed after a take-over":  {before: true},
		"taken over after the kill": {after: true},
	} {
		for _, idle := range []time.Duration{0, 1700 * time.Millisecond, 2900 * time.Millisecond, 40 * time.Second} {
			t.Run(fmt.Sprintf("%s, idle for %s", name, idle), func(t *testing.T) {
				withStandby(t, wide, func(first, second *rig) {
					a1 := second.worker("a1", true)
					second.pass(10 * time.Second) // the standby knows by then that it has been there
					leader := first
					takeOver := func() {
						first.close()
						leader = second
						second.until("it leads", 2*time.Second, func() bool { return second.status().Readiness.State == stateActive })
					}
					if c.before {
						takeOver()
					}
					leader.pass(idle)
					a1.vanish()
					killed := time.Now()
					for i := range tasks {
						leader.task(fmt.Sprint("t-", i), "build", "")
					}
					if n := len(leader.in("agent.a1")); n != tasks {
						t.Fatalf("%d tasks were sent to a1 that is killed, want %d", n, tasks)
					}
					if c.after {
						takeOver()
					}
					a2 := second.worker("a2", true)
					left := 5*time.Second - time.Since(killed)
					noticed := leader.until("a1 is gone", left, func() bool { return leader.agent("a1").State == "gone" })
					leader.until("a2 has all", 5*time.Second, func() bool { return len(a2.has()) == tasks })
					t.Logf("noticed after %s, with another after %s", noticed.Sub(killed), time.Since(killed))
					if f := leader.status().Counters.Failed; f != 0 {
						t.Errorf("%d tasks failed", f)
					}
					for range tasks {
						a2.finish("succeeded", "")
					}
					if leader == first {
						first.close()
						second.pass(time.Second)
					}
					second.close()
				})
			})
		}
	}
}
