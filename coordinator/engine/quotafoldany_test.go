package engine_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// drawRecord draws a record of quotas as some journal might have it: of nodes that there are or are not,
// with fields missing that its writer did not know, or more of them than this version reads.
func drawRecord(t *rapid.T) coordinator.Record {
	number := rapid.OneOf(rapid.Int64Range(-3, 200),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 60, 1e15, epoch.UnixNano(),
			epoch.Add(time.Minute).UnixNano()}))
	at := func(name string) time.Time {
		return rapid.SampledFrom([]time.Time{{}, epoch, epoch.Add(time.Second), epoch.Add(time.Hour),
			epoch.AddDate(80, 0, 0)}).Draw(t, name)
	}
	node := rapid.SampledFrom([]string{"", "pool", "pool/g1", "pool/g1/g2", "pool/g1/a", "p", "p/x1", "p@a", "p@b/x1/g1",
		"gone"})
	key := coordinator.KeyOf(coordinator.TaskID("call:" + rapid.SampledFrom(callIDs).Draw(t, "key")))
	dimension := coordinator.Dimension(rapid.IntRange(0, coordinator.NumDimensions-1).Draw(t, "dimension"))
	amounts := func() (a coordinator.Amounts) {
		for d := range a {
			a[d] = number.Draw(t, "amount")
		}
		return a
	}
	values := func(most int) []int64 { return rapid.SliceOfN(number, 0, most).Draw(t, "values") }
	first := rapid.Bool().Draw(t, "first")
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		r := &coordinator.QuotaReserved{
			Key: key, Group: rapid.SampledFrom(quotaGroups).Draw(t, "group"), Agent: rapid.SampledFrom(agentIDs).
				Draw(t, "agent"), Provider: rapid.SampledFrom(append(quotaProviders, "")).Draw(t, "provider"),
			Amounts: amounts(), Expect: number.Draw(t, "expect"), At: at("at"), Until: at("until"), Before: first,
			State: uint8(rapid.IntRange(0, 5).Draw(t, "state")),
			Call:  rapid.Bool().Draw(t, "call"), Level: coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "level")),
			Waiting: uint8(rapid.IntRange(0, 255).Draw(t, "waiting")),
			Served:  rapid.SliceOfN(node, 0, 3).Draw(t, "served"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "loans") {
			r.Loans = append(r.Loans, coordinator.QuotaLoan{From: node.Draw(t, "from"), To: node.Draw(t, "to"),
				Dimension: dimension, Amount: number.Draw(t, "lent")})
		}
		return r
	case 1:
		return &coordinator.QuotaEnded{
			Key: key, How: coordinator.QuotaEnd(rapid.IntRange(0, coordinator.NumQuotaEnds-1).Draw(t, "how")), Used: amounts(),
			At: at("at"), Keep: first, Type: rapid.SampledFrom([]string{"", "chat"}).Draw(t, "type"),
			Took: time.Duration(number.Draw(t, "took")), Heard: rapid.Bool().Draw(t, "heard"),
			Word: coordinator.QuotaWord(rapid.IntRange(0, coordinator.NumQuotaWords-1).Draw(t, "word")),
		}
	case 2:
		return &coordinator.QuotaExtended{Key: key, More: amounts(), At: at("at"), Until: at("until")}
	case 3:
		return &coordinator.QuotaBefore{Node: node.Draw(t, "node"), Dimension: dimension, Rate: first,
			Start: number.Draw(t, "start"), Values: values(20)}
	case 4:
		return &coordinator.QuotaTold{Node: node.Draw(t, "node"), Dimension: dimension, Percent: number.Draw(t, "percent"),
			At: at("at")}
	case 5:
		return &coordinator.PoolHeard{
			Node: node.Draw(t, "node"), At: at("at"), BlockedUntil: at("blocked"), PerMille: number.Draw(t, "per mille"),
			CutAt: at("cut"), Refusals: number.Draw(t, "refusals"),
			Taken: amounts(), Before: first, Calls: number.Draw(t, "calls"), Success: number.Draw(t, "success"),
			Latency: time.Duration(number.Draw(t, "latency")),
		}
	case 6:
		return &coordinator.ShareBefore{First: first, Group: rapid.SampledFrom(quotaGroups).Draw(t, "group"),
			Parent: rapid.SampledFrom(quotaGroups).Draw(t, "parent"), Values: values(8)}
	case 7:
		return &coordinator.EstimateBefore{First: first, Tenant: "g1", Model: "x1",
			Level: uint8(rapid.IntRange(0, 4).Draw(t, "level")), Bucket: int(number.Draw(t, "bucket")),
			Sum: number.Draw(t, "sum"), Counts: []uint32{1, 3}}
	default:
		r := &coordinator.QuotaControlled{First: first, Day: at("day")}
		for range rapid.IntRange(0, 2).Draw(t, "uses") {
			r.Uses = append(r.Uses, coordinator.QuotaUse{Node: node.Draw(t, "node"), Used: amounts(),
				Answers: number.Draw(t, "answers"), Took: time.Duration(number.Draw(t, "took")), Run: int(number.Draw(t, "run"))})
		}
		return r
	}
}

// Whatever a journal says of quotas, an engine that has folded it goes on: else it would end again at every start,
// with all that take over from it. What it counts then may be anything.
func TestFoldWhateverTheJournalSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policyOf(worker("a").slots(3), worker("b").slots(3))
		p.Quotas = drawQuotas(t)
		e := engine.New()
		e.Apply(epoch, coordinator.PolicyChanged{Policy: &p.Policy}, nil)
		e.Follow()
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			e.Fold(epoch, drawRecord(t))
			if rapid.IntRange(0, 9).Draw(t, "other quotas at 0") == 0 {
				other := p.Policy
				other.Quotas = drawQuotas(t)
				e.FoldPolicy(epoch, &other)
			}
		}
		e.Image(epoch)
		now := epoch.Add(2 * time.Second)
		e.Lead(now)
		e.Apply(now, coordinator.SessionOpened{}, nil)
		for range 3 {
			e.Apply(now, coordinator.CallAsked{Token: 1, Calls: []coordinator.Call{drawCall(t)}}, nil)
			now = now.Add(time.Minute)
			e.Apply(now, coordinator.Tick{}, nil)
		}
		e.Quotas(now).Snapshot(1000, nil)
		e.Quotas(now).Explain(&engine.QuotaQuestion{Group: "g1", Agent: "a"})
	})
}
