package engine

import (
	"testing"
	"time"
)

// A task that waits for quota for longer than ids are remembered, while nothing else happens, is
// dispatched as any other: the first word of its agent counts, and so does what it has used.
func TestQuotaOfATaskThatWaitedForLong(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000)))))
	r.give(job("t1").of("team").tokens(900, 100))
	want(t, r.assign(job("t2").of("team").tokens(500, 100)))
	midnight := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	want(t, r.pass(midnight.Sub(r.now)), "dispatch t2.1 a") // 12 h later; the window is 1 h
	r.confirm(r.latest().Handle)
	want(t, r.tell(says("a", "t2").used(300, 50)), "completed t2.1 a succeeded")
	if n, _ := r.quotas.ledger.Node(r.now, "pool/team"); n.Budgets[0].Used != 350 || n.Budgets[0].Reserved != 0 {
		t.Errorf("%+v", n.Budgets[0])
	}
}

// A dispatch is let go of with its id when its agent has never told of anything, and the window is
// over. What was set aside for it is then taken to be used: nobody will say how much it was.
func TestQuotaOfADispatchThatIsLetGo(t *testing.T) {
	r := ready(t, patient(policyOf(worker("mute").slots(10)).quotas(quotasOf().group("team", 1, daily(1000)))))
	r.give(job("t1").of("team").tokens(500, 100))
	books := func(used, reserved int64) {
		t.Helper()
		n, _ := r.quotas.ledger.Node(r.now, "pool/team")
		if b := n.Budgets[0]; b.Used != used || b.Reserved != reserved {
			t.Errorf("%d used, %d reserved, want %d and %d", b.Used, b.Reserved, used, reserved)
		}
	}
	r.pass(59 * time.Minute)
	r.assign(job("t2")) // the window looks for what is too old whenever an id is looked up
	books(0, 600)
	r.pass(2 * time.Minute)
	r.assign(job("t3"))
	books(600, 0)
	want(t, r.tell(says("mute", "t1").used(1, 1)), "result of t1 by mute: unknown")
	checkIndexes(t, r.Engine)
	if v := r.Audit(r.now); v != nil {
		t.Errorf("the auditor finds %+v", v)
	}
}
