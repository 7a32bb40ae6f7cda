package engine_test

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// TestFollowerHasNoDispatchThatWasNotPublished: a dispatch that the broker did not take is with no agent, in the leader
// and in the one that folds its records, whether its task waits, has failed or goes out again.
func TestFollowerHasNoDispatchThatWasNotPublished(t *testing.T) {
	for _, outcome := range []coordinator.PublishOutcome{coordinator.PublishUnroutable, coordinator.PublishRejected,
		coordinator.PublishNotSent, coordinator.PublishAbandoned} {
		t.Run(outcome.String(), func(t *testing.T) {
			r := leads(t, policyOf(worker("a")))
			r.assign(job("t"))
			r.settle(r.latest().Handle, outcome)
			r.slots("a", 0, r.seen("a").Free)
			records := r.Records(nil)
			told := slices.ContainsFunc(records, func(r coordinator.Record) bool {
				m, is := r.(*coordinator.Remembered)
				return is && m.Unpublished == outcome
			})
			if waits := r.PendingTotal() > 0; told != waits {
				t.Errorf("the task waits: %v, and why it was not published is told: %v", waits, told)
			}
			standby := r.follower(r.now, records)
			if standby.OpenTask("t") != nil || standby.seen("a").InFlight != 0 {
				t.Errorf("by the records the dispatch is with its agent, which has %d tasks", standby.seen("a").InFlight)
			}
		})
	}
}

// TestFollowerCountsLeaseOfSameMoment: a dispatch that was never answered turns out to have arrived when its agent
// gives it back. Its deadline stays where it was, in the leader and in the one that folds its records.
func TestFollowerCountsLeaseOfSameMoment(t *testing.T) {
	r := leads(t, policyOf(worker("a")))
	r.assign(job("t"))
	r.now = r.now.Add(2 * time.Second)
	r.apply(coordinator.SessionLost{})
	r.apply(coordinator.SessionOpened{})
	r.hear(beat("a").running("t"))
	r.now = r.now.Add(10 * time.Second)
	r.tell(says("a", "t").of("t.1").but(coordinator.OutcomeRejected))
	standby := r.follower(r.now, r.Records(nil))
	if got, want := standby.OpenTask("t").Deadline(), r.OpenTask("t").Deadline(); !got.Equal(want) {
		t.Errorf("by the records it ends at %v, and in the leader at %v", got, want)
	}
}

// TestReturningDispatchIsNoProbe: the task by which an ejected agent is tried counts when its agent gives it back, not
// again when its message comes. That is known to the leader, and to the one that folds its records.
func TestReturningDispatchIsNoProbe(t *testing.T) {
	for _, begun := range []bool{false, true} {
		r := leads(t, policyOf(worker("a0").can("go").slots(3), worker("a1").can("go")).route("x", "go"))
		r.give(job("busy").kind("x").prefers("a1")) // a1 is full from now on
		r.fails("a0", "x", 5)
		r.pass(30 * time.Second)
		r.give(job("t").kind("x"))
		standby := r.follower(r.now, r.Records(nil))
		if !standby.isProbe("t") {
			t.Fatal("the task is no probe")
		}
		rejected := says("a0", "t").but(coordinator.OutcomeRejected)
		rejected.Attempted = begun
		r.tell(rejected)
		for _, record := range r.Records(nil) {
			standby.Fold(r.now, record)
		}
		if r.isProbe("t") || standby.isProbe("t") {
			t.Errorf("begun %v: a probe in the leader %v, by its records %v", begun, r.isProbe("t"), standby.isProbe("t"))
		}
	}
}

// isProbe is what a snapshot says of the dispatch of a task.
func (r *rig) isProbe(id coordinator.TaskID) bool {
	for rec := range r.Image(r.now).Records {
		if a, is := rec.(*coordinator.Assigned); is && a.Task.ID == id {
			return a.Probe
		}
	}
	return false
}

// TestFollowerKnowsThatEndsAreUnknown: another program speaks for an agent, one that does not list what it runs: its
// dispatches end without a word. That is known to the one that folds the records of the leader, and hears no report.
func TestFollowerKnowsThatEndsAreUnknown(t *testing.T) {
	r := leads(t, policyOf(worker("a"))) // it lists what it runs
	standby := r.follower(r.now, r.Records(nil))
	if !standby.isTracked("a") {
		t.Fatal("the agent is not tracked")
	}
	for _, listing := range []bool{false, true, false} {
		r.pass(interval)
		if report := beat("a"); listing {
			r.hear(report.running())
		} else {
			r.hear(report)
		}
		for _, record := range r.Records(nil) {
			standby.Fold(r.now, record)
		}
		if r.isTracked("a") != listing || standby.isTracked("a") != listing {
			t.Errorf("listing %v: tracked by the leader %v, by its records %v", listing, r.isTracked("a"),
				standby.isTracked("a"))
		}
	}
}

// TestLeaseOfAgentThatIsTrackedNoMore: its deadline is watched no more, as that of any other of an agent that reports
// no ends, but for one that is given back.
func TestLeaseOfAgentThatIsTrackedNoMore(t *testing.T) {
	r := leads(t, policyOf(worker("a").slots(2)))
	r.give(job("given back"))
	r.tell(says("a", "given back").but(coordinator.OutcomeRejected))
	r.give(job("kept"))
	standby := r.follower(r.now, r.Records(nil))
	r.hear(beat("a")) // made at the same moment: it does not speak for the dispatch yet
	for _, record := range r.Records(nil) {
		standby.Fold(r.now, record)
	}
	for who, e := range map[string]*rig{"the leader": r, "the standby": standby} {
		engine.CheckIndexes(t, e.Engine)
		if e.isTracked("a") || e.OpenTask("kept") == nil || e.OpenTask("given back") == nil {
			t.Errorf("%s: tracked %v, open %v, %v", who, e.isTracked("a"), e.OpenTask("kept"), e.OpenTask("given back"))
		}
	}
}

// isTracked is what a snapshot says of an agent.
func (r *rig) isTracked(id coordinator.AgentID) bool {
	for rec := range r.Image(r.now).Records {
		if a, is := rec.(*coordinator.Tracked); is && a.Agent == id {
			return true
		}
	}
	return false
}

// TestSnapshotForgetsWithTheWindow: whatever the leader has looked up since, and the one that folds its records has
// not, the snapshots of both have the ids of the dedupe window, and no others.
func TestSnapshotForgetsWithTheWindow(t *testing.T) {
	r := leads(t, policyOf(worker("a").slots(9)).set(func(s *coordinator.Settings) {
		s.DedupeWindow, s.StaleAfter = time.Hour, 1000*time.Hour
	}))
	standby := r.follower(r.now, r.Records(nil))
	for _, id := range []coordinator.TaskID{"old", "young"} {
		r.give(job(id))
		r.tell(says("a", id))
		for _, record := range r.Records(nil) {
			standby.Fold(r.now, record)
		}
		r.pass(30 * time.Minute)
	}
	r.tell(says("a", "stranger")) // looks for its task, and drops what is too old
	standby.now = r.now
	for how, e := range map[string]*rig{"the leader": r, "by its records": standby} {
		if ids := e.remembered(); len(ids) != 1 || ids[0] != coordinator.KeyOf("young") {
			t.Errorf("%s: %v, want %v alone", how, ids, coordinator.KeyOf("young"))
		}
	}
}

// TestStandbyHasIDsThatItsLeaderHasDropped: where the dedupe window is full, a task that waits takes the place of the
// oldest id in the leader. A standby hears of it when it is dispatched, has the oldest id until then, and no more than
// the window may have from its first look-up on.
//
// That does not follow from the records: those that wait and are never dispatched take places, too, so that neither the
// number nor the order of the ids is the same. Nor do the look-ups leave records by which an id that is open moves to
// the end. A record of each id that is dropped would be one more for each task, where either set is as good: which ids
// go is not promised, only how many there are.
func TestStandbyHasIDsThatItsLeaderHasDropped(t *testing.T) {
	r := leads(t, policyOf(worker("a")).set(func(s *coordinator.Settings) { s.DedupeMaxIDs = 2 }))
	r.give(job("old"))
	r.tell(says("a", "old"))
	r.give(job("busy"))
	want(t, r.assign(job("waits")))
	records := r.Records(nil)
	old, busy := coordinator.KeyOf("old"), coordinator.KeyOf("busy")
	if ids := r.remembered(); slices.Contains(ids, old) || !slices.Contains(ids, busy) {
		t.Errorf("the leader has %v, of the old %v and the open %v", ids, old, busy)
	}
	if ids := r.follower(r.now, records).remembered(); !slices.Contains(ids, old) || !slices.Contains(ids, busy) {
		t.Errorf("the standby has %v, of the old %v and the open %v", ids, old, busy)
	}
	heir := r.heirOf(r.now, records)
	heir.tell(says("a", "busy"))
	heir.give(job("next"))
	if ids := heir.remembered(); len(ids) > 2 || slices.Contains(ids, old) {
		t.Errorf("the next leader has %v", ids)
	}
}

// remembered are the ids that a snapshot says were seen.
func (r *rig) remembered() (ids []coordinator.TaskKey) {
	for rec := range r.Image(r.now).Records {
		if m, is := rec.(*coordinator.Remembered); is {
			ids = append(ids, m.Key)
		}
	}
	return ids
}

// TestLateSuccessCountsForCapacity: an agent has done a task that came back before; in the leader and in the one that
// folds its records that is one item more that it has done.
func TestLateSuccessCountsForCapacity(t *testing.T) {
	r := leads(t, policyOf(worker("a"), worker("b")))
	d := r.give(job("t").prefers("a"))
	r.now = r.now.Add(10 * time.Second)
	r.returns(d, coordinator.ReturnExpired, false)
	r.now = r.now.Add(time.Second)
	r.tell(says(d.Agent, "t").of("t.1"))
	standby := r.follower(r.now, r.Records(nil))
	if got, want := standby.itemsOf(d.Agent), r.itemsOf(d.Agent); got != want || want == 0 {
		t.Errorf("by the records %s has done %v items, and in the leader %v", d.Agent, got, want)
	}
}

// TestFollowerCountsDispatchOfATaskThatHasEnded: a dispatch is confirmed after its agent has said how it ended, or
// after the agent that had the task before has done it. In the leader and in the one that folds its records it was
// given to the agent.
func TestFollowerCountsDispatchOfATaskThatHasEnded(t *testing.T) {
	for name, play := range map[string]func(r *rig){
		"by its agent":           func(r *rig) { r.tell(says("b", "t").of("t.2")) },
		"by the agent before it": func(r *rig) { r.tell(says("a", "t").of("t.1")) },
	} {
		r := leads(t, policyOf(worker("a"), worker("b")))
		d := r.give(job("t").prefers("a"))
		r.returns(d, coordinator.ReturnTakenBack, true)
		if r.latest().Agent != "b" {
			t.Fatalf("%s: it goes to %s", name, r.latest().Agent)
		}
		play(r)
		r.confirm(r.latest().Handle)
		standby := r.follower(r.now, r.Records(nil))
		for _, id := range []coordinator.AgentID{"a", "b"} {
			if got, want := standby.before(id).Assigned, r.before(id).Assigned; got != want || want != 1 {
				t.Errorf("%s: by the records %s was given %d tasks, and in the leader %d", name, id, got, want)
			}
		}
	}
}

// TestBatchAtATakeOver: eight dispatches that share a batch fail at the next leader. That is one fault, whether it has
// the records or a snapshot. Of the record of the batch it has no more than that.
func TestBatchAtATakeOver(t *testing.T) {
	p := policyOf(crew(3)...)
	p.Routes["go"] = coordinator.Route{Required: []string{"go"},
		Batch: coordinator.Batch{MaxSize: 8, MaxWait: time.Second}}
	r := leads(t, p)
	for i := range 8 {
		r.assign(job(numbered(i)).kind("go").prefers("a0"))
	}
	for _, d := range r.dispatches {
		if d.BatchID != r.dispatches[0].DispatchID || d.Agent != "a0" {
			t.Fatalf("%s goes to %s in batch %q", d.DispatchID, d.Agent, d.BatchID)
		}
		r.confirm(d.Handle)
	}
	records := r.Records(nil)
	unsealed := slices.DeleteFunc(slices.Clone(records), func(r coordinator.Record) bool {
		_, sealed := r.(*coordinator.BatchSealed)
		return sealed
	})
	if len(records) != len(unsealed)+1 {
		t.Errorf("%d records without one of a batch, of %d", len(unsealed), len(records))
	}
	for _, tc := range []struct {
		name    string
		records []coordinator.Record
		want    coordinator.Ineligibility
	}{
		{"all records", records, coordinator.Eligible},
		{"a snapshot", r.imaged(), coordinator.Eligible},
		{"without the batch", unsealed, coordinator.Ejected},
	} {
		heir := r.heirOf(r.now, tc.records)
		for _, d := range r.dispatches {
			heir.tell(says("a0", d.Task.ID).but(coordinator.OutcomeFailed))
		}
		if got := heir.why("a0", "go"); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestAgentThatCameAgainInASnapshot: an agent leaves the fleet and comes again, and has a task of before. It is given
// tasks as one that had none yet, in the leader and in one that begins with its snapshot.
func TestAgentThatCameAgainInASnapshot(t *testing.T) {
	p := policyOf(worker("a"), worker("b"))
	r := leads(t, p)
	r.give(job("t").prefers("a"))
	r.apply(coordinator.PolicyChanged{Policy: &policyOf(worker("b")).Policy})
	r.apply(coordinator.PolicyChanged{Policy: &p.Policy})
	if r.OpenTask("t") == nil {
		t.Fatal("it has the task no more")
	}
	got, want := r.follower(r.now, r.imaged()).before("a"), r.before("a")
	if got.LastAssigned != want.LastAssigned || got.Assigned != want.Assigned {
		t.Errorf("by the snapshot %+v, and in the leader %+v", got, want)
	}
}

// itemsOf is how many items a snapshot says that an agent has done of late.
func (r *rig) itemsOf(id coordinator.AgentID) float64 { return r.before(id).Items }

// before is what a snapshot says of an agent.
func (r *rig) before(id coordinator.AgentID) (before coordinator.AgentBefore) {
	for rec := range r.Image(r.now).Records {
		if a, is := rec.(*coordinator.AgentBefore); is && a.Agent == id {
			before = *a
		}
	}
	return before
}
