package learning

import (
	"fmt"
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// near reports whether two numbers agree to within 1e-6 of the larger or of one.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b))
}

// history plays outcomes, one letter each, at one moment: + succeeded, - failed,
// t timed out, b the task is to blame, c cancelled.
func history(l *Learner, at time.Time, agent int, task, letters string) {
	attribution := map[rune]Attribution{'+': Succeeded, '-': AgentFault, 't': TimedOut, 'b': TaskFault, 'c': Cancelled}
	for _, letter := range letters {
		l.Observe(at, agent, l.Type(task), Outcome{Attribution: attribution[letter]})
	}
}

// TestPosterior shows the arithmetic of the hierarchy with Prior 0.9 and m 10 for
// agent 0 of two. Outcomes follow at once; the half-lives are far away.
func TestPosterior(t *testing.T) {
	settings := Settings{HalfLifeOutcomes: 1e9}
	tests := []struct {
		name  string
		play  func(*Learner)
		agent int
		task  string
		want  float64
	}{
		{"nothing known: the prior", func(*Learner) {}, 0, "a", 0.9},
		// P = 9/11 = 0.818182; p = (10P + 0)/11 = 0.743802; E = 0.9, r = 10/10.9 = 0.917431;
		// prior = p·r = 0.682387; p̂ = 6.82387/11 = 0.620351.
		{"one failure", func(l *Learner) { history(l, start, 0, "a", "-") }, 0, "a", 0.620351},
		{"a timeout is one", func(l *Learner) { history(l, start, 0, "a", "t") }, 0, "a", 0.620351},
		{"the others share in it: p", func(l *Learner) { history(l, start, 0, "a", "-") }, 1, "a", 0.743802},
		// The same agent with another type: P·r = 0.818182 · 0.917431.
		{"and other types: P·r", func(l *Learner) { history(l, start, 0, "a", "-") }, 0, "b", 0.750626},
		// P = 10/11 = 0.909091; p = (9.09091+1)/11 = 0.917355; r = 11/10.9 = 1.009174;
		// prior = 0.925772; p̂ = (9.25772+1)/11 = 0.932520.
		{"one success", func(l *Learner) { history(l, start, 0, "a", "+") }, 0, "a", 0.932520},
		{"what is not its fault does not count", func(l *Learner) { history(l, start, 0, "a", "bcbcbc") }, 0, "a", 0.9},
		{"an agent outside the fleet is a newcomer", func(l *Learner) { history(l, start, 0, "a", "-") }, 7, "a", 0.743802},
		{"and teaches nothing", func(l *Learner) { history(l, start, 2, "a", "--"); history(l, start, -1, "a", "--") }, 0,
			"a", 0.9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New(settings, 2)
			tt.play(l)
			if got := l.Standing(tt.agent, l.Type(tt.task)).Success; math.Abs(got-tt.want) > 1e-6 {
				t.Errorf("p̂ %.6f, want %.6f", got, tt.want)
			}
		})
	}
}

// TestHardTypeDoesNotBlame: agents 0 and 1 do nothing but hard tasks, of which a
// tenth succeeds, agents 2 and 3 nothing but easy ones, of which all do. Agent 0
// is no worse than the others for that: with the easy type it is expected to do
// nearly what the fleet does (what is missing are its first tasks, which no agent
// knew to be hard), where its own rate over all types would say 0.1.
func TestHardTypeDoesNotBlame(t *testing.T) {
	l := New(Settings{}, 4)
	for range 20 {
		for i := range 2 {
			history(l, start, i, "hard", "---------+")
			history(l, start, 2+i, "easy", "++++++++++")
		}
	}
	hard, easy := l.TypeSuccess(l.Type("hard")), l.TypeSuccess(l.Type("easy"))
	if hard > 0.15 || easy < 0.95 {
		t.Fatalf("the types are at %.3f and %.3f", hard, easy)
	}
	if got := l.Standing(0, l.Type("easy")).Success; got < 0.75*easy {
		t.Errorf("after hard tasks only, agent 0 is expected to do easy ones at %.3f, the fleet at %.3f", got, easy)
	}
	history(l, start, 0, "easy", "----------")
	if got := l.Standing(0, l.Type("easy")).Success; got > 0.7*easy {
		t.Errorf("after ten failures with easy tasks it is still at %.3f", got)
	}
}

// TestBounds: no history makes anyone certain.
func TestBounds(t *testing.T) {
	for _, letter := range []string{"+", "-"} {
		l := New(Settings{}, 2)
		for range 5000 {
			history(l, start, 0, "a", letter)
		}
		for i := range 3 {
			for _, task := range []string{"a", "b"} {
				if p := l.Standing(i, l.Type(task)).Success; !(p > 0 && p < 1) {
					t.Errorf("after 5000 × %q agent %d with %s: %v", letter, i, task, p)
				}
			}
		}
	}
}

// TestForgetting shows both half-lives on the agent's own tally.
func TestForgetting(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name          string
		play          func(*Learner)
		asOf          time.Duration
		success, fail float64 // decayed counts
	}{
		{"now", func(l *Learner) { history(l, start, 0, "a", "+-") }, 0, math.Exp2(-1. / 4), 1},
		// One half-life of 24 h.
		{"a day later", func(l *Learner) { history(l, start, 0, "a", "+") }, 24 * hour, 0.5, 0},
		{"an hour later", func(l *Learner) { history(l, start, 0, "a", "+") }, hour, math.Exp2(-1. / 24), 0},
		// Half-life of 4 outcomes: the success has four after it, the failures 3, 2, 1, 0:
		// 2^-0.75 + 2^-0.5 + 2^-0.25 + 1 = 0.594604 + 0.707107 + 0.840896 + 1.
		{"four outcomes later", func(l *Learner) { history(l, start, 0, "a", "+----") }, 0, 0.5, 3.142607},
		{"both", func(l *Learner) { history(l, start, 0, "a", "+----") }, 24 * hour, 0.25, 3.142607 / 2},
		{"outcomes of other types and agents do not push it out",
			func(l *Learner) {
				history(l, start, 0, "a", "+")
				history(l, start, 0, "b", "----")
				history(l, start, 1, "a", "----")
			}, 0, 1, 0},
		{"nor do those that do not count", func(l *Learner) { history(l, start, 0, "a", "+bcbcbc") }, 0, 1, 0},
		// A result that arrives late weighs what its age says.
		{"observed late", func(l *Learner) { l.Advance(start.Add(24 * hour)); history(l, start, 0, "a", "-") }, 24 * hour, 0,
			0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New(Settings{HalfLifeOutcomes: 4}, 2)
			tt.play(l)
			l.Advance(start.Add(tt.asOf))
			if s, f := l.own(0, l.Type("a")); !near(s, tt.success) || !near(f, tt.fail) {
				t.Errorf("successes %.6f, failures %.6f, want %.6f and %.6f", s, f, tt.success, tt.fail)
			}
		})
	}
}

// TestClockGoesBack: a time before the latest changes nothing that is read.
func TestClockGoesBack(t *testing.T) {
	l := New(Settings{}, 1)
	history(l, start, 0, "a", "+-")
	l.Advance(start.Add(time.Hour))
	before := l.Standing(0, l.Type("a"))
	l.Advance(start)
	if got := l.Standing(0, l.Type("a")); got != before || !l.AsOf().Equal(start.Add(time.Hour)) {
		t.Errorf("read %v as of %v, want %v", got, l.AsOf(), before)
	}
}

// TestLandmarkMoves: with a half-life of a second the sums outgrow float64 in
// 1024 s unless the landmark moves. One outcome a second for 3000 s gives the
// geometric series 1 + 1/2 + 1/4 + … = 2.
func TestLandmarkMoves(t *testing.T) {
	l := New(Settings{HalfLife: time.Second, HalfLifeOutcomes: 1e9}, 1)
	for s := range 3000 {
		history(l, start.Add(time.Duration(s)*time.Second), 0, "a", "+")
	}
	if s, f := l.own(0, l.Type("a")); !near(s, 2) || f != 0 {
		t.Errorf("successes %v, failures %v, want 2 and 0", s, f)
	}
	l.Advance(start.AddDate(900, 0, 0)) // further than a Duration reaches
	if got := l.Standing(0, l.Type("a")); got.Success != 0.9 || math.IsNaN(got.Duration) {
		t.Errorf("after 900 years %+v, want the prior", got)
	}
	history(l, start.AddDate(900, 0, 0), 0, "a", "+")
	if s, _ := l.own(0, l.Type("a")); !near(s, 1) {
		t.Errorf("and then one success counts %v", s)
	}
}

// TestDuration shows the arithmetic of ŝ with m 10.
func TestDuration(t *testing.T) {
	took := func(l *Learner, agent int, task string, seconds float64) {
		l.Observe(start, agent, l.Type(task), Outcome{Duration: time.Duration(seconds * float64(time.Second))})
	}
	tests := []struct {
		name  string
		play  func(*Learner)
		agent int
		task  string
		want  float64
	}{
		{"not timed: unknown", func(l *Learner) { history(l, start, 0, "a", "+") }, 0, "a", 0},
		// Reference 8, pace of the first 1: (10·8·1 + 8)/11 = 8.
		{"first", func(l *Learner) { took(l, 0, "a", 8) }, 0, "a", 8},
		{"a newcomer takes the fleet's time", func(l *Learner) { took(l, 0, "a", 8) }, 1, "a", 8},
		{"a type without any is unknown", func(l *Learner) { took(l, 0, "a", 8) }, 0, "b", 0},
		// Agent 1 takes 2 s where the reference was 8: pace (10 + 0.25)/11 = 0.931818;
		// reference (8+2)/2 = 5; ŝ = (10·5·0.931818 + 2)/11 = 4.417355.
		{"four times as fast", func(l *Learner) { took(l, 0, "a", 8); took(l, 1, "a", 2) }, 1, "a", 4.417355},
		// With another type of reference 3 it is expected to be as quick: 3·0.931818.
		// (agent 0 was the first there: pace 1.)
		{"with another type, too", func(l *Learner) { took(l, 0, "a", 8); took(l, 1, "a", 2); took(l, 0, "b", 3) }, 1, "b",
			2.795455},
		// One hour is not 450 times as slow but 100: pace (10 + 100)/11 = 10;
		// reference (8+3600)/2 = 1804; ŝ = (10·1804·10 + 3600)/11.
		{"an outlier is bounded", func(l *Learner) { took(l, 0, "a", 8); took(l, 1, "a", 3600) }, 1, "a", 16727.2727273},
		{"failing at once is not fast", func(l *Learner) {
			took(l, 0, "a", 8)
			l.Observe(start, 1, l.Type("a"), Outcome{Attribution: AgentFault, Duration: time.Millisecond})
		}, 1, "a", 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New(Settings{HalfLifeOutcomes: 1e9}, 2)
			tt.play(l)
			if got := l.Standing(tt.agent, l.Type(tt.task)).Duration; !near(got, tt.want) {
				t.Errorf("ŝ %.6f s, want %.6f", got, tt.want)
			}
		})
	}
	l := New(Settings{HalfLifeOutcomes: 1e9}, 2)
	took(l, 0, "a", 8)
	took(l, 1, "a", 2)
	if got := l.Reference(l.Type("a")); !near(got, 5) { // (8+2)/2
		t.Errorf("reference %v, want 5", got)
	}
	if got := l.Reference(l.Type("b")); got != 0 {
		t.Errorf("reference of an untimed type %v, want 0", got)
	}
}

func TestCost(t *testing.T) {
	l := New(Settings{HalfLifeOutcomes: 1e9}, 2)
	a := l.Type("a")
	for _, usd := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		l.Observe(start, 0, a, Outcome{CostUSD: usd})
	}
	if usd, known := l.Cost(0); known {
		t.Errorf("%v US$ of costs that nobody knows", usd)
	}
	l.Observe(start, 0, a, Outcome{CostUSD: 0.10})
	l.Observe(start, 0, l.Type("b"), Outcome{Attribution: AgentFault, CostUSD: 0.40})
	if usd, known := l.Cost(0); !known || !near(usd, 0.25) { // (0.10 + 0.40)/2: a failure costs as well
		t.Errorf("%v US$, %v, want 0.25", usd, known)
	}
	for _, i := range []int{-1, 1, 2} {
		if usd, known := l.Cost(i); known || usd != 0 {
			t.Errorf("agent %d: %v US$, %v", i, usd, known)
		}
	}
}

// TestRecordShowsWhatChoicesUse: what people see of an agent is what it is chosen by.
func TestRecordShowsWhatChoicesUse(t *testing.T) {
	l := New(Settings{HalfLifeOutcomes: 1e9}, 3)
	shown := func(i int) float64 {
		success, _, _ := l.Record(i)
		return success
	}
	if got := shown(0); !near(got, 0.9) {
		t.Errorf("nothing known: %.6f, want the prior", got)
	}
	history(l, start, 0, "a", "-")
	history(l, start, 1, "a", "+--")
	for i := range 4 { // 2 has no outcomes of its own; 3 is none of the fleet
		if got, want := shown(i), l.Standing(i, l.Type("a")).Success; !near(got, want) {
			t.Errorf("agent %d: %.6f is shown, and choices use %.6f", i, got, want)
		}
	}
	history(l, start, 1, "b", "+")
	want := (3*l.Standing(1, l.Type("a")).Success + l.Standing(1, l.Type("b")).Success) / 4 // by its outcomes
	if got := shown(1); !near(got, want) {
		t.Errorf("two types: %.6f, want %.6f", got, want)
	}
	want = (4*l.Standing(2, l.Type("a")).Success + l.Standing(2, l.Type("b")).Success) / 5 // by the fleet's
	if got := shown(2); !near(got, want) {
		t.Errorf("a newcomer: %.6f, want %.6f", got, want)
	}
}

func TestTypesAreBounded(t *testing.T) {
	l := New(Settings{MaxTypes: 2}, 1)
	a, b := l.Type("a"), l.Type("b")
	shared := l.Type("c")
	if a == b || a == shared || l.Type("d") != shared || l.Type("") != shared || l.Type("a") != a {
		t.Error("the third type has a record of its own, or the first has lost its")
	}
	if a.Name() != "a" || shared.Name() != "" {
		t.Errorf("names %q and %q", a.Name(), shared.Name())
	}
}

// TestRenumber: agents keep what they have shown under their new numbers.
func TestRenumber(t *testing.T) {
	l := New(Settings{}, 3)
	for i, letters := range []string{"+++", "---", "+-+"} {
		history(l, start, i, "a", letters)
		l.Observe(start, i, l.Type("b"), Outcome{Duration: time.Duration(i+1) * time.Second, CostUSD: float64(i + 1)})
	}
	type known struct {
		a, b coordinator.Standing
		cost float64
	}
	read := func(i int) known {
		usd, _ := l.Cost(i)
		return known{l.Standing(i, l.Type("a")), l.Standing(i, l.Type("b")), usd}
	}
	was := []known{read(0), read(1), read(2)}
	newcomer := read(3)
	l.Renumber(5, []int{-1, 1, 2, 9, 0})
	for i, want := range []known{newcomer, was[1], was[2], newcomer, was[0]} {
		if got := read(i); got != want {
			t.Errorf("agent %d: %+v, want %+v", i, got, want)
		}
	}
	l.Renumber(2, []int{4}) // the second is not named: new
	for i, want := range []known{was[0], newcomer} {
		if got := read(i); got != want {
			t.Errorf("agent %d: %+v, want %+v", i, got, want)
		}
	}
	l.Renumber(0, nil)
	if history(l, start, 0, "a", "+"); l.Agents() != 0 || read(0) != newcomer {
		t.Errorf("an empty fleet of %d knows %+v", l.Agents(), read(0))
	}
	l.Renumber(1, nil)
	if history(l, start, 0, "a", "-"); read(0).a.Success >= newcomer.a.Success {
		t.Error("the first of a new fleet learns nothing")
	}
}

// TestDefaults: what is out of range is the default.
func TestDefaults(t *testing.T) {
	want := Settings{Prior: 0.9, Weight: 10, HalfLife: 24 * time.Hour, HalfLifeOutcomes: 200, MaxTypes: 1024}
	nan := math.NaN()
	for _, s := range []Settings{{}, {1, -1, time.Millisecond, 0.5, -1}, {nan, nan, -1, nan, 0},
		{0, math.Inf(1), 0, math.Inf(1), 0}} {
		if got := s.withDefaults(); got != want {
			t.Errorf("%+v becomes %+v", s, got)
		}
	}
	own := Settings{Prior: 0.5, Weight: 4, HalfLife: time.Hour, HalfLifeOutcomes: 50, MaxTypes: 3}
	if got := own.withDefaults(); got != own {
		t.Errorf("%+v becomes %+v", own, got)
	}
}

func ExampleLearner() {
	l := New(Settings{}, 2)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	review := l.Type("code_review")
	for range 20 {
		l.Observe(now, 0, review, Outcome{Attribution: Succeeded, Duration: 30 * time.Second})
		l.Observe(now, 1, review, Outcome{Attribution: AgentFault})
	}
	for i := range l.Agents() {
		s := l.Standing(i, review)
		fmt.Printf("agent %d: success %.2f, %.0f s, failing %v\n", i, s.Success, s.Duration, l.Failing(i, review))
	}
	// Output:
	// agent 0: success 0.90, 30 s, failing false
	// agent 1: success 0.08, 30 s, failing true
}
