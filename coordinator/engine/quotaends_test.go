package engine_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"taskbus/coordinator"
)

// How what is set aside for a dispatch ends, and what is learnt from it.

// An agent that stops because it was asked to has used nothing if it had not begun, and what such
// tasks take if it had.
func TestQuotaOfACancelledTask(t *testing.T) {
	for began, used := range map[bool]int64{false: 0, true: 600} {
		r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))))
		r.give(job("t1").of("team").tokens(500, 100))
		if began {
			r.hear(beat("a").running("t1"))
		}
		r.withdraw("t1")
		r.used("pool/team", 0, 600)
		r.tell(says("a", "t1").but(coordinator.OutcomeCancelled))
		r.used("pool/team", used, 0)
	}
}

// Of a task that ends without a word of what it took the mean of such tasks counts, not the high
// quantile that was set aside: of 18 with 100 output tokens and 4 with 1,000 the mean is 5,800/22 =
// 264 (rounded up), and 90 % have no more than 1,000.
func TestQuotaAsThoughtIsTheMean(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(30)).quotas(quotasOf().group("team", 1, daily(1e6))))
	told := int64(0)
	for i := range 22 {
		out := 100.0
		if i%5 == 4 { // the 5th, 10th, 15th and 20th
			out = 1000
		}
		id := coordinator.TaskID(fmt.Sprint("t", i))
		r.give(job(id).of("team").tokens(50, 10))
		r.tell(says("a", id).used(50, out))
		told += 50 + int64(out)
	}
	b := job("silent").of("team")
	b.EstimatedUsage = &coordinator.Usage{InputTokens: 50}
	r.give(b)
	n, _ := r.Ledger().Node(r.now, "pool/team")
	if set := n.Budgets[0].Reserved; set < 50+875 || set > 50+1125 { // quantiles err by an eighth at most
		t.Errorf("%d are set aside for it, want 1,050 within an eighth of 1,000", set)
	}
	r.tell(says("a", "silent"))
	r.used("pool/team", told+50+264, 0)
	// And it is no lesson: what is set aside for the next is the same.
	before := n.Budgets[0].Reserved
	b = job("next").of("team")
	b.EstimatedUsage = &coordinator.Usage{InputTokens: 50}
	r.give(b)
	r.used("pool/team", told+50+264, before)
}

// What a task is thought to take while nothing is known is what the configuration says, as it is
// when it goes: also of a task that has come before.
func TestQuotaDefaultOutput(t *testing.T) {
	tree := func(output int64) *quotaTree {
		q := quotasOf().group("team", 1, daily(10_000))
		q.DefaultOutput = output
		return q
	}
	input := func(id coordinator.TaskID) *taskBuilder {
		b := job(id).of("team")
		b.EstimatedUsage = &coordinator.Usage{InputTokens: 100}
		return b
	}
	r := ready(t, policyOf(worker("a")).quotas(tree(40)).
		set(func(s *coordinator.Settings) { s.AssignmentTimeout = time.Hour }))
	r.give(input("t1"))
	r.used("pool/team", 0, 140)
	want(t, r.assign(input("t2"))) // the agent is busy
	r.reload(tree(300))
	r.tell(says("a", "t1").used(0, 0)) // of which nothing is learnt
	r.used("pool/team", 0, 400)
}

// A budget that is used up by what was more than thought is told of when that is known, in time or
// too late.
func TestQuotaIsToldWhenItIsUsed(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
		set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	r.give(job("t1").of("team").tokens(50, 50))
	r.give(job("t2").of("team").tokens(50, 50))
	r.tell(says("a", "t1").used(400, 50))
	r.hear(beat("a").running("t2"))
	r.pass(6 * time.Minute) // t2 is overdue
	r.used("pool/team", 450, 0)
	want(t, keepQuota(r.tell(says("a", "t2").of("t2.1").used(400, 100))), "quota pool/team total_tokens 80%",
		"quota pool/team total_tokens 90%")
	r.give(job("t3").of("team").tokens(1, 1))
	want(t, keepQuota(r.tell(says("a", "t3").used(50, 50))), "quota pool/team total_tokens 100%")
}

// A dispatch that its agent had begun, and that comes back, may have used something: what is told
// of it later counts. One that came out of its queue untouched has not, whatever is reported.
func TestQuotaOfADispatchThatComesBack(t *testing.T) {
	for began, used := range map[bool]int64{false: 0, true: 320} {
		r := ready(t, policyOf(worker("a").slots(10), worker("b").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
			set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
		d := r.give(job("t1").of("team").tokens(500, 100))
		if began {
			r.hear(beat(d.Agent).running("t1"))
			r.hear(beat(d.Agent).running()) // it has lost it
		}
		r.returns(d, coordinator.ReturnExpired, false)
		r.pass(time.Second)
		r.tell(says(d.Agent, "t1").of("t1.1").but(coordinator.OutcomeFailed).used(300, 20))
		n, _ := r.Ledger().Node(r.now, "pool/team")
		if b := n.Budgets[0]; b.Used != used {
			t.Errorf("begun %v: %+v, want %d used", began, b, used)
		}
	}
}

// A dispatch that was perhaps published, and is sent again to the same agent under its own id, has
// one reservation. If the broker has not got the second copy, the first may have arrived all the
// same: what it has used counts when it is told.
func TestQuotaOfADispatchSentTwice(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, daily(1000))).
		set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour }))
	want(t, r.assign(job("t1").of("team").tokens(500, 100)), "dispatch t1.1 a")
	r.settle(r.latest().Handle, coordinator.PublishUnknown)
	r.used("pool/team", 0, 600)
	want(t, r.redeliver(job("t1").of("team").tokens(500, 100)), "dispatch t1.1 a again?")
	r.used("pool/team", 0, 600)
	r.settle(r.latest().Handle, coordinator.PublishUnroutable)
	r.used("pool/team", 0, 0)
	r.tell(says("a", "t1").of("t1.1").used(300, 20))
	r.used("pool/team", 320, 0)
}

// What an overdue dispatch has used is recorded when it is told, for all that add up what was used, also by
// a leader without the quotas under which it began: as what is told in time is.
func TestQuotaOfBeforeIsToldLate(t *testing.T) {
	fleet := func() *policyBuilder {
		return policyOf(worker("a").slots(10)).set(func(s *coordinator.Settings) { s.StaleAfter = time.Hour })
	}
	r := leads(t, fleet().quotas(quotasOf().group("team", 1, daily(1000))))
	r.give(job("t1").of("team").tokens(50, 50))
	r.give(job("t2").of("team").tokens(50, 50))
	r.hear(beat("a").running("t1", "t2"))
	r.install(fleet())
	r.Records(nil)
	told := make(map[int64]bool) // input tokens, and whether it was late
	r.tell(says("a", "t1").of("t1.1").used(40, 9))
	r.hear(beat("a").running("t2"))
	r.pass(6 * time.Minute) // t2 is overdue
	r.tell(says("a", "t2").of("t2.1").used(30, 9))
	for _, rec := range r.Records(nil) {
		if q, is := rec.(*coordinator.QuotaEnded); is && q.How == coordinator.QuotaSettled {
			told[q.Used[coordinator.DimInputTokens]] = q.Late != nil && q.Late.Group == "team"
		}
	}
	if want := map[int64]bool{40: false, 30: true}; !reflect.DeepEqual(told, want) {
		t.Errorf("settled are %v, want %v", told, want)
	}
}

// The bill of a task that is told too late moves its group behind the others as if it had been told
// in time: a owes 6,000, which are 20 of b's tasks of 300.
func TestQuotaLateBillsCountForTurns(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(1), worker("b").can("b").slots(1)).
		quotas(quotasOf().group("a", 1, nil).group("b", 1, nil))))
	r.give(job("late").of("a").needs("b").tokens(100, 100))
	r.hear(beat("b").running("late"))
	r.pass(6 * time.Minute) // overdue: what it was charged is given back
	r.flood(100, 100, 100, "b", "a")
	r.servedOf(10, 100, 100)
	r.tell(says("b", "late").of("late.1").used(2000, 2000)) // 2,000 + 2 · 2,000
	for i := range 50 {
		if r.serveNext(100, 100) == "a" {
			if i < 19 || i > 22 {
				t.Errorf("%d of b's go before a's next, want 20", i)
			}
			return
		}
	}
	t.Error("a is shut out")
}

// What was overdue is forgotten in time, though nothing else happens: it is remembered for an hour,
// so that what is told of it late counts, once.
func TestQuotaReservationsAreForgotten(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(10)).quotas(quotasOf().group("team", 1, requests(1000, 1000)))))
	r.give(job("t1").of("team").tokens(50, 50))
	r.hear(beat("a").running("t1"))
	r.pass(6 * time.Minute)
	key := coordinator.KeyOf("t1.1")
	if _, _, known := r.Ledger().Find(key); !known {
		t.Fatal("it is not remembered")
	}
	r.pass(time.Hour + time.Minute)
	if _, _, known := r.Ledger().Find(key); known {
		t.Error("it is remembered for ever")
	}
}

// Within a group and priority the task that was accepted first goes first, whatever others could
// do it as well.
func TestQuotaOrderWithinAGroup(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").can("x", "y"), worker("b").can("x")).
		quotas(quotasOf().group("team", 1, nil))))
	r.order("b", coordinator.OrderCordon)
	r.give(job("first").of("team").needs("x"))
	var expected []string
	for i := range 10 {
		r.now = r.now.Add(time.Second)
		id := coordinator.TaskID(fmt.Sprint("t", i))
		want(t, r.assign(job(id).of("team").needs([]string{"x", "y"}[i/2%2])))
		expected = append(expected, string(id))
	}
	for _, id := range expected {
		r.tell(says("a", r.latest().Task.ID))
		if got := string(r.latest().Task.ID); got != id {
			t.Fatalf("%s goes, want %s", got, id)
		}
	}
}

// What a node's limits mean is looked up anew under other quotas: where nothing is divided, and
// nothing is left, all of a class wait as one; where groups have parts, each waits for itself.
func TestQuotaOfAPoolThatIsDividedLater(t *testing.T) {
	tree := func(tokens int64, part func(*coordinator.QuotaNode)) *quotaTree {
		return quotasOf().pool(daily(tokens)).group("x", 1, part).group("y", 1, part)
	}
	r := ready(t, patient(policyOf(worker("a").slots(100)).quotas(tree(100, nil))))
	together := func() bool { return r.LacksTogether(r.open("x1")) }
	r.give(job("x0").of("x").tokens(50, 50))
	want(t, r.assign(job("x1").of("x").tokens(30, 30)))
	want(t, r.assign(job("y1").of("y").tokens(5, 5)))
	if !together() {
		t.Error("nothing is left of the pool, and x waits for itself")
	}
	want(t, keepDispatches(r.reload(tree(200, partDaily))), "dispatch y1.1 a") // 100 are y's
	want(t, keepDispatches(r.assign(job("y2").of("y").tokens(5, 5))), "dispatch y2.1 a")
	if together() {
		t.Error("y has a part of its own, and waits with x")
	}
	want(t, keepDispatches(r.reload(tree(120, nil)))) // 100 + 10 + 10 are used
	want(t, keepDispatches(r.assign(job("y3").of("y").tokens(5, 5))))
	if !together() {
		t.Error("nothing is left of the pool again, and x waits for itself")
	}
}

// Of bidders the best with quota has the task.
func TestQuotaOfTheBestBidder(t *testing.T) {
	r := ready(t, policyOf(worker("a").slots(5), worker("b").slots(5)).market(everybody).
		quotas(quotasOf().group("team", 1, nil).agent("a", "team", requests(1, 1)).agent("b", "team", requests(10, 10))))
	r.give(job("plain").of("team").by("capability_match").prefers("a")) // a's one
	want(t, r.assign(job("t1").of("team").by("market")), offers("t1.1", "a", "b")...)
	r.bid(bid("b", "t1").fit(0.5))
	got := r.bid(bid("a", "t1").fit(0.9))
	want(t, keepDispatches(append(got, r.pass(time.Second)...)), "dispatch t1.1 b")
}

// An agent that claims a task for which its own quota is used up does not keep it from another.
func TestQuotaOfWhoClaims(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(5).pulls(coordinator.PullShared),
		worker("b").slots(5).pulls(coordinator.PullShared)).
		quotas(quotasOf().group("team", 1, nil).agent("a", "team", requests(1, 1)).agent("b", "team", requests(10, 10)))))
	for i := range 3 {
		want(t, r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).of("team")))
	}
	want(t, keepDispatches(r.claim(claim("a", 1))), "dispatch t0.1 a")
	want(t, keepDispatches(r.claim(claim("a", 1))))
	// Neither is a part kept for it that it could not take, as long as it goes on claiming.
	want(t, keepDispatches(r.claim(claim("b", 5))), "dispatch t1.1 b", "dispatch t2.1 b")
}
