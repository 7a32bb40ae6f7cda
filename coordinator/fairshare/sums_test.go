package fairshare

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
)

// Dollars are not limited, and ten tasks say that they take as many as a message can say. Then a budget of
// dollars is put into the file: all of it is taken, and not, because the sum is more than a number holds,
// more than there ever was.
func TestSumsOfReservations(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	file := func(dollars *coordinator.QuotaLimit) *coordinator.Quotas {
		q := &coordinator.Quotas{TombstoneTTL: time.Hour,
			Nodes: []coordinator.QuotaNode{{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1}}}
		q.Nodes[0].Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1000,
			Period: coordinator.Period{Unit: coordinator.PerDay}}
		q.Nodes[0].Budgets[coordinator.DimCost] = dollars
		return q
	}
	l := NewLedger()
	l.Install(now, file(nil))
	all := Charge{}
	all.Amounts[coordinator.DimRequests], all.Amounts[coordinator.DimCost] = 1, math.MaxInt64
	for i := range 10 {
		if v := l.Reserve(now, keyOf(fmt.Sprint("t", i)), &all, time.Time{}); !v.OK {
			t.Fatalf("%+v", v)
		}
	}
	l.Install(now, file(&coordinator.QuotaLimit{Nominal: 1_000_000, Period: coordinator.Period{Unit: coordinator.PerDay}}))
	one := Charge{}
	one.Amounts[coordinator.DimCost] = 1
	for i := range 11 {
		n, _ := l.Node(now, "pool")
		v := l.Reserve(now, keyOf("one"), &one, time.Time{})
		if want := i == 10; v.OK != want {
			t.Fatalf("when %d have ended, %d are set aside of a million, and one more is admitted: %v", i, n.Budgets[1].Reserved,
				v.OK)
		}
		if i < 10 {
			l.Release(now, keyOf(fmt.Sprint("t", i)), false)
		}
	}
}

// A reservation that is extended again and again counts as much as is counted of any, and not, because
// the sum is more than a number holds, nothing.
func TestSumOfExtensions(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	l := NewLedger()
	q := &coordinator.Quotas{TombstoneTTL: time.Hour,
		Nodes: []coordinator.QuotaNode{{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1}}}
	q.Nodes[0].Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1000,
		Period: coordinator.Period{Unit: coordinator.PerDay}}
	l.Install(now, q)
	c := Charge{Call: true}
	c.Amounts[coordinator.DimRequests] = 1
	l.Reserve(now, keyOf("c"), &c, now.Add(time.Hour))
	for range 20 { // 20 · 2⁶⁰ are more than 2⁶³
		if v := l.Extend(now, keyOf("c"), coordinator.Amounts{coordinator.DimCost: math.MaxInt64}, time.Time{}); !v.OK {
			t.Fatalf("%+v", v)
		}
		if whole, _, _ := l.Find(keyOf("c")); whole.Amounts[coordinator.DimCost] != billing.Most {
			t.Fatalf("it takes %d", whole.Amounts[coordinator.DimCost])
		}
	}
}
