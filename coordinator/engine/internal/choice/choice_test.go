package choice

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/criteria"
	"taskbus/coordinator/hash"
	"taskbus/coordinator/learning"
)

// byRank is a strategy by which the smallest rank is best; below 0 it gives no score.
var byRank = coordinator.Strategy{
	Name: "by_rank",
	Key: func(_ *coordinator.Case, v *coordinator.AgentView, _ *coordinator.Standing) coordinator.Key {
		if v.Rank < 0 {
			return coordinator.Key{First: math.NaN()}
		}
		return coordinator.Key{First: float64(v.Rank)}
	},
	Why: func(*coordinator.Case, *coordinator.AgentView, *coordinator.Standing) string {
		return " no\n rank " + strings.Repeat("é", maxWhy)
	},
}

// bySuccess is one by which the best rate of success is.
var bySuccess = coordinator.Strategy{
	Name: "by_success", Learned: true,
	Key: func(_ *coordinator.Case, _ *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
		return coordinator.Key{First: -s.Success}
	},
}

// ranked is a question about so many agents, a000, a001, …, of these ranks, all of which are free and can do the task.
func ranked(ranks ...int) *Question {
	specs := make([]coordinator.AgentSpec, len(ranks))
	q := &Question{Case: coordinator.Case{Task: &coordinator.Task{ID: "t"}}, Strategy: &byRank, Attempt: 1}
	q.Fleet = Fleet{Views: make([]coordinator.AgentView, len(ranks)),
		Causes:  make([]coordinator.Ineligibility, len(ranks)),
		ByCause: new([coordinator.NumIneligibilities]agentset.Set), Tally: new([coordinator.NumIneligibilities]int)}
	for why := range q.Fleet.ByCause {
		q.Fleet.ByCause[why] = agentset.New(len(ranks))
	}
	for i, rank := range ranks {
		specs[i] = coordinator.AgentSpec{ID: coordinator.AgentID(fmt.Sprintf("a%03d", i)), Rank: rank}
		q.Fleet.Views[i] = coordinator.AgentView{ID: specs[i].ID, Rank: rank, Hash: hash.Of(string(specs[i].ID), 0)}
		q.Fleet.ByCause[coordinator.Eligible].Add(i)
	}
	q.Fleet.Tally[coordinator.Eligible] = len(ranks)
	q.Fleet.Index = criteria.NewFleet(specs)
	met := q.Fleet.Index.Meet(criteria.Needs{Task: q.Task})
	q.Met, q.Usable, q.Among, q.Free = &met, met.Set, met.Set, q.Fleet.ByCause[coordinator.Eligible]
	q.Prepare()
	return q
}

// out has agent i be out for a cause of its own.
func (q *Question) out(i int, why coordinator.Ineligibility) {
	f := &q.Fleet
	was := f.Causes[i]
	f.ByCause[was].Remove(i)
	f.Tally[was]--
	f.ByCause[why].Add(i)
	f.Tally[why]++
	f.Causes[i] = why
}

// set is a set of these of the agents.
func (q *Question) set(members ...int) agentset.Set {
	s := agentset.New(len(q.Fleet.Views))
	for _, i := range members {
		s.Add(i)
	}
	return s
}

// answer is the agent that is chosen, with the next best.
func (q *Question) answer() string {
	i, d := q.Choose()
	if d == nil {
		return fmt.Sprint("none ", i)
	}
	var names []string
	for _, c := range d.Candidates {
		names = append(names, string(c.Agent))
	}
	if d.Agent != d.Candidates[0].Agent || d.Agent != q.Fleet.Views[i].ID {
		return fmt.Sprintf("%s, agent %d, best candidate %s", d.Agent, i, names[0])
	}
	return fmt.Sprintf("%s of %d/%d", strings.Join(names, " "), d.Eligible, d.Fleet)
}

// TestChoose: which agent is best, by key, time of the latest assignment and id, among those that are free and not
// ejected, preferred ones first.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name  string
		ranks []int
		with  func(*Question)
		want  string
	}{
		{"the smallest key, and the next two", []int{3, 1, 2, 0, 1}, nil, "a003 a001 a004 of 5/5"},
		{"of equal ones the one assigned less recently", []int{1, 1, 1}, func(q *Question) {
			q.Fleet.Views[0].LastAssigned, q.Fleet.Views[1].LastAssigned, q.Fleet.Views[2].LastAssigned = 9, 7, 8
		}, "a001 a002 a000 of 3/3"},
		{"of those too the smaller id", []int{1, 1}, nil, "a000 a001 of 2/2"},
		{"none is free", []int{1, 1}, func(q *Question) { q.Free = q.set() }, "none -1"},
		{"those that are free", []int{0, 1, 2}, func(q *Question) { q.Free = q.set(1, 2) }, "a001 a002 of 2/3"},
		{"one is ejected", []int{0, 1, 2}, func(q *Question) { q.Usable = q.set(1, 2); q.Among = q.Usable },
			"a001 a002 of 2/3"},
		{"one has quota", []int{0, 1, 2}, func(q *Question) { q.Among = q.set(2) }, "a002 of 1/3"},
		{"a preferred one before a better", []int{0, 1, 2}, func(q *Question) { q.Preferred = q.set(1, 2) },
			"a001 a002 of 3/3"},
		{"a preferred one is not free", []int{0, 1, 2}, func(q *Question) { q.Preferred, q.Free = q.set(2), q.set(0, 1) },
			"a000 a001 of 2/3"},
		{"a preferred one has no score", []int{0, 1, -1}, func(q *Question) { q.Preferred = q.set(2) }, "a000 a001 of 3/3"},
		{"one without a score", []int{-1, 1}, nil, "a001 of 2/2"},
		{"none has a score", []int{-1, -1}, nil, "none -1"},
	} {
		q := ranked(c.ranks...)
		if c.with != nil {
			c.with(q)
		}
		if got := q.answer(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestSample: beyond ExactLimit a sample is looked at, in place of those without a score others; which depends on the
// task. 600 agents of ranks 0 to 599: of a sample of 256 the best is not always the best of all.
func TestSample(t *testing.T) {
	ranks := make([]int, ExactLimit+88)
	for i := range ranks {
		ranks[i] = i
	}
	q := ranked(ranks[:ExactLimit]...)
	if got, want := q.answer(), fmt.Sprintf("a000 a001 a002 of %d/%d", ExactLimit, ExactLimit); got != want {
		t.Errorf("at the limit: %s, want %s", got, want)
	}
	looked := 0
	counting := byRank
	counting.Key = func(c *coordinator.Case, v *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
		looked++
		return byRank.Key(c, v, s)
	}
	q = ranked(ranks...)
	q.Strategy = &counting
	answers := make(map[string]bool)
	for i := range 32 {
		q.Task = &coordinator.Task{ID: coordinator.TaskID(fmt.Sprint("t", i))}
		looked = 0
		answer := q.answer()
		if answers[answer] = true; looked != SampleSize || q.answer() != answer {
			t.Fatalf("%d were looked at, want %d; asked again: %s, %s", looked, SampleSize, answer, q.answer())
		}
	}
	if len(answers) < 4 {
		t.Errorf("32 tasks begin at %d places", len(answers))
	}
	few := counting // as a strategy may ask
	few.Sample = 10
	q.Strategy, looked = &few, 0
	if q.Choose(); looked != 10 {
		t.Errorf("%d were looked at, want 10", looked)
	}
}

// TestRefuse: the counts of those that are out, whichever cause is the most frequent, and their names while they are
// few. A task that must be alone is out where others are in hand.
func TestRefuse(t *testing.T) {
	q := ranked(0, 1, 2, 3, 4, 5, 6)
	met := q.Fleet.Index.Meet(criteria.Needs{Task: q.Task, Barred: []coordinator.AgentID{"a006"}})
	q.Met, q.Usable = &met, slices.Clone(met.Set)
	q.Usable.Remove(4) // it is ejected
	q.Among = q.Usable
	q.out(1, coordinator.Full)
	q.out(2, coordinator.WentStale)
	q.out(3, coordinator.WentStale)
	check := func(want string) {
		t.Helper()
		_, d := q.Choose()
		var lines []string
		for why, n := range d.Refused {
			if n > 0 {
				lines = append(lines, fmt.Sprintf("%d %s", n, coordinator.Ineligibility(why)))
			}
		}
		for _, r := range d.Refusals {
			lines = append(lines, fmt.Sprintf("%s %s", r.Agent, r.Why))
		}
		if got := strings.Join(lines, ", ") + fmt.Sprintf(", %d without quota", d.WithoutQuota); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	full, stale, ejected := coordinator.Full.String(), coordinator.WentStale.String(), coordinator.Ejected.String()
	barred, others := met.Why(q.Fleet.Index, q.Task, 6).String(), coordinator.HasOthers.String()
	check(fmt.Sprintf("1 %[1]s, 2 %[2]s, 1 %[3]s, 1 %[4]s, a001 %[4]s, a004 %[3]s, a002 %[2]s, a003 %[2]s, a006 %[1]s, "+
		"0 without quota", barred, stale, ejected, full))
	q.Among = q.set(0)
	q.Usable = q.set(0, 1, 2, 3, 4, 5) // without Met's own set: as if some were ejected, and then none is
	check(fmt.Sprintf("1 %[1]s, 2 %[2]s, 1 %[3]s, a001 %[3]s, a002 %[2]s, a003 %[2]s, a006 %[1]s, 2 without quota", barred,
		stale, full))
	q.Usable, q.Among = met.Set, met.Set
	q.Alone, q.Free = true, q.set(5)
	check(fmt.Sprintf("1 %[1]s, 2 %[2]s, 1 %[3]s, 2 %[4]s, a000 %[4]s, a004 %[4]s, a001 %[3]s, a002 %[2]s, a003 %[2]s, "+
		"a006 %[1]s, 0 without quota", barred, stale, full, others))
}

// TestTrackRecords: what strategies read of an agent is what is learnt, or what is stated; for a share of the tasks
// it is drawn, but not where a task is urgent or has come back.
func TestTrackRecords(t *testing.T) {
	q := ranked(0, 0, 0)
	q.Fleet.Learner = learning.New(learning.Settings{}, 3)
	q.Kind = q.Fleet.Learner.Type("")
	for range 50 {
		q.Fleet.Learner.Observe(q.Fleet.Learner.AsOf(), 1, q.Kind, learning.Outcome{Attribution: learning.AgentFault})
	}
	always := bySuccess
	always.Exploration = 1
	q.Strategy = &bySuccess
	q.Prepare()
	means := [3]float64{-q.Key(0).First, -q.Key(1).First, -q.Key(2).First}
	if means[0] != means[2] || means[1] > means[0]/2 {
		t.Errorf("successes %v: the second has failed 50 times", means)
	}
	q.Fleet.Stated = []float64{-1, 0.75, -1}
	q.Prepare()
	if got := -q.Key(1).First; got != 0.75 {
		t.Errorf("success %g, want the 0.75 that is stated", got)
	}
	q.Strategy = &always
	q.Prepare()
	if i, d := q.Choose(); d == nil || !d.Explored || q.Key(0) == q.Key(2) || -q.Key(1).First != 0.75 || i < 0 {
		t.Errorf("a draw: %+v, keys %v %v %v", d, q.Key(0), q.Key(1), q.Key(2))
	}
	for name, tried := range map[string]struct {
		attempt  int
		priority coordinator.Priority
	}{"has come back": {2, coordinator.PriorityNormal}, "is urgent": {1, coordinator.PriorityHigh}} {
		q.Attempt, q.Task = tried.attempt, &coordinator.Task{ID: "t", Priority: tried.priority}
		q.Prepare()
		if _, d := q.Choose(); d.Explored || -q.Key(0).First != means[0] {
			t.Errorf("a task that %s: explored %v, success %g, want %g", name, d.Explored, -q.Key(0).First, means[0])
		}
	}
}

// TestDispatch: the latest decision is in its dispatch, and any other is copied.
func TestDispatch(t *testing.T) {
	q := ranked(0, 1, 2)
	_, d := q.Choose()
	var kept Kept
	kept.Keep(d)
	made := q.Dispatch(d)
	if made.Decision != d {
		t.Error("the latest decision was copied")
	}
	q.Free = q.set(1)
	_, next := q.Choose()
	other := q.Dispatch(&kept.Decision)
	if next == d || d.Agent != "a000" || other.Decision == &kept.Decision || other.Decision.Agent != "a000" ||
		&other.Decision.Candidates[0] == &kept.Candidates[0] || len(other.Decision.Candidates) != 3 {
		t.Errorf("one decision shares with another: %v, %v", d, other.Decision)
	}
	if q.Free = q.set(); q.answer() != "none -1" || next.Agent != "a001" {
		t.Errorf("the decision before is %s now", next.Agent)
	}
}

// TestWhy: a strategy's own words are one line, of bounded length.
func TestWhy(t *testing.T) {
	q := ranked(-1)
	if got, want := q.Why(0), "no rank "+strings.Repeat("é", (maxWhy-len("no rank "))/2)+"…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if q.Strategy = &bySuccess; q.Why(0) != "" {
		t.Errorf("%q of a strategy without words", q.Why(0))
	}
}

// TestChooseAllocates nothing but what carries the decision.
func TestChooseAllocates(t *testing.T) {
	q := ranked(make([]int, 100)...)
	q.Preferred = q.set(1, 2, 3)
	q.Choose()
	if n := testing.AllocsPerRun(100, func() { q.Choose() }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		_, d := q.Choose()
		q.Dispatch(d)
	}); n != 1 {
		t.Errorf("%g allocations with a dispatch", n)
	}
}

// TestExplain: the counts of a full pass, the agent that came nearest, what is missing most; with its details the
// agents, best and nearest first.
func TestExplain(t *testing.T) {
	q := ranked(2, -1, 0, 9, 9, 9, 9)
	specs, both := q.Fleet.Index.Specs, []string{"gpu", "web"}
	for i, capabilities := range [][]string{both, both, both, both, both, {"go"}, {"web"}} {
		specs[i].Capabilities = capabilities
	}
	q.Fleet.Index = criteria.NewFleet(specs)
	why := []coordinator.Refusal{{}, {}, {}, {Why: coordinator.Full, FreeIn: 9}, {Why: coordinator.Full, FreeIn: 5},
		{Why: coordinator.LacksCapability}, {Why: coordinator.LacksCapability}}
	explain := func(detailed bool) *coordinator.Decision {
		x := q.Explain(both, detailed)
		for i, r := range why {
			r.Agent = q.Fleet.Views[i].ID
			x.Add(i, r)
		}
		return x.Decision()
	}
	for _, detailed := range []bool{false, true} {
		d := explain(detailed)
		want := [coordinator.NumIneligibilities]int{coordinator.Unscored: 1, coordinator.Full: 2,
			coordinator.LacksCapability: 2}
		if d.Eligible != 2 || d.Refused != want || d.Fleet != 7 || !strings.HasPrefix(d.UnscoredWhy, "no rank") {
			t.Errorf("detailed %v: %d of %d eligible, refused %v, %q", detailed, d.Eligible, d.Fleet, d.Refused, d.UnscoredWhy)
		}
		if got := fmt.Sprint(d.Missing, d.Nearest.Agent); got != "[{gpu 2} {web 1}]a001" {
			t.Errorf("detailed %v: missing and nearest %s", detailed, got)
		}
		if !detailed && d.Candidates != nil || !detailed && d.Refusals != nil {
			t.Error("details, without being asked for them")
		}
	}
	d := explain(true)
	var names []string
	for _, c := range d.Candidates {
		names = append(names, string(c.Agent))
	}
	for _, r := range d.Refusals {
		names = append(names, string(r.Agent))
	}
	if got, want := strings.Join(names, " "), "a002 a000 a001 a004 a003 a005 a006"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	why[1].Why = coordinator.Full // until when is not known
	if d := explain(false); d.Nearest.Agent != "a004" || d.Nearest.FreeIn != 5 {
		t.Errorf("nearest is %+v, want a004: it is free the soonest", d.Nearest)
	}
	for i := range why {
		why[i].Why = coordinator.LacksCapability
	}
	if d := explain(false); d.Nearest != nil {
		t.Errorf("%s is near: it can never have the task", d.Nearest.Agent)
	}
}

// TestReason: the reason is that of the agents that are left when those are taken off that never can, had it, or are
// away.
func TestReason(t *testing.T) {
	type counts = [coordinator.NumIneligibilities]int
	for _, c := range []struct {
		refused counts
		want    coordinator.Reason
	}{
		{counts{coordinator.LacksCapability: 3}, coordinator.ReasonNoEligibleAgents},
		{counts{coordinator.LacksCapability: 2, coordinator.WentStale: 1}, coordinator.ReasonNoAgentsOnline},
		{counts{coordinator.LacksCapability: 2, coordinator.Full: 1}, coordinator.ReasonAllAgentsAtCapacity},
		{counts{coordinator.LacksCapability: 2, coordinator.Ejected: 1}, coordinator.Ejected.Reason()},
		{counts{coordinator.LacksCapability: 2, coordinator.Unscored: 1}, coordinator.Unscored.Reason()},
		{counts{coordinator.Full: 2, coordinator.Pulling: 1}, coordinator.ReasonNotClaimed},
		{counts{coordinator.Full: 2, coordinator.Overloaded: 1}, coordinator.ReasonAllAgentsAtCapacity},
	} {
		if got := Reason(&coordinator.Decision{Fleet: 3, Refused: c.refused}); got != c.want {
			t.Errorf("%v: %v, want %v", c.refused, got, c.want)
		}
	}
}
