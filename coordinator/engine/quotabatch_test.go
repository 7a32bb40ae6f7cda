package engine_test

import (
	"errors"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// A task that shares a batch goes no sooner than it would alone: what waits for quota in its group
// goes before it, and the rest of the batch does not wait for it.
func TestQuotaOfABatch(t *testing.T) {
	r := ready(t, patient(policyOf(worker("a").slots(8), worker("b").slots(8)).batched("any", 10).route("alone").
		quotas(quotasOf().group("poor", 1, daily(100)).group("rich", 1, nil))))
	r.give(job("p1").kind("alone").of("poor").tokens(45, 45))
	want(t, r.assign(job("p2").kind("alone").of("poor").tokens(25, 25))) // 10 are left
	r.assignAll(job("r1").of("rich").tokens(1, 1), job("p3").of("poor").tokens(1, 1),
		job("p4").of("poor").prio(coordinator.PriorityCritical).tokens(1, 1), job("r2").of("rich").tokens(1, 1))
	want(t, keepDispatches(r.pass(batchWait)), "dispatch p4.1 b", "dispatch r1.1 b", "dispatch r2.1 b")
	r.withdraw("p2") // now there is enough for the first that waits
	if d := r.latest(); d.Task.ID != "p3" {
		t.Errorf("%s goes", d.Task.ID)
	}
	engine.CheckIndexes(t, r.Engine)
}

// A task that waited aside until its strategy made something of an agent goes behind those of its
// group that wait for quota, too.
func TestQuotaOfATaskThatWaitedAside(t *testing.T) {
	scored := false
	formula := func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) (float64, error) {
		if !scored {
			return 0, errors.New("not yet")
		}
		return 1, nil
	}
	r := ready(t, patient(policyOf(worker("a").slots(8)).expressed(t, formula).
		quotas(quotasOf().group("poor", 1, daily(100)))))
	r.give(job("p1").of("poor").tokens(45, 45))
	want(t, r.assign(job("p2").of("poor").tokens(25, 25)))                           // 10 are left
	want(t, r.assign(job("p3").of("poor").by(strategy.ExpressionName).tokens(1, 1))) // behind it, and aside
	scored = true
	want(t, r.pass(time.Minute))
	want(t, keepDispatches(r.withdraw("p2")), "dispatch p3.1 a")
	engine.CheckIndexes(t, r.Engine)
}
