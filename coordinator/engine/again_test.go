package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// GaveBack has the agent of a dispatch give the task back, having begun, with these words; after is how
// long it asks not to be given it again.
func (r *rig) gaveBack(d coordinator.Dispatch, words string, after time.Duration) []string {
	r.t.Helper()
	w := says(d.Agent, d.Task.ID).of(d.DispatchID).gaveUp()
	w.Error, w.RetryAfter = words, after
	return append(r.tell(w), r.returns(d, coordinator.ReturnRejected, false)...)
}

// TestOnlyAgentTriesAgain: where one agent alone can do a task it has the task again, after a longer
// back-off than another agent would, up to max_retry_attempts (3) times. The failure says why.
func TestOnlyAgentTriesAgain(t *testing.T) {
	for name, back := range map[string]func(*rig, coordinator.Dispatch) []string{
		"gives it back": func(r *rig, d coordinator.Dispatch) []string { return r.gaveBack(d, "429 rate limit", 0) },
		"refuses it without an attempt": func(r *rig, d coordinator.Dispatch) []string {
			w := says(d.Agent, d.Task.ID).but(coordinator.OutcomeRejected)
			w.Error = "429 rate limit"
			return append(r.tell(w), r.returns(d, coordinator.ReturnRejected, false)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tracking(t, policyOf(worker("a")))
			d := r.give(job("t"))
			want(t, back(r, d), "given back t.1 a")
			want(t, r.pass(time.Second-1)) // 2 s, of which the lower half is sure
			want(t, r.pass(time.Second+1), "dispatch t.2 a")
			d = r.latest()
			if d.Tries != 1 || !slices.Equal(d.Tried, []coordinator.AgentID{"a"}) {
				t.Errorf("%d tries by %v, want 1 by a", d.Tries, d.Tried)
			}
			r.confirm(d.Handle)
			engine.CheckIndexes(t, r.Engine)
			want(t, back(r, d), "given back t.2 a")
			want(t, r.pass(4*time.Second-1)) // 2 × 4 s, likewise
			want(t, r.pass(4*time.Second+1), "dispatch t.3 a")
			r.confirm(r.latest().Handle)
			want(t, back(r, r.latest()), "given back t.3 a", "fail t retries_exhausted")
			f := r.failures[0].Failure
			for _, part := range []string{"3 dispatches came back (max_retry_attempts: 3), the last one as rejected: a "} {
				if !strings.Contains(f.Text, part) {
					t.Errorf("%q does not have %q", f.Text, part)
				}
			}
			if f.Attempts != 3 || f.Said != "429 rate limit" || strings.Contains(f.Text, "429") ||
				!strings.HasSuffix(f.Full(), `its agent says: "429 rate limit"`) {
				t.Errorf("%d attempts, %q said, full: %q", f.Attempts, f.Said, f.Full())
			}
			engine.CheckIndexes(t, r.Engine)
		})
	}
}

// TestPermanentFailure: what no other try can mend is `failed`, and ends at once.
func TestPermanentFailure(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	r.give(job("t"))
	want(t, r.tell(says("a", "t").but(coordinator.OutcomeFailed)), "completed t.1 a failed")
}

// TestAgentAsksForTime: retry_after_ms is heeded where the same agent is asked again, whether its
// word comes before its message or after it, but not by another agent.
func TestAgentAsksForTime(t *testing.T) {
	const asked = 20 * time.Second
	t.Run("its word first", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		r.gaveBack(r.give(job("t")), "", asked)
		want(t, r.pass(asked-1))
		want(t, r.pass(1), "dispatch t.2 a")
	})
	t.Run("its message first", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		d := r.give(job("t"))
		want(t, r.returns(d, coordinator.ReturnRejected, false))
		w := says("a", "t").of("t.1").gaveUp()
		w.RetryAfter = asked
		want(t, r.tell(w), "given back t.1 a")
		want(t, r.pass(asked-1))
		want(t, r.pass(1), "dispatch t.2 a")
	})
	t.Run("another does not wait for it", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a"), worker("b")))
		r.gaveBack(r.give(job("t").prefers("a")), "", asked)
		want(t, r.pass(engine.BackoffFirst), "dispatch t.2 b")
	})
	t.Run("no longer than half of the time for which the message may be held", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.MaxTimeout = 10 * time.Minute }))
		r.gaveBack(r.give(job("t")), "", time.Hour)
		want(t, r.lives(5*time.Minute-1, beat("a").running()))
		want(t, r.lives(1, beat("a").running()), "dispatch t.2 a")
	})
	t.Run("not beyond the deadline", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		due := job("t")
		due.Deadline = r.now.Add(10 * time.Second)
		r.gaveBack(r.give(due), "", asked)
		want(t, r.pass(10*time.Second), "fail t deadline_exceeded")
	})
}

// TestAnotherGoesFirst: an agent that is there and has not had the task has it before those that
// had it, however busy it is; one that is away is not waited for.
func TestAnotherGoesFirst(t *testing.T) {
	start := func(t *testing.T) (*rig, coordinator.Dispatch) {
		r := tracking(t, policyOf(worker("a"), worker("b")).route("b's", "x"))
		r.install(policyOf(worker("a"), worker("b").can("x")).route("b's", "x"))
		return r, r.give(job("t").prefers("a"))
	}
	t.Run("it is full: it is waited for", func(t *testing.T) {
		r, d := start(t)
		r.give(job("other").kind("b's"))
		r.gaveBack(d, "", 0)
		want(t, r.pass(20*time.Second))
		want(t, r.tell(says("b", "other")), "completed other.1 b succeeded", "dispatch t.2 b")
	})
	t.Run("for as long as a task may wait: then the first has it again", func(t *testing.T) {
		r, d := start(t)
		r.give(job("other").kind("b's"))
		r.gaveBack(d, "", 0)
		want(t, r.lives(29*time.Second, beat("a").running(), beat("b").running("other")))
		// 30 s and the first back-off
		want(t, r.lives(1500*time.Millisecond, beat("a").running(), beat("b").running("other")), "dispatch t.2 a")
	})
	t.Run("it is away", func(t *testing.T) {
		r, d := start(t)
		r.hear(beat("b").running().status(coordinator.StatusOffline))
		r.gaveBack(d, "", 0)
		want(t, r.pass(2*time.Second), "dispatch t.2 a")
	})
	t.Run("both had it: the third try is not with the one that had it last", func(t *testing.T) {
		r, d := start(t)
		r.gaveBack(d, "", 0)
		want(t, r.pass(2*time.Second), "dispatch t.2 b")
		r.confirm(r.latest().Handle)
		r.gaveBack(r.latest(), "", 0)
		want(t, r.pass(8*time.Second), "dispatch t.3 a")
		engine.CheckIndexes(t, r.Engine)
	})
}

// TestOnlyAgentRestarts: the only agent goes away with a task in hand, and comes back: it has the task
// again. So often as any task may come back.
func TestOnlyAgentRestarts(t *testing.T) {
	r := tracking(t, policyOf(worker("a")))
	d := r.give(job("t"))
	for n := range 2 {
		r.pass(engine.FlapMemory + time.Second) // else it comes and goes too often
		r.hear(beat("a").running(d.Task.ID))
		r.hear(beat("a").running().status(coordinator.StatusOffline))
		r.returns(d, coordinator.ReturnTakenBack, true)
		r.pass(time.Second)
		r.hear(beat("a").running())
		if d = r.latest(); d.Attempt != n+2 || d.Agent != "a" {
			t.Fatalf("attempt %d to %s, want %d to a", d.Attempt, d.Agent, n+2)
		}
		r.confirm(d.Handle)
	}
	r.pass(engine.FlapMemory + time.Second)
	r.hear(beat("a").running("t").status(coordinator.StatusOffline))
	want(t, r.returns(d, coordinator.ReturnTakenBack, true), "fail t retries_exhausted")
	if text := r.failures[0].Failure.Text; !strings.Contains(text, "a went away with the task in hand") {
		t.Errorf("%q does not say how it ended", text)
	}
}

// TestTriesSurvive: the next leader counts on, knows what the agent said, and has it from the headers where
// there is no journal.
func TestTriesSurvive(t *testing.T) {
	r := leader(t)
	r.install(policyOf(worker("a")))
	d := r.give(job("t"))
	r.gaveBack(d, "429", 0)
	r.pass(2 * time.Second)
	d = r.latest()
	r.confirm(d.Handle)
	w := says("a", "t").of("t.2").gaveUp()
	w.Error, w.RetryAfter = "429 again", 20*time.Second
	r.tell(w)
	for name, heir := range heirs(r) {
		t.Run(name, func(t *testing.T) {
			heir.t = t
			want(t, heir.returns(d, coordinator.ReturnRejected, false))
			want(t, heir.pass(20*time.Second-1))
			want(t, heir.pass(1), "dispatch t.3 a")
			heir.confirm(heir.latest().Handle)
			// the second of 3: to ask for time is none
			want(t, heir.returns(heir.latest(), coordinator.ReturnDeliveryLimit, false))
			want(t, heir.pass(8*time.Second), "dispatch t.4 a again?")
			heir.confirm(heir.latest().Handle)
			want(t, heir.returns(heir.latest(), coordinator.ReturnDeliveryLimit, false), "fail t retries_exhausted")
		})
	}
	t.Run("by the headers alone", func(t *testing.T) {
		r := tracking(t, policyOf(worker("a")))
		want(t, r.returns(coordinator.Dispatch{
			Task: d.Task, Agent: "a", Attempt: 3, Tried: []coordinator.AgentID{"a"}, Tries: 2,
		}, coordinator.ReturnExpired, false), "fail t retries_exhausted")
	})
}

// TestOnlyAgentIsAskedForEver: the only agent gives everything back: each task has its tries, and the
// next one is not kept from it.
func TestOnlyAgentIsAskedForEver(t *testing.T) {
	r := tracking(t, policyOf(worker("a").can("x")).route("any", "x"))
	for i := range 10 {
		d := r.give(job(numbered(i)))
		for n := 1; ; n++ {
			lines := r.gaveBack(d, "", 0)
			if slices.Contains(lines, "fail "+string(d.Task.ID)+" retries_exhausted") {
				if n != 3 {
					t.Fatalf("%s failed after %d tries, want 3", d.Task.ID, n)
				}
				break
			}
			r.lives(8*time.Second, beat("a").running())
			if d = r.latest(); d.Attempt != n+1 {
				t.Fatalf("%s: attempt %d after %d tries", d.Task.ID, d.Attempt, n)
			}
			r.confirm(d.Handle)
		}
	}
}

// TestSaidIsCut: what is kept of an agent's words is bounded, and whole characters.
func TestSaidIsCut(t *testing.T) {
	for _, words := range []string{strings.Repeat("x", 2048), strings.Repeat("ä", 1024), strings.Repeat("€", 500)} {
		if got := engine.Said(words); len(got) > engine.MaxSaid || len(got) < engine.MaxSaid-6 ||
			!strings.HasSuffix(got, "…") || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
	if got := engine.Said("429"); got != "429" {
		t.Errorf("%q", got)
	}
}
