package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// A provider wants no call for an hour, and 70 % of its rates are used from then on, 5 % more each minute.
// It is taken out of the file for three minutes and ten seconds and put back: it is left alone until the
// hour is over, and has 85 % of its rates. So it is for a start while it is away, from a snapshot of then,
// and for a standby that folds the leader's records without the file. After half an hour it has all of its
// rates, after the hour nothing is remembered.
func TestClosedProviderOutOfTheFile(t *testing.T) {
	const d = coordinator.DimRequests
	provider := func() *tree {
		tr := newTree(perSecond(d, 1000, 1000))
		tr.Nodes[0].ID, tr.Nodes[0].Name, tr.Nodes[0].Provider = "lab", "lab", "lab"
		return tr
	}
	c := &Charge{Provider: "lab", Amounts: coordinator.Amounts{1}}
	now := epoch.Add(time.Hour)
	until := now.Add(time.Hour)
	for _, how := range []string{"reload", "restart", "follow"} {
		l, follower := provider().ledger(), NewLedger()
		l.Reserve(now, id(1), c, time.Time{})
		heard := l.Hear(now, now, c, &coordinator.ProviderWord{Status: 429, RetryAfter: time.Hour}, "")
		l.Install(now.Add(10*time.Second), nil)
		switch how {
		case "restart":
			l = restarted(l, now.Add(time.Minute), nil)
		case "follow":
			follower.Install(now, nil)
			follower.Fold(heard)
			l = follower
		}
		for _, at := range []struct {
			after    time.Duration
			perMille int64
			closed   bool
		}{{190 * time.Second, 850, true}, {30 * time.Minute, 1000, true}, {time.Hour, 1000, false}} {
			back := now.Add(at.after)
			l.Install(back, &provider().Quotas)
			h := l.HealthOf(c)
			if h.PerMille != at.perMille || h.BlockedUntil.Equal(until) != at.closed {
				t.Errorf("%s, back after %v: %+v, want %d and closed %v", how, at.after, h, at.perMille, at.closed)
			}
			if v := l.Reserve(back, id(int(at.after)), c, time.Time{}); v.OK == at.closed {
				t.Errorf("%s, back after %v: %+v", how, at.after, v)
			}
			l.Install(back, nil)
		}
		for _, r := range l.Export(until) { // nor does a snapshot say what makes no difference
			if r, is := r.(*coordinator.PoolHeard); is {
				t.Errorf("%s: a snapshot of %v has %+v", how, until, r)
			}
		}
		if l.Settle(until, id(int(time.Hour)), c.Amounts, false); l.unlisted.Len() > 0 {
			t.Errorf("%s: remembered are %+v", how, l.unlisted.Records(l.now)[0])
		}
	}
}
