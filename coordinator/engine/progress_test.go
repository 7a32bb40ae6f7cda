package engine_test

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// reports applies a report of progress; dispatchID may be empty.
func (r *rig) reports(agent coordinator.AgentID, task coordinator.TaskID, dispatchID string) []string {
	return r.apply(coordinator.ProgressReported{Progress: &coordinator.Progress{
		Agent: agent, Task: task, DispatchID: dispatchID,
	}})
}

// TestProgressRenewsTheLease: a task may take 10 s, and a second for the agent's word; one that reports progress every
// 8 s goes on for as long as it does: here for 800 s. Then it has 11 s again, and the failure says since when.
func TestProgressRenewsTheLease(t *testing.T) {
	r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.give(lasting("t", 10*time.Second))
	for range 100 {
		want(t, r.pass(8*time.Second))
		want(t, r.reports("a", "t", "t.1"), "progress of t by a")
	}
	want(t, r.pass(11*time.Second-1))
	want(t, r.pass(1), "fail t task_timeout", "withdraw t.1 a")
	if text := r.failures[0].Failure.Text; !strings.Contains(text, "have passed since it last reported progress") {
		t.Error(text)
	}
	want(t, r.reports("a", "t", "t.1"), "progress of t by a: late")
}

// TestProgressNeverShortensALease: after an alarm it may have more time than a new one.
func TestProgressNeverShortensALease(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.give(lasting("t", 10*time.Second))
	r.apply(coordinator.PublishingHeld{Held: true})
	r.pass(5 * time.Second)
	r.apply(coordinator.PublishingHeld{})
	before := r.OpenTask("t").Deadline()
	r.reports("a", "t", "")
	if after := r.OpenTask("t").Deadline(); after.Before(before) || after.Before(r.now.Add(11*time.Second)) {
		t.Errorf("the deadline was %v and is %v; it is %v", before, after, r.now)
	}
}

// TestProgressCounts for the dispatch that its agent has, and for no other.
func TestProgressCounts(t *testing.T) {
	r := ready(t, policyOf(worker("a"), worker("b")))
	want(t, r.reports("a", "t", ""), "progress of t by a: unknown")
	d := r.give(job("t").prefers("a"))
	want(t, r.reports("a", "t", ""), "progress of t by a")
	want(t, r.reports("a", "t", "t.1"), "progress of t by a")
	want(t, r.reports("a", "t", "t.2"), "progress of t by a: wrong_agent")
	want(t, r.reports("a", "t", "other.1"), "progress of t by a: unknown")
	want(t, r.reports("b", "t", ""), "progress of t by b: wrong_agent")
	want(t, r.reports("c", "t", ""), "progress of t by c: wrong_agent")
	r.returns(d, coordinator.ReturnRejected, false)
	want(t, r.reports("a", "t", "t.1"), "progress of t by a: late")
	r.pass(time.Minute) // the back-off
	r.confirm(r.latest().Handle)
	want(t, r.reports("a", "t", "t.1"), "progress of t by a: late")
	want(t, r.reports("b", "t", "t.2"), "progress of t by b")
	r.tell(says("b", "t"))
	want(t, r.reports("b", "t", "t.2"), "progress of t by b: late")
}

// TestProgressOfOneThatIsToStop is told, and gives it no more time.
func TestProgressOfOneThatIsToStop(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.give(lasting("t", 10*time.Second))
	r.withdraw("t")
	before := r.OpenTask("t").Deadline()
	r.pass(5 * time.Second)
	want(t, r.reports("a", "t", "t.1"), "progress of t by a")
	if after := r.OpenTask("t").Deadline(); !after.Equal(before) {
		t.Errorf("the deadline was %v and is %v", before, after)
	}
}

// TestProgressOverATakeover: what follows the leader, by its records or by a snapshot, knows no earlier deadline than
// it does, though it writes only now and then: of 80 s in which progress is reported 5 times a second every 80 s / 8 =
// 10 s, from the first on; and never more often than each second.
func TestProgressOverATakeover(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		records int
	}{{80 * time.Second, 8}, {2 * time.Second, 80}} {
		r := leads(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		r.give(lasting("t", c.timeout))
		journal, renewals := r.Records(nil), 0
		for range 400 {
			want(t, r.reports("a", "t", "t.1"), "progress of t by a")
			for _, rec := range r.Records(nil) {
				if _, is := rec.(*coordinator.Renewed); is {
					renewals++
				}
				journal = append(journal, rec)
			}
			r.pass(200 * time.Millisecond)
			deadline := r.OpenTask("t").Deadline()
			for name, records := range map[string][]coordinator.Record{"records": journal, "a snapshot": r.imaged()} {
				got := r.follower(r.now, records).OpenTask("t").Deadline()
				if late := got.Sub(deadline); late < 0 || late > max(time.Second, c.timeout/8) {
					t.Fatalf("by %s its deadline is %v, the leader's %v", name, got, deadline)
				}
			}
		}
		if renewals != c.records {
			t.Errorf("%v: %d renewals were written, want %d", c.timeout, renewals, c.records)
		}
	}
}
