package claims

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/pull"
)

var began = time.Unix(2_000_000_000, 0)

// The tests name agents by strings, and classes, too.
type (
	seat  = Seat[string]
	reach = Reach[string]
)

// office is a line with a seat for each agent.
type office struct {
	Line[string, string]
	seats map[string]*seat
	// What the kernel would say of all agents, but for the seat, and of some.
	all    Agent[string]
	usable map[string]agentset.Set // by class; else all are
	cannot []string                // without quota
	absent []string
	ejects bool
}

func newOffice() *office {
	return &office{seats: make(map[string]*seat), all: Agent[string]{
		Mode: coordinator.PullShared, Free: 4, Present: true, Reachable: true,
	}}
}

func (o *office) Agent(agent string) Agent[string] {
	x := o.all
	x.Seat, x.Present = o.seat(agent), x.Present && !slices.Contains(o.absent, agent)
	return x
}
func (o *office) Measured(time.Time, string) float64 { return 1 }
func (o *office) Ejected(string) bool                { return o.ejects }
func (o *office) Affords(_ time.Time, agent string, _ reach) bool {
	return !slices.Contains(o.cannot, agent)
}
func (o *office) Class(class string) (string, agentset.Set) {
	if set, some := o.usable[class]; some {
		return class, set
	}
	all := agentset.New(len(o.agents))
	for i := range o.agents {
		all.Add(i)
	}
	return class, all
}

// hire has n agents that have claimed share the work, each with 4 slots free and nothing in hand.
func (o *office) hire(n int) {
	o.agents, o.pullers = nil, agentset.New(n)
	for i := range n {
		name := fmt.Sprint("a", i)
		if s := o.seat(name); !s.Claimed() {
			s.claimed, s.Claim.Agent = began, coordinator.AgentID(name)
		}
		o.agents = append(o.agents, name)
		o.pullers.Add(i)
	}
}

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
func (o *office) place(agent string) *Place[string, string] {
	return &o.places[slices.IndexFunc(o.places, func(p Place[string, string]) bool { return !p.gone && p.Agent == agent })]
}

// planOf makes one for n agents.
func (o *office) planOf(now time.Time, n, tasks int, classes ...string) *Plan[string] {
	o.hire(n)
	r := reach{Classes: classes, Tasks: tasks}
	return o.newPlan(now, o.keyOf(r, o), "a0", r, o)
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
			if n := len(o.places); (n-1-(len(want)-1))*16 > n-1 {
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
	if p := o.place("a"); !p.Try(7) || p.Try(7) {
		t.Error("once in a moment")
	}
	o.Remove(s)
	o.add(began, "b", 1)
	o.add(began, "a", 1)
	if a, b := o.place("a").Try(7), o.place("b").Try(7); a || !b {
		t.Errorf("to be tried: a %v, b %v", a, b)
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
	o, r := newOffice(), reach{Classes: []string{"go"}, Tasks: 10}
	o.Begin()
	p := o.planOf(began, 256, 10, "go")
	if o.plan(began.Add(MaxAge), "a0", r, o) != p || o.plan(began, "a0", reach{[]string{"go", "run"}, 10}, o) == p {
		t.Error("the plan of this round is for all that reach the same, however old")
	}
	o.Begin()
	last := began.Add(MaxAge - 1)
	for i := range 2 {
		if o.plan(last, "a0", r, o) != p || p.Left != 2-i {
			t.Fatalf("claim %d: not by the former plan; %d left", i, p.Left)
		}
		o.granted(p, true)
	}
	if o.plan(last, "a0", r, o) == p || p.Left != 0 {
		t.Errorf("a third claim of a later round; %d left", p.Left)
	}
	for _, c := range []struct {
		at      time.Duration
		formers bool
		again   bool
	}{{MaxAge - 1, true, true}, {MaxAge, true, false}, {MaxAge - 1, false, false}} {
		o := newOffice()
		o.Begin()
		p := o.planOf(began, 256, 10, "go")
		o.Begin()
		o.formers = c.formers
		if again := o.plan(began.Add(c.at), "a0", r, o) == p; again != c.again {
			t.Errorf("after %v, plans of before %v: used again %v", c.at, c.formers, again)
		}
	}
}

// TestReported: answers report a plan for 128 agents or more for as long as it is not too old, as things stand by then.
func TestReported(t *testing.T) {
	for _, c := range []struct {
		agents int
		at     time.Duration
		again  bool
	}{{128, MaxAge - 1, true}, {128, MaxAge, false}, {127, 0, false}} {
		o := newOffice()
		o.Begin()
		p := o.planOf(began, c.agents, 10, "go")
		o.Begin()
		reported := o.Reported(began.Add(c.at), "a0", reach{[]string{"go"}, 7}, o)
		if again := reported == p; again != c.again || reported.Unclaimed() != 7 {
			t.Errorf("%+v: again %v, of %d tasks", c, again, reported.Unclaimed())
		}
	}
	o := newOffice()
	o.add(began, "a0", 1)
	p := o.planOf(began, 128, 10, "go")
	o.all.Number = 9
	o.Reset(o.agents, o)
	if o.Reported(began, "a0", reach{[]string{"go"}, 10}, o) == p || o.place("a0").Number != 9 || !o.Due() {
		t.Error("another fleet has other plans, and other numbers")
	}
}

// TestPlansAreForgotten: those that are too old when another is made, but for those of the round at hand.
func TestPlansAreForgotten(t *testing.T) {
	o := newOffice()
	o.Begin()
	o.planOf(began, 1, 1, "go")
	o.planOf(began.Add(MaxAge), 1, 1, "run") // of one round
	if n := len(o.Plans); n != 2 {
		t.Errorf("%d plans of this round, want 2", n)
	}
	o.Begin()
	o.planOf(began.Add(2*MaxAge-1), 1, 1, "walk")
	if n := len(o.Plans); n != 2 { // "go" is too old, "run" is not
		t.Errorf("%d plans, want 2", n)
	}
	o.planOf(began.Add(2*MaxAge), 1, 1, "fly")
	if n := len(o.Plans); n != 2 { // "run" is too old, "walk" is of this round
		t.Errorf("%d plans, want 2", n)
	}
}

// TestPlanKeepsItsClasses: what it is of does not change with the list that it was made from.
func TestPlanKeepsItsClasses(t *testing.T) {
	o := newOffice()
	o.Begin()
	r := reach{Classes: []string{"go"}, Tasks: 1}
	o.add(began, "a0", 1)
	o.hire(128)
	o.place("a0").enough = o.newPlan(began, o.keyOf(r, o), "a0", r, o)
	r.Classes[0] = "run"
	if o.place("a0").hasEnough(began, r) {
		t.Error("it is of another class")
	}
	two := string(o.keyOf(reach{Classes: []string{"a", "b"}}, o))
	if two == string(o.keyOf(reach{Classes: []string{"ab"}}, o)) {
		t.Error("two classes have the key of one")
	}
}

// TestGrantedEndsOtherPlans: what one plan gives, another of the same round does not know of; nor does itself, if it
// was not given as its parts have it. It costs the plan no claim of later rounds.
func TestGrantedEndsOtherPlans(t *testing.T) {
	for _, counted := range []bool{true, false} {
		o := newOffice()
		o.Begin()
		p, other := o.planOf(began, 256, 10, "go"), o.planOf(began, 2, 10, "go", "run")
		o.granted(p, counted)
		if (p.round != o.round) == counted || other.round == o.round || p.Left != 2 {
			t.Errorf("counted %v: of round %d, the other of %d, this is %d; %d left", counted, p.round, other.round, o.round,
				p.Left)
		}
	}
}

// TestHasEnough: a claim that a plan granted nothing is not asked for again while the plan is good and the agent
// reaches the same.
func TestHasEnough(t *testing.T) {
	o := newOffice()
	o.Begin()
	s, r := o.add(began, "a0", 1), reach{Classes: []string{"go"}, Tasks: 1}
	if o.place("a0").hasEnough(began, r) {
		t.Error("nothing was said yet")
	}
	p := o.planOf(began, 128, 10, "go")
	o.place("a0").enough = p
	old := began.Add(MaxAge)
	if !o.place("a0").hasEnough(old.Add(-1), r) || o.place("a0").hasEnough(old, r) {
		t.Error("as long as the plan is not too old")
	}
	if o.place("a0").hasEnough(began, reach{Classes: []string{"go", "run"}, Tasks: 2}) {
		t.Error("the agent reaches more")
	}
	o.Remove(s)
	if o.add(began, "a0", 1); o.place("a0").hasEnough(began, r) {
		t.Error("another claim")
	}
	o.place("a0").enough = p
	o.Begin()
	if o.granted(p, true); o.place("a0").hasEnough(began, r) {
		t.Error("the plan's only later claim, 128/128, has been granted")
	}
}

// TestRound: claims are looked at in order, those passed over too; where one has enough by a plan of before, all
// that wait are looked at again, and by new plans alone.
func TestRound(t *testing.T) {
	o, r := newOffice(), reach{Classes: []string{"go"}, Tasks: 10}
	for i := range 3 {
		o.add(began, fmt.Sprint("a", i), 1)
	}
	o.Begin()
	o.place("a1").enough = o.planOf(began, 128, 10, "go")
	o.Remove(o.seat("a2"))
	var met []string
	for p := o.Begin(); p != nil; p = o.Next() {
		met = append(met, p.Agent)
		if p.Agent == "a0" {
			if _, by := o.Ask(began, p, reach{}, o); by != nil || o.Left() {
				t.Error("a0 reaches nothing")
			}
			continue
		}
		g, by := o.Ask(began, p, r, o)
		if second := len(met) > 2; (by != nil) != second || !o.Left() && !second {
			t.Errorf("%v were met: by a plan %v, left %v", met, by != nil, o.Left())
		}
		if by != nil {
			if got, given := o.Given(p, g, by, 1, o); !given || got.Granted != 1 || got.Limit != pull.LimitNone.String() {
				t.Errorf("it got what it asked for: %+v", got)
			}
		}
	}
	if !slices.Equal(met, []string{"a0", "a1", "a0", "a1"}) || o.Left() {
		t.Errorf("met %v; left %v, though all that could have some got it", met, o.Left())
	}
	if o.all.Free = 0; o.Begin() == nil {
		t.Fatal("two wait")
	}
	if _, by := o.Ask(began, o.place("a0"), r, o); by != nil || o.Left() {
		t.Error("an agent without slots is passed over")
	}
}

// TestModes: an agent that takes what it is given literally has all its slots filled, whatever its part (of 6 tasks
// for 2 alike: 3), and its part says nothing of what others may have.
func TestModes(t *testing.T) {
	for mode, want := range map[coordinator.PullMode]int{coordinator.PullShared: 3, coordinator.PullLiteral: 4} {
		o := newOffice()
		o.all.Mode = mode
		o.hire(2)
		o.add(began, "a0", 9)
		g, by := o.Ask(began, o.Begin(), reach{[]string{"go"}, 6}, o)
		if g.Items != want {
			t.Errorf("mode %v: %d granted, want %d", mode, g.Items, want)
		}
		o.Given(o.place("a0"), g, by, g.Items, o)
		if again := by.round == o.round; again != (mode == coordinator.PullShared) {
			t.Errorf("mode %v: the plan is good for another claim: %v", mode, again)
		}
	}
}

// TestGiven: a claim that gets less than it was granted is told that its agent may not have more, and one that a
// plan granted nothing has enough.
func TestGiven(t *testing.T) {
	o := newOffice()
	o.add(began, "a0", 3)
	p := o.Begin()
	o.hire(1)
	g, by := o.Ask(began, p, reach{[]string{"go"}, 9}, o)
	if by == nil || g.Limit != pull.LimitUnknownAgent && g.Items != 3 {
		t.Fatalf("granted %+v", g)
	}
	g = pull.Grant{Items: 3}
	if answer, given := o.Given(p, g, by, 0, o); given || answer.Granted != 0 || p.enough != nil || !o.Left() {
		t.Errorf("it waits on, and is asked for again: %+v", answer)
	}
	if o.Given(p, pull.Grant{}, by, 0, o); p.enough != by || o.former {
		t.Error("a plan of this round has granted it nothing")
	}
	by.round--
	if o.Given(p, pull.Grant{}, by, 0, o); !o.former {
		t.Error("a plan of before has granted it nothing")
	}
	by.round++
	if o.Given(p, pull.Grant{}, by, 0, o); !o.former {
		t.Error("that one of before has said so is known for the round")
	}
	if answer, _ := o.Given(p, g, by, 2, o); answer.Granted != 2 || answer.Limit != pull.LimitUnavailable.String() {
		t.Errorf("2 of 3: %+v", answer)
	}
	if answer, _ := o.Given(p, g, by, 3, o); answer.Granted != 3 || answer.Limit != pull.LimitNone.String() {
		t.Errorf("all: %+v", answer)
	}
	g = pull.Grant{Items: 2, Limit: pull.LimitSlots}
	if answer, _ := o.Given(p, g, by, 2, o); answer.Limit != pull.LimitSlots.String() {
		t.Errorf("the limit was known: %+v", answer)
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
		p := o.planOf(began, 2, c.tasks, "go")
		if g := s.grant(p, c.literal, c.tasks, 4); g.Items != c.want || g.Limit != c.limit {
			t.Errorf("%+v: %d granted, limit %v", c, g.Items, g.Limit)
		}
		o.Remove(s)
	}
}

// TestSharers: work is divided among the agents that have claimed, may have work, and could have and afford some of
// what is reached; the one that claims is among them whatever it can afford. While nothing waits all that may have
// work share.
func TestSharers(t *testing.T) {
	o := newOffice()
	o.hire(6)
	o.seat("a3").claimed = time.Time{} // it has never claimed
	o.pullers.Remove(4)                // it may not
	o.absent, o.cannot = []string{"a2"}, []string{"a0", "a1"}
	walk, run := agentset.New(6), agentset.New(6)
	for i := range 5 {
		walk.Add(i)
	}
	run.Add(5)
	o.usable = map[string]agentset.Set{"go": walk, "run": run}
	for _, tt := range []struct {
		of    string
		reach reach
		want  string
	}{
		{"a0", reach{[]string{"go"}, 1}, "[a0]"},           // a1 cannot afford it
		{"a0", reach{[]string{"go", "run"}, 2}, "[a0 a5]"}, // a5 reaches some of it
		{"a5", reach{[]string{"run"}, 1}, "[a5]"},          // the others reach none
		{"a2", reach{[]string{"go", "run"}, 2}, "[a5]"},    // it may have no work
		{"a0", reach{nil, 0}, "[a0 a1 a5]"},                // nothing waits
	} {
		var got []coordinator.AgentID
		for _, a := range o.sharers(began, tt.of, tt.reach, o) {
			if got = append(got, a.ID); a.Capacity != 1 || a.Free != 4 {
				t.Errorf("%s: as measured, with 4 slots: %+v", tt.of, a)
			}
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s of %v: %v, want %s", tt.of, tt.reach, got, tt.want)
		}
	}
}

// TestLimit: what keeps an agent from being granted anything, the first that holds.
func TestLimit(t *testing.T) {
	some, none := reach{[]string{"go"}, 1}, reach{}
	for _, tt := range []struct {
		name    string
		is      Agent[string]
		ejected bool
		reach   reach
		want    pull.Limit
	}{
		{"nothing", Agent[string]{Reachable: true, Free: 1}, true, some, pull.LimitNone},
		{"it is not reached", Agent[string]{}, false, some, pull.LimitUnavailable},
		{"no slot", Agent[string]{Reachable: true}, true, none, pull.LimitSlots},
		{"it is ejected", Agent[string]{Reachable: true, Free: 1}, true, none, pull.LimitUnavailable},
		{"nothing waits for it", Agent[string]{Reachable: true, Free: 1}, false, none, pull.LimitUnclaimed},
	} {
		o := newOffice()
		o.all, o.ejects = tt.is, tt.ejected
		if got := Limit("a", tt.reach, o); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestAnswers: what a claim for two tasks is told that is granted nothing, or one task that goes alone. Of 6 tasks for
// 2 agents alike the part of each is 3.
func TestAnswers(t *testing.T) {
	o, r := newOffice(), reach{[]string{"go"}, 6}
	o.hire(2)
	s := o.add(began, "a0", 2)
	s.Claim.ClaimID = "c"
	fleet := coordinator.PullFleet{Agents: 2, Unclaimed: 6, Capacity: 2}
	parted := fleet
	parted.FairShare = 3
	for _, tt := range []struct {
		name    string
		got     coordinator.ClaimAnswered
		granted int
		limit   pull.Limit
		fleet   coordinator.PullFleet
	}{
		{"refused", o.Refuse(began, "a0", r, pull.LimitSuperseded, o), 0, pull.LimitSuperseded, fleet},
		{"over", o.Over(began, "a0", r, o), 0, pull.LimitFairShare, parted},
		{"one alone", o.Reported(began, "a0", r, o).AnswerOne(s), 1, pull.LimitUnavailable, fleet},
	} {
		tt.fleet.Target = tt.got.Fleet.Target // a time of package pull
		want := coordinator.ClaimAnswered{
			Agent: "a0", ClaimID: "c", Granted: tt.granted, Limit: tt.limit.String(), Fleet: tt.fleet,
		}
		if tt.got != want {
			t.Errorf("%s: %+v, want %+v", tt.name, tt.got, want)
		}
	}
	if s.Claim.MaxItems = 1; o.Reported(began, "a0", r, o).AnswerOne(s).Limit != pull.LimitNone.String() {
		t.Error("it got all that it asked for")
	}
}

// TestWanted: a task that waits is a reason to look at the claims if an agent may have it that claims.
func TestWanted(t *testing.T) {
	o := newOffice()
	o.hire(3)
	o.pullers.Remove(1)
	first, second := agentset.New(3), agentset.New(3)
	first.Add(0)
	second.Add(1)
	if o.Wanted(first); o.changed || o.Reaches(first) {
		t.Error("no claim waits")
	}
	o.add(began, "a0", 1)
	o.Begin()
	if o.Wanted(second); o.Due() || o.Reaches(second) {
		t.Error("that agent does not claim")
	}
	if o.Wanted(first); !o.Due() || !o.Reaches(first) {
		t.Error("it may be claimed")
	}
}

// TestCheck: what differs between the line and the seats is found.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*office){
		"":                   func(*office) {},
		"another's place":    func(o *office) { o.seat("a").ticket = 2 },
		"answered":           func(o *office) { o.seat("b").ticket = 0 },
		"no order":           func(o *office) { o.places[0].ticket = 3 },
		"of a later claim":   func(o *office) { o.last = 2 },
		"counted":            func(o *office) { o.waiting++ },
		"removed, and waits": func(o *office) { o.places[1].gone = true },
	} {
		o := newOffice()
		for _, agent := range []string{"a", "b", "c"} {
			o.add(began, agent, 1)
		}
		o.Remove(o.seat("c"))
		if spoil(o); (o.Check(o.seat) != nil) != (name != "") {
			t.Errorf("%s: %v", name, o.Check(o.seat))
		}
	}
}
