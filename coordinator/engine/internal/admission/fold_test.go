package admission

import (
	"reflect"
	"testing"
	"time"

	"taskbus/coordinator"
)

// same reports whether both have the same books, estimates and turns.
func same(a, b *Quotas) bool { return reflect.DeepEqual(a.Export(epoch), b.Export(epoch)) }

// TestFoldFollows: folding what a leader records of reservations and their ends comes to what the leader has.
func TestFoldFollows(t *testing.T) {
	leader, follower := newTeam(t), newTeam(t)
	task := taking("t", 600)
	task.Type = "build"
	h := leader.Hold(task)
	if v := leader.Reserve(epoch, task, 1, h, "a"); !v.OK {
		t.Fatalf("%+v", v)
	}
	leader.Shares.Served(1, 1<<1|1<<0) // a normal task, while a low one waited
	r := h.Record(epoch, 1, 1<<1|1<<0)
	if same(leader, follower) {
		t.Fatal("a reservation is not seen in what is exported")
	}
	if x := follower.Fold(r); x.Ended || x.Renumbered || !same(leader, follower) {
		t.Fatalf("a reservation is not folded as it was made: %+v", x)
	}
	end := leader.End(epoch, h, "build", &Dispatch{Result: &coordinator.Result{Duration: time.Second,
		Usage: &coordinator.Usage{InputTokens: 509, OutputTokens: 1}}})
	if x := follower.Fold(end.Ended); !x.Ended || x.Charge.Group != "team" || x.Charge.Amounts != h.Charge.Amounts ||
		!same(leader, follower) {
		t.Fatalf("the end of a reservation is not folded as it was: %+v", x)
	}
	next := taking("next", 490) // of 1000 there are 490 left
	if v := follower.Reserve(epoch, next, 1, follower.Hold(next), "a"); !v.OK {
		t.Errorf("%+v", v)
	}
}

// TestFoldLate: what is settled after it has expired corrects the turn of its group by the usage alone: the turn was
// corrected by the whole estimate when it expired.
func TestFoldLate(t *testing.T) {
	leader, follower := newTeam(t), newTeam(t)
	task := taking("t", 600)
	h := leader.Hold(task)
	leader.Reserve(epoch, task, 1, h, "a")
	leader.Shares.Served(1, 1<<1)
	follower.Fold(h.Record(epoch, 1, 1<<1))
	follower.Fold(leader.End(epoch, h, "build", &Dispatch{How: Gone}).Ended)
	if !same(leader, follower) {
		t.Fatal("an expired reservation is not folded as it was")
	}
	result := &coordinator.Result{Task: "t", Agent: "b", Usage: &coordinator.Usage{InputTokens: 99, OutputTokens: 1}}
	if x := leader.SettleLate(epoch, result, 1); x.Ended != nil {
		t.Error("an agent reports usage that is another's")
	}
	result.Agent = "a"
	if x := leader.SettleLate(epoch, result, 0); x.Ended != nil {
		t.Error("usage of no dispatch is charged")
	}
	x := leader.SettleLate(epoch, result, 1)
	if x.Ended == nil || !x.Ended.Keep || x.Ended.Used[coordinator.DimTotalTokens] != 100 {
		t.Fatalf("%+v", x.Ended)
	}
	if again := leader.SettleLate(epoch, result, 1); again.Ended != nil {
		t.Error("usage is charged twice")
	}
	if follower.Fold(x.Ended); !same(leader, follower) {
		t.Error("usage that was reported late is not folded as it was charged")
	}
}

// TestExport: another that folds an image has the same, and the reservations that no dispatch has are released.
func TestExport(t *testing.T) {
	q := newTeam(t)
	keys := make(map[coordinator.TaskID]coordinator.TaskKey)
	for _, id := range []coordinator.TaskID{"kept", "lost", "settled"} {
		task := taking(id, 200)
		task.Type = "build"
		h := q.Hold(task)
		if v := q.Reserve(epoch, task, 1, h, "a"); !v.OK {
			t.Fatalf("%+v", v)
		}
		q.Shares.Served(2, 1<<2|1<<1) // what priorities have earned
		if keys[id] = h.Key; id == "settled" {
			q.End(epoch, h, "build", &Dispatch{Result: &coordinator.Result{
				Usage: &coordinator.Usage{InputTokens: 149, OutputTokens: 1}}})
		}
	}
	heir, renumbered := newTeam(t), false
	for _, r := range q.Export(epoch) {
		renumbered = heir.Fold(r).Renumbered || renumbered
	}
	if renumbered || !heir.InstallFolded() || heir.InstallFolded() {
		t.Error("turns are installed once, when all rows are there")
	}
	if !same(q, heir) {
		t.Fatalf("folded %+v,\nwant %+v", heir.Export(epoch), q.Export(epoch))
	}
	h := heir.Adopt(keys["kept"])
	if h == nil || !h.Open || h.Key != keys["kept"] || h.Usual != h.Charge.Amounts {
		t.Errorf("what is reserved for a dispatch is not given to it: %+v", h)
	}
	if heir.Adopt(keys["settled"]) != nil {
		t.Error("what has ended is given to a dispatch")
	}
	heir.Adopted(epoch)
	all := heir.ReleaseLost(epoch)
	if len(all) != 1 || all[0].(*coordinator.QuotaEnded).Key != keys["lost"] || len(heir.ReleaseLost(epoch)) != 0 {
		t.Errorf("released %+v, want what no dispatch has", all)
	}
	if rows := NewQuotas(testTasksInOrder).Export(epoch); rows != nil {
		t.Errorf("without quotas there is %+v", rows)
	}
}

// TestFoldRows: the first row of turns begins them anew, and a row of another length is of another version.
func TestFoldRows(t *testing.T) {
	q := newTeam(t)
	for _, r := range []*coordinator.ShareBefore{
		{Group: "team", Values: []int64{1, 2, 3, 4, 5, 6, 7}},    // before the first
		{First: true, Values: []int64{creditRow, 4, -4, 0, 0}},   // credits of the four levels
		{Group: "team", Parent: "", Values: []int64{1, 2, 3}},    // too short
		{Group: "team", Values: []int64{1, 10, 20, 30, 0, 0, 0}}, // as they are written
	} {
		q.Fold(r)
	}
	if q.turns == nil || q.turns.Credit != [4]int64{4, -4, 0, 0} || len(q.turns.Tags) != 1 || q.turns.Tags[0].Lead != 10 {
		t.Fatalf("%+v", q.turns)
	}
	if q.Fold(&coordinator.ShareBefore{First: true, Values: []int64{7, 1, 1, 1, 1}}); q.turns.Credit != [4]int64{} ||
		len(q.turns.Tags) != 0 {
		t.Errorf("counts of an earlier version are taken for credits: %+v", q.turns)
	}
	q.Fold(&coordinator.EstimateBefore{First: true, Tenant: "x"})
	q.Fold(&coordinator.EstimateBefore{Tenant: "y"})
	q.Fold(&coordinator.EstimateBefore{First: true, Tenant: "z"})
	if len(q.estimates) != 1 || q.estimates[0].Tenant != "z" {
		t.Errorf("%+v", q.estimates)
	}
	task := taking("t", 10)
	leader := newTeam(t)
	h := leader.Hold(task)
	leader.Reserve(epoch, task, 1, h, "a")
	if x := q.Fold(h.Record(epoch, 1, 0)); !x.Renumbered || q.turns != nil || q.estimates != nil {
		t.Errorf("what follows the rows does not put them in their place: %+v", x)
	}
}

// TestImageOfAnIdleGroup: a group that has nothing open, and stands where its turn would begin, is not in an image. One
// that begins with that image goes on as the leader does, to the byte.
func TestImageOfAnIdleGroup(t *testing.T) {
	leader, heir := newTeam(t), newTeam(t)
	reserve := func(id coordinator.TaskID) *Hold {
		task := taking(id, 100)
		task.Group = "stranger"
		h := leader.Hold(task)
		if v := leader.Reserve(epoch, task, 1, h, "a"); !v.OK {
			t.Fatalf("%+v", v)
		}
		return h
	}
	leader.End(epoch, reserve("used"), "build", &Dispatch{How: Unreported})
	leader.End(epoch, reserve("released"), "build", &Dispatch{How: TakenBack})
	for _, r := range leader.Export(epoch) {
		if s, is := r.(*coordinator.ShareBefore); is && s.Group != "" {
			t.Errorf("an idle group is in the image: %+v", s)
		}
		heir.Fold(r)
	}
	heir.Fold(reserve("next").Record(epoch, 1, 0))
	if !same(leader, heir) {
		t.Errorf("folded %+v,\nwant %+v", heir.Shares.Export(), leader.Shares.Export())
	}
}
