package engine_test

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// TestLeasesStandWhilePublishingIsHeld: in an alarm no agent can tell how its tasks have
// ended. Their time goes on when it is over, and not before what was kept back could be heard.
func TestLeasesStandWhilePublishingIsHeld(t *testing.T) {
	start := func(t *testing.T, timeout time.Duration) *rig {
		r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		r.give(lasting("t", timeout))
		r.pass(5 * time.Second)
		r.apply(coordinator.PublishingHeld{Held: true})
		want(t, r.pass(100*time.Second))
		want(t, r.apply(coordinator.PublishingHeld{}))
		return r
	}
	t.Run("it has finished", func(t *testing.T) {
		r := start(t, 20*time.Second)
		r.pass(time.Second)
		want(t, r.tell(says("a", "t")), "completed t.1 a succeeded")
	})
	t.Run("it hangs", func(t *testing.T) {
		r := start(t, 20*time.Second) // 16 s were left: less than agents have to tell
		want(t, r.pass(interval-1))
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	})
	// as it may have before the alarm: what it says next is behind that
	t.Run("it says that it works on it", func(t *testing.T) {
		r := start(t, 20*time.Second)
		r.hear(beat("a").running("t"))
		want(t, r.pass(interval-1))
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	})
	t.Run("it has time", func(t *testing.T) {
		r := start(t, 100*time.Second)
		r.hear(beat("a").running())
		want(t, r.pass(96*time.Second-1))
		want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	})
}

// TestLeasesStandWithoutASession: what is left of a lease when the session is lost is left
// when it is back, whether the same engine goes on or another that has folded what it did.
func TestLeasesStandWithoutASession(t *testing.T) {
	for name, back := range map[string]func(r *rig, lost time.Time) []string{
		"the same engine": func(r *rig, _ time.Time) []string { return r.apply(coordinator.SessionOpened{}) },
		"the shell says so": func(r *rig, lost time.Time) []string {
			r.ForgetLoss() // as in an engine that has only folded
			return r.apply(coordinator.SessionOpened{Lost: lost, Connected: r.now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
			r.give(lasting("t", 100*time.Second))
			r.pass(40 * time.Second)
			lost := r.now
			r.apply(coordinator.SessionLost{})
			want(t, r.pass(200*time.Second))
			back(r, lost)
			r.hear(beat("a").running())
			want(t, r.pass(61*time.Second-1))
			want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
		})
	}
}

// TestNobodyFallsSilentInAnAlarm: heartbeats cannot be published either.
func TestNobodyFallsSilentInAnAlarm(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.SuspectIntervals = 2 }))
	r.pass(time.Second)
	r.apply(coordinator.PublishingHeld{Held: true})
	want(t, r.pass(3*staleAfter))
	want(t, r.apply(coordinator.PublishingHeld{}))
	want(t, r.pass(interval-1))
	want(t, r.pass(1), "agent a stale", "take back agent.a")
}

// TestResumedLeaseStandsInAnAlarm: a dispatch that its agent works on is sent to it again, and
// confirmed only when an alarm is over. The time of the alarm is not taken from the agent.
func TestResumedLeaseStandsInAnAlarm(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	d := r.give(lasting("t", 100*time.Second))
	r.pass(40 * time.Second)
	r.hear(beat("a").running()) // it waits in the queue yet: its 101 s begin
	r.hear(beat("a").running("t"))
	want(t, r.returns(d, coordinator.ReturnDeliveryLimit, false), "dispatch t.1 a again?")
	r.apply(coordinator.PublishingHeld{Held: true})
	want(t, r.pass(200*time.Second))
	want(t, r.apply(coordinator.PublishingHeld{}))
	r.confirm(r.last)
	want(t, r.pass(101*time.Second-1))
	want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
}

// TestNobodyFallsSilentWhenAnAlarmEndsWithTheSession: an alarm often ends because the node is started
// again. Agents have the time to say that they are there.
func TestNobodyFallsSilentWhenAnAlarmEndsWithTheSession(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.apply(coordinator.PublishingHeld{Held: true})
	want(t, r.pass(3*staleAfter))
	want(t, r.apply(coordinator.SessionLost{}))
	want(t, r.pass(interval-1))
	want(t, r.pass(1), "agent a stale")
}

// TestSuspectedBeforeAnAlarm: an agent that was silent for a while when an alarm began is awaited
// afterwards, and has what waits for it at once.
func TestSuspectedBeforeAnAlarm(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.SuspectIntervals = 1 }))
	r.pass(interval)
	want(t, r.assign(job("t")))
	r.apply(coordinator.PublishingHeld{Held: true})
	want(t, r.pass(5*time.Second))
	want(t, r.apply(coordinator.PublishingHeld{}), "dispatch t.1 a")
}
