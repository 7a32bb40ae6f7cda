package claims_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/claims"
	"taskbus/coordinator/pull"
)

var began = time.Unix(2_000_000_000, 0)

// The tests name agents by strings, and classes, too.
type (
	seat  = claims.Seat[string]
	reach = claims.Reach[string]
)

// office is a line with a seat for each agent.
type office struct {
	claims.Line[string, string]
	seats map[string]*seat
}

func newOffice() *office { return &office{seats: make(map[string]*seat)} }

// seat returns that of the agent, also of one that has never claimed.
func (o *office) seat(agent string) *seat {
	if o.seats[agent] == nil {
		o.seats[agent] = &seat{}
	}
	return o.seats[agent]
}

// add has a claim of the agent wait that is for so many tasks.
func (o *office) add(now time.Time, agent string, items int) *seat {
	s := o.seat(agent)
	o.Add(now, agent, 0, s, coordinator.ClaimReceived{Agent: coordinator.AgentID(agent), MaxItems: items}, 0)
	return s
}

// place returns that of the agent's claim, which waits.
func (o *office) place(agent string) *claims.Place[string, string] {
	ps := o.Places()
	return &ps[slices.IndexFunc(ps, func(p claims.Place[string, string]) bool { return !p.Gone() && p.Agent == agent })]
}

// plan makes one for n agents, each with 4 slots free and nothing in hand.
func (o *office) plan(now time.Time, n, tasks int, classes ...string) *claims.Plan[string] {
	f := pull.Fleet{Unclaimed: tasks}
	for i := range n {
		f.Agents = append(f.Agents, pull.Agent{ID: coordinator.AgentID(fmt.Sprint("a", i)), Capacity: 1, Free: 4, Seen: now})
	}
	return o.NewPlan(now, fmt.Append(nil, classes), classes, f)
}

// TestLineKeepsItsOrder: whatever is added and removed, those that wait are in the order in which they came, and
// places that are gone are few.
func TestLineKeepsItsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	o, want := newOffice(), []string(nil)
	for i := range 20_000 {
		agent := fmt.Sprint("a", rng.IntN(300))
		if at := slices.Index(want, agent); at >= 0 {
			o.Remove(o.seat(agent))
			o.Remove(o.seat(agent)) // no other leaves
			want = slices.Delete(want, at, at+1)
		} else {
			o.add(began, agent, 1)
			want = append(want, agent)
			if n := len(o.Places()); (n-1-(len(want)-1))*16 > n-1 {
				t.Fatalf("step %d: %d places for %d claims", i, n, len(want))
			}
		}
		if o.seat(agent).Waits() != slices.Contains(want, agent) || o.Len() != len(want) {
			t.Fatalf("step %d: %s waits: %v; %d wait, want %d", i, agent, o.seat(agent).Waits(), o.Len(), len(want))
		}
		if got := slices.Collect(o.All()); !slices.Equal(got, want) {
			t.Fatalf("step %d: %v wait, want %v", i, got, want)
		}
	}
}

// TestRemovedDuringAPass: a pass goes on over claims that are answered while it is made, and does not meet them.
func TestRemovedDuringAPass(t *testing.T) {
	o := newOffice()
	for i := range 100 {
		o.add(began, fmt.Sprint(i), 1)
	}
	var met []string
	for agent := range o.All() {
		met = append(met, agent)
		o.Remove(o.seat(agent))
		if len(met) == 1 {
			o.Remove(o.seat("1"))
		}
	}
	if len(met) != 99 || met[1] != "2" || o.Len() != 0 {
		t.Errorf("%d met, the second is %s; %d wait", len(met), met[1], o.Len())
	}
}

// TestTriedOutlivesTheClaim: what was tried for an agent in a moment was tried for its next claim, too.
func TestTriedOutlivesTheClaim(t *testing.T) {
	o := newOffice()
	s := o.add(began, "a", 1)
	o.place("a").Tried = 7
	o.Remove(s)
	o.add(began, "b", 1)
	o.add(began, "a", 1)
	if a, b := o.place("a").Tried, o.place("b").Tried; a != 7 || b != 0 {
		t.Errorf("a was tried at %d, b at %d", a, b)
	}
}

// TestDue: the line is served once for each change, and only while a claim waits.
func TestDue(t *testing.T) {
	o := newOffice()
	if o.Changed(); o.Due() {
		t.Error("due with no claim")
	}
	s := o.add(began, "a", 1)
	if !o.Due() {
		t.Error("a claim came")
	}
	if o.Begin(); o.Due() {
		t.Error("served, and nothing has changed")
	}
	if o.Changed(); !o.Due() {
		t.Error("something has changed")
	}
	if o.Remove(s); o.Due() {
		t.Error("nothing waits")
	}
}

// TestMember: of 5 items that a claim tells of 3 are known, so 2 are added to what is in hand later; it is seen
// for as long as its claim waits.
func TestMember(t *testing.T) {
	o, s := newOffice(), &seat{}
	o.Add(began, "a", 0, s, coordinator.ClaimReceived{Agent: "a", Capacity: 2, Pending: 5}, 3)
	later := began.Add(time.Minute)
	want := pull.Agent{ID: "a", Capacity: 2, Pending: 1 + 2, Free: 4, Seen: later}
	if got := s.Member(later, 1, 4); got != want {
		t.Errorf("waits: %+v, want %+v", got, want)
	}
	o.Remove(s)
	want.Seen = began
	if got := s.Member(later, 1, 4); got != want || !s.Claimed() {
		t.Errorf("answered: %+v, want %+v", got, want)
	}
}

// TestPlanOfLaterRounds: a plan for 256 agents grants 256/128 = 2 claims of later rounds something, until it is too
// old; one for 127 grants none.
func TestPlanOfLaterRounds(t *testing.T) {
	o := newOffice()
	o.Begin()
	p, key := o.plan(began, 256, 10, "go"), fmt.Append(nil, []string{"go"})
	if got, renew := o.Plan(began, key, false); got != p || renew {
		t.Errorf("the plan of this round: %v, to be renewed %v", got == p, renew)
	}
	if got, _ := o.Plan(began, []byte("other"), true); got != nil {
		t.Error("a plan of other classes")
	}
	o.Begin()
	if got, _ := o.Plan(began, key, false); got != nil {
		t.Error("a former plan though none may be used")
	}
	last := began.Add(claims.MaxAge - 1)
	for i := range 2 {
		if got, renew := o.Plan(last, key, true); got != p || !renew || !o.Former(p) {
			t.Fatalf("claim %d: the former plan: %v, to be renewed %v", i, got == p, renew)
		}
		o.Granted(p, true)
	}
	if got, _ := o.Plan(last, key, true); got != nil || p.Left() != 0 {
		t.Errorf("a third claim of a later round; %d left", p.Left())
	}
	if o.Told(last, key) != p || o.Told(last.Add(1), key) != nil {
		t.Error("answers tell of a plan for as long as it is not too old")
	}
	o.plan(began, 127, 10, "go")
	if o.Told(began, key) != nil {
		t.Error("answers tell of a plan for 127 agents twice")
	}
	if o.Reset(); o.Told(began, key) != nil {
		t.Error("a plan of the fleet before")
	}
}

// TestGrantedEndsOtherPlans: what one plan gives, another of the same round does not know of; nor does itself, if it
// was not given as its parts have it.
func TestGrantedEndsOtherPlans(t *testing.T) {
	for _, counted := range []bool{true, false} {
		o := newOffice()
		o.Begin()
		p, other := o.plan(began, 2, 10, "go"), o.plan(began, 2, 10, "go", "run")
		o.Granted(p, counted)
		if o.Former(p) == counted || !o.Former(other) {
			t.Errorf("counted %v: the plan is former: %v, the other: %v", counted, o.Former(p), o.Former(other))
		}
	}
}

// TestHasEnough: a claim that a plan granted nothing is not asked for again while the plan is good and the agent
// reaches the same.
func TestHasEnough(t *testing.T) {
	o := newOffice()
	o.Begin()
	s, r := o.add(began, "a0", 1), reach{Classes: []string{"go"}, Tasks: 1}
	if o.place("a0").HasEnough(began, r) {
		t.Error("nothing was said yet")
	}
	p := o.plan(began, 128, 10, "go")
	o.place("a0").SetEnough(p)
	old := began.Add(claims.MaxAge)
	if !o.place("a0").HasEnough(old.Add(-1), r) || o.place("a0").HasEnough(old, r) {
		t.Error("as long as the plan is not too old")
	}
	if o.place("a0").HasEnough(began, reach{Classes: []string{"go", "run"}, Tasks: 2}) {
		t.Error("the agent reaches more")
	}
	o.Remove(s)
	if o.add(began, "a0", 1); o.place("a0").HasEnough(began, r) {
		t.Error("another claim")
	}
	o.place("a0").SetEnough(p)
	o.Begin()
	if o.Granted(p, true); o.place("a0").HasEnough(began, r) {
		t.Error("the plan's only later claim, 128/128, has been granted")
	}
}

// TestGrant: an agent has no more than it asked for, than waits, than is its part (of 6 tasks for 2 alike: 3) and
// than it has slots.
func TestGrant(t *testing.T) {
	o := newOffice()
	o.Begin()
	for _, c := range []struct {
		items   int // asked for
		tasks   int
		literal bool
		want    int
		limit   pull.Limit
	}{
		{items: 2, tasks: 6, want: 2, limit: pull.LimitNone},
		{items: 9, tasks: 6, want: 3, limit: pull.LimitFairShare},
		{items: 9, tasks: 1, want: 1, limit: pull.LimitUnclaimed},
		{items: 9, tasks: 6, literal: true, want: 4, limit: pull.LimitSlots},
		{items: 9, tasks: 2, literal: true, want: 2, limit: pull.LimitUnclaimed},
		{items: 4, tasks: 6, literal: true, want: 4, limit: pull.LimitNone},
	} {
		s := o.add(began, "a0", c.items)
		p := o.plan(began, 2, c.tasks, "go")
		if g := s.Grant(p, c.literal, c.tasks, 4); g.Items != c.want || g.Limit != c.limit {
			t.Errorf("%+v: %d granted, limit %v", c, g.Items, g.Limit)
		}
		o.Remove(s)
	}
}
