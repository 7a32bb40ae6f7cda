package place

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// TestPrecedence: a task of 10 tokens, behind one of 30 of its turn and one of 20 of another priority, while one of
// another group waits that takes 5 requests for a cost of 2.
func TestPrecedence(t *testing.T) {
	l := Beside(1, normal, costs(10))
	first, second, other := costs(30), costs(20), costs(2)
	other.Amounts[coordinator.DimRequests] = 5
	l.Add(1, normal, &first, true, false)
	l.Add(1, high, &second, false, false)
	l.Add(2, normal, &other, true, false)
	b := &l.before
	if b.cost != 30 || b.dearest != 30 || b.own != 30 || b.before.Calls != 2 {
		t.Errorf("%+v: of its turn 30 go first", b)
	}
	if own := b.before.Own; own[coordinator.DimInputTokens] != 30+20 || own[coordinator.DimRequests] != 1+1 {
		t.Errorf("its group uses %v", own)
	}
	if b.before.Most[coordinator.DimRequests] != 1 || b.before.Any[coordinator.DimRequests] != 5 {
		t.Errorf("one takes %v at most, of any group %v", b.before.Most, b.before.Any)
	}
	b.inLane(3) // each takes the 30 tokens of the largest
	if b.cost != 30+3*30 || b.before.Calls != 5 || b.before.Own[coordinator.DimInputTokens] != 50+3*30 {
		t.Errorf("with a lane: %+v", b)
	}
	// For a cost of 7 others take ⌈7·5/2⌉ = 18 requests and 7 tokens, as the largest does for each unit of its cost.
	all := b.with(7)
	if all.All[coordinator.DimRequests] != 5+18 || all.All[coordinator.DimInputTokens] != 140+7 {
		t.Errorf("others take %v", all.All)
	}
	shared := Beside(1, normal, costs(10))
	shared.Add(2, normal, &second, true, true) // without a group: it may be charged to that of its agent
	if shared.before.before.Calls != 1 || shared.before.cost != 0 || shared.Ahead != 0 {
		t.Errorf("%+v", shared)
	}
	if most := plus(math.MaxInt64/2, 1e30); most != math.MaxInt64/2 {
		t.Errorf("beyond all numbers: %d", most)
	}
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// ledger of a group with these limits, and of its agent a.
func ledger(team, agent func(n *coordinator.QuotaNode)) *fairshare.Ledger {
	q := &coordinator.Quotas{ReservationTTL: time.Hour, TombstoneTTL: time.Hour, Nodes: []coordinator.QuotaNode{
		{ID: "pool", Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1},
		{ID: "pool/team", Kind: coordinator.QuotaGroup, Name: "team", Weight: 1},
	}}
	if team != nil {
		team(&q.Nodes[1])
	}
	if agent != nil {
		q.Nodes = append(q.Nodes, coordinator.QuotaNode{ID: "pool/team/a", Kind: coordinator.QuotaAgent, Name: "a",
			Parent: 1, Weight: 1})
		agent(&q.Nodes[2])
	}
	l := fairshare.NewLedger()
	l.Install(noon, q)
	return l
}

// every allows one request in so long.
func every(d time.Duration) func(n *coordinator.QuotaNode) {
	return func(n *coordinator.QuotaNode) {
		n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 1, Per: d, Burst: 1}
	}
}

func seats(n *coordinator.QuotaNode) { n.Seats = &coordinator.QuotaLimit{Nominal: 1} }

// TestDelay: how long quota keeps a task of a group behind two of its group.
func TestDelay(t *testing.T) {
	const rounding = time.Millisecond // see fairshare.Ledger.Delay
	a := []coordinator.AgentID{"a"}
	for name, c := range map[string]struct {
		ledger         *fairshare.Ledger
		takers, owners []coordinator.AgentID
		want           time.Duration
		short          string
	}{
		"no limit": {ledger: ledger(nil, nil)},
		// The first goes at once, and the third after two more minutes.
		"a rate": {ledger: ledger(every(time.Minute), nil), want: 2*time.Minute + rounding},
		"a seat": {ledger: ledger(seats, nil), short: "pool/team"},
		// An agent without quota of its own has no limit; with a each takes ten seconds.
		"an agent with less": {ledger: ledger(nil, every(10*time.Second)), takers: append(a, "b", "c"),
			owners: a},
		"that agent alone": {ledger: ledger(nil, every(10*time.Second)), takers: a,
			owners: a, want: 20*time.Second + rounding},
		"its seat":       {ledger: ledger(nil, seats), takers: a, owners: a, short: "pool/team/a"},
		"its seat, or b": {ledger: ledger(nil, seats), takers: append(a, "b"), owners: a},
	} {
		takes := costs(1)
		takes.Group, takes.Amounts[coordinator.DimConcurrency] = "team", 1
		l := Beside(1, normal, takes)
		for range 2 {
			l.Add(1, normal, &takes, true, false)
		}
		s := &Supply{Ledger: c.ledger, At: noon, Takers: c.takers, Owners: c.owners}
		before := l.before.with(0)
		got, short := s.delay(takes, &before)
		switch {
		case (short != nil) != (c.short != ""), short != nil && short.Node != c.short:
			t.Errorf("%s: lacks %+v, want %q", name, short, c.short)
		case got != c.want:
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
