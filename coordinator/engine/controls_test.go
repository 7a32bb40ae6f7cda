package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// control is one that is named.
func control(kind coordinator.QuotaControlKind, target, key, value string) coordinator.QuotaControl {
	return coordinator.QuotaControl{Kind: kind, Target: target, Key: key, Value: value, By: "ann"}.Named()
}

// controls lists what stands, each as its target, key and value.
func (r *rig) standing() (list []string) {
	for _, c := range r.QuotaControls() {
		list = append(list, strings.Join([]string{c.Target, c.Key, c.Value}, " "))
	}
	return list
}

func (r *rig) stands(want ...string) {
	r.t.Helper()
	if got := r.standing(); !slices.Equal(got, want) {
		r.t.Errorf("there stand %q, want %q", got, want)
	}
}

func (r *rig) asks(set []coordinator.QuotaControl, remove ...string) []string {
	return r.apply(coordinator.QuotaControlsRequested{Set: set, Remove: remove, Token: 7})
}

// A request is answered, also when nothing changes; what has not changed is not recorded.
func TestControlsAreKept(t *testing.T) {
	r := leads(t, policyOf(worker("a")).quotas(quotasOf().group("x", 1, daily(1000))))
	r.Records(nil)
	one, two := control(coordinator.ControlSet, "pool/x", "weight", "5"),
		control(coordinator.ControlBoost, "pool/x", "total_tokens", "+50%")
	for _, step := range []struct {
		set     []coordinator.QuotaControl
		remove  []string
		stands  []string
		records int
	}{
		{[]coordinator.QuotaControl{one, two}, nil, []string{"pool/x weight 5", "pool/x total_tokens +50%"}, 1},
		{[]coordinator.QuotaControl{one}, nil, []string{"pool/x weight 5", "pool/x total_tokens +50%"}, 0},
		// Another value takes the place of the one before.
		{[]coordinator.QuotaControl{control(coordinator.ControlSet, "pool/x", "weight", "6")}, nil,
			[]string{"pool/x weight 6", "pool/x total_tokens +50%"}, 1},
		{nil, []string{one.ID, "set-nobody"}, []string{"pool/x total_tokens +50%"}, 1},
		{nil, []string{one.ID}, []string{"pool/x total_tokens +50%"}, 0},
		{[]coordinator.QuotaControl{one}, []string{two.ID}, []string{"pool/x weight 5"}, 1},
	} {
		if got := r.asks(step.set, step.remove...); len(got) != 1 || !strings.Contains(got[0], "QuotaControlsStand") {
			t.Errorf("answered %q", got)
		}
		r.stands(step.stands...)
		if n := len(r.Records(nil)); n != step.records {
			t.Errorf("%d records of %+v, %v; want %d", n, step.set, step.remove, step.records)
		}
	}
}

// What waits starts in the very turn in which the limit, or the weight, is another; what is to go
// first by the new weights goes first.
func TestControlledQuotasActInTheSameTurn(t *testing.T) {
	r := ready(t, patient(policyOf(worker("w").slots(100)).quotas(quotasOf().pool(seats(2)).group("x", 1, daily(1000)).
		group("y", 1, nil))))
	r.assign(job("x0").of("x").tokens(500, 400)) // 900 of 1,000
	r.assign(job("x1").of("x").tokens(300, 0))
	r.asks([]coordinator.QuotaControl{control(coordinator.ControlSet, "pool/x", "total_tokens.amount", "2000")})
	want(t, r.reload(quotasOf().pool(seats(2)).group("x", 1, daily(2000)).group("y", 1, nil)), "dispatch x1.1 w")

	// Of 24 more seats, by weights of 5:1 and not of 1:1, x has 20 and y 4.
	tree := func(weight, n int64) *quotaTree {
		return quotasOf().pool(seats(n)).group("x", weight, nil).group("y", 1, nil)
	}
	r = ready(t, patient(policyOf(worker("w").slots(100)).quotas(tree(1, 2))))
	for i := range 40 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("x", i))).of("x").tokens(10, 10))
		r.assign(job(coordinator.TaskID(fmt.Sprint("y", i))).of("y").tokens(10, 10))
	}
	r.pass(time.Second)
	n := make(map[string]int)
	dispatchedOf(n, r.reload(tree(5, 26)))
	if n["x"] != 20 || n["y"] != 4 {
		t.Errorf("by weights of 5:1 %v", n)
	}
}

// A snapshot has them all, in their order, in records that a message can hold.
func TestManyControlsInASnapshot(t *testing.T) {
	r := leads(t, policyOf(worker("a")).quotas(quotasOf().group("x", 1, daily(1000))))
	for i := range 60 {
		r.asks([]coordinator.QuotaControl{control(coordinator.ControlGroup, fmt.Sprint("g", i), "",
			strings.Repeat("x", 8<<10))})
	}
	largest := 0
	for _, rec := range r.imaged() {
		if c, is := rec.(*coordinator.QuotaControlled); is {
			size := 0
			for _, one := range c.Set {
				size += len(one.Value)
			}
			largest = max(largest, size)
		}
	}
	if largest == 0 || largest > 80<<10 {
		t.Errorf("a record of %d bytes", largest)
	}
	r.heirOf(r.now, r.imaged()).stands(r.standing()...)
}

// A control ends by itself, with the leader of then; a standby waits for the record.
func TestControlsEndInTime(t *testing.T) {
	r := leads(t, policyOf(worker("a")).quotas(quotasOf().group("x", 1, daily(1000))))
	short, long := control(coordinator.ControlBoost, "pool/x", "total_tokens", "+50%"),
		control(coordinator.ControlBoost, "pool/x", "weight", "+1")
	short.Until, long.Until = r.now.Add(time.Hour), r.now.Add(3*time.Hour)
	r.asks([]coordinator.QuotaControl{control(coordinator.ControlSet, "pool/x", "weight", "5"), long, short})
	all := heirs(r)
	follower := &rig{Engine: engine.New(), t: t, now: r.now}
	follower.Follow()
	follower.apply(coordinator.PolicyChanged{Policy: r.Policy()})
	for _, rec := range r.imaged() {
		follower.Fold(r.now, rec)
	}
	all["who led before"] = r
	for how, x := range all {
		x.stands("pool/x weight 5", "pool/x weight +1", "pool/x total_tokens +50%")
		if got := x.pass(time.Hour - time.Second); slices.ContainsFunc(got, isStand) {
			t.Errorf("%s: ended too early: %q", how, got)
		}
		if got := x.pass(time.Second); !slices.ContainsFunc(got, isStand) {
			t.Errorf("%s: nobody is told: %q", how, got)
		}
		x.stands("pool/x weight 5", "pool/x weight +1")
		x.pass(2 * time.Hour)
		x.stands("pool/x weight 5")
	}
	follower.pass(5 * time.Hour)
	follower.stands("pool/x weight 5", "pool/x weight +1", "pool/x total_tokens +50%")
	for _, rec := range r.Records(nil) {
		follower.Fold(r.now, rec)
	}
	follower.stands("pool/x weight 5")
}

func isStand(line string) bool { return strings.Contains(line, "QuotaControlsStand") }
