package service

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/view"
)

// reloadQuotas takes over other quotas, as of a file that was saved.
func (r *rig) reloadQuotas(text string) {
	r.t.Helper()
	r.service.Reload(withLimits(r, text), nil)
	r.settle()
}

// uses has a1 do a task of the group that takes so many tokens.
func (r *rig) uses(id, group string, tokens int) {
	r.t.Helper()
	r.tenSlots()
	r.task(id, "build", usage(tokens/2, tokens/2, group))
	r.result("a1", id, "succeeded", fmt.Sprintf(`,"usage":{"requests":1,"input_tokens":%d,"output_tokens":%d}`, tokens/2,
		tokens/2))
}

// snapshots counts the complete snapshots in the journal.
func (r *rig) snapshots() (n int) {
	r.t.Helper()
	for _, d := range r.broker.Messages(bus.StreamJournal) {
		_, chunk, part, err := journal.DecodeChunk(d.Body)
		if err != nil {
			r.t.Fatal(err)
		}
		if part && chunk.Last {
			n++
		}
	}
	return n
}

// A starting coordinator reads the file as it is by then, and knows none of those before it. What was used
// under these counts as it did live, to the unit: of a group that was not in the file for a while, of one
// that came later, of a limit that came later.
func TestWhatWasUsedUnderOtherFilesStaysCounted(t *testing.T) {
	noPoor := strings.Replace(strings.Replace(limited,
		"  - {id: poor, weight: 1, limits: {total_tokens: {amount: 1000, per: day}}}\n", "", 1),
		"agents:\n  - {id: a1, group_id: poor}\n", "", 1)
	noCost := strings.Replace(limited, ", cost_usd: {amount: 5, per: day}", "", 1)
	for _, c := range []struct {
		name   string
		before func(r *rig)
		node   string
		limit  string
		used   float64
	}{
		{"out of the file and into it again", func(r *rig) {
			r.reloadQuotas(limited)
			r.uses("t-1", "poor", 100)
			r.reloadQuotas(noPoor)
			r.uses("t-2", "poor", 600)
			r.pass(time.Minute)
			r.reloadQuotas(limited)
		}, "pool/poor", "total_tokens", 100},
		// The broker does not count the messages of so young a journal yet.
		{"out of the file and into it again within a second", func(r *rig) {
			r.reloadQuotas(limited)
			r.uses("t-1", "poor", 100)
			r.reloadQuotas(noPoor)
			r.uses("t-2", "poor", 600)
			r.reloadQuotas(limited)
		}, "pool/poor", "total_tokens", 100},
		{"a limit that comes later", func(r *rig) {
			r.reloadQuotas(noCost)
			r.uses("t-1", "rich", 2000) // 0.50 $
			r.pass(time.Minute)
			r.reloadQuotas(limited)
			r.uses("t-2", "rich", 2000)
		}, "pool/rich", "cost_usd", 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var live map[string]view.QuotaNode
			after(t, quotaFleet, func(first *rig) {
				c.before(first)
				live = first.quotas(view.QuotaSelection{})
				for _, b := range live[c.node].Budgets {
					if b.Dimension == c.limit && b.Used != c.used {
						t.Errorf("live it has %+v, want %v used", b, c.used)
					}
				}
			}, func(second *rig) {
				second.limit()
				second.start()
				if got := second.quotas(view.QuotaSelection{}); !reflect.DeepEqual(budgets(got), budgets(live)) {
					t.Errorf("after a restart\n  %+v, live\n  %+v", budgets(got), budgets(live))
				}
			})
		})
	}
}

// A coordinator that is started without quotas.yaml limits nothing, and says so when the journal knows of
// quotas. The calls that are open are settled all the same, and are their group's again when the file is
// there: of poor's 1,000 the 40 that the third has set aside, and then used. (The 300 of the first are
// settled while there are no quotas, and belong to no group.)
func TestStartedWithoutTheQuotasOfBefore(t *testing.T) {
	after(t, quotaFleet, func(first *rig) {
		first.reloadQuotas(limited)
		first.asked(aCall(coordinator.CallReserve, "1", 300), coordinator.CallGranted)
		first.asked(aCall(coordinator.CallReserve, "2", 20), coordinator.CallGranted)
		first.asked(aCall(coordinator.CallRelease, "2", 0), coordinator.CallGranted)
		first.asked(aCall(coordinator.CallReserve, "3", 40), coordinator.CallGranted)
	}, func(second *rig) {
		second.start()
		if !strings.Contains(second.log.String(), "nothing is limited: this coordinator has no quotas.yaml") {
			t.Errorf("it does not say that the quotas are missing:\n%s", second.log)
		}
		second.asked(aCall(coordinator.CallSettle, "1", 300), coordinator.CallGranted)
		second.asked(aCall(coordinator.CallSettle, "2", 20), coordinator.CallEnded)
		second.reloadQuotas(limited)
		second.used(0, 40)
		second.asked(aCall(coordinator.CallSettle, "3", 40), coordinator.CallGranted)
		second.used(40, 0)
	})
}

// Where there never were any it says nothing.
func TestStartedWithoutQuotas(t *testing.T) {
	after(t, quotaFleet, func(first *rig) { first.uses("t-1", "poor", 100) }, func(second *rig) {
		second.start()
		if log := second.log.String(); !strings.Contains(log, "leading: taking tasks") ||
			strings.Contains(log, "quotas.yaml") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// budgets are those of all nodes.
func budgets(nodes map[string]view.QuotaNode) map[string][]view.QuotaBudget {
	all := make(map[string][]view.QuotaBudget)
	for id, n := range nodes {
		all[id] = n.Budgets
	}
	return all
}

// A change of the quotas is followed by a snapshot at once; a file without other quotas by none, nor
// are controls, however many, which the journal has anyway.
func TestOtherQuotasAreFollowedByASnapshot(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.pass(time.Minute)
		r.uses("t-1", "rich", 1000)
		before := r.snapshots()
		more := strings.Replace(limited, "amount: 10000", "amount: 20000", 1)
		r.reloadQuotas(more)
		if n := r.snapshots() - before; n != 1 {
			t.Fatalf("%d snapshots follow at once, want 1", n)
		}
		r.uses("t-2", "rich", 1000)
		before = r.snapshots()
		r.reloadQuotas(more + "# and no other quotas\n")
		for i := range 5 {
			r.mustSet("pool/rich", "total_tokens.amount", fmt.Sprint(30000+i))
		}
		r.pass(time.Minute)
		if n := r.snapshots() - before; n != 0 {
			t.Errorf("%d snapshots follow controls and what changes nothing, want none", n)
		}
	})
}

// Files that pass every check, and of which something cannot be made all the same, are refused; the
// coordinator goes on with those before.
func TestFilesThatCannotBePutInForceAreRefused(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		if _, err := r.service.ControlQuota(context.Background(),
			view.QuotaChange{Node: "pool/rich", Values: []view.QuotaValue{{Key: "weight", Value: "2"}}}); err != nil {
			t.Fatal(err)
		}
		before := r.service.config.Load()
		broken := *quotasIn(t, limited)
		broken.Source, broken.Nodes = "", append([]coordinator.QuotaNode(nil), broken.Nodes...)
		files := before.WithQuotas(&broken)
		for i := range broken.Nodes {
			broken.Nodes[i].Parent = 1 << 20 // a fault of the program
		}
		r.service.Reload(files, nil)
		if _, problem := r.service.reloads.read(); !strings.Contains(problem, "please report it") {
			t.Errorf("what is wrong with the files: %q", problem)
		}
		if r.service.config.Load() != before {
			t.Error("they are in force")
		}
		r.reloadQuotas(strings.Replace(limited, "amount: 1000,", "amount: 2000,", 1)) // other files still are taken
		if n := r.quotas(view.QuotaSelection{Node: "pool/poor"})["pool/poor"]; n.Budgets[0].Limit != 2000 {
			t.Errorf("pool/poor: %+v", n)
		}
		if n := r.quotas(view.QuotaSelection{Node: "pool/rich"})["pool/rich"]; n.Weight != 2 {
			t.Errorf("what stands has gone: %+v", n)
		}
	})
}
