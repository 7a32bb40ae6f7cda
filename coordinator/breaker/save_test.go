package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestExport: what is remembered of one agent along its way. Ten agents offer the
// capability; the base is 30 s.
func TestExport(t *testing.T) {
	tasks := func(ids ...coordinator.TaskID) []coordinator.TaskID { return ids }
	five := tasks("task 1", "task 2", "task 3", "task 4", "task 5")
	tests := []struct {
		name string
		play []string
		want PairState
	}{
		{"nothing", nil, PairState{}},
		{"two faults", []string{"faults 0 2"}, PairState{Faults: five[:2]}},
		{"five: open for 30 s", []string{"faults 0 5"},
			PairState{State: Open, Cause: ByFaults, Faults: five, Opened: 1, Until: start.Add(30 * time.Second), Since: 1}},
		{"half-open", []string{"faults 0 5", "wait 30s"},
			PairState{State: HalfOpen, Faults: five, Opened: 1, Since: 2}},
		{"being tried", []string{"faults 0 5", "wait 30s", "probe 0 x"},
			PairState{State: HalfOpen, Faults: five, Opened: 1, Since: 2, Probe: "x", Probing: true}},
		{"closed, for a day not as if it had never been open", []string{"faults 0 5", "wait 30s", "success 0"},
			PairState{Opened: 1, ClosedAt: start.Add(30 * time.Second), Until: start.Add(24*time.Hour + 30*time.Second),
				Since: 3}},
		{"the probe has failed: 2 × 30 s", []string{"faults 0 5", "wait 30s", "probe 0 x", "fault 0 x"},
			PairState{State: Open, Cause: ByProbe, Faults: tasks("x"), Opened: 2, Until: start.Add(90 * time.Second), Since: 3}},
		{"opened by the test, once it had closed", []string{"faults 0 5", "wait 30s", "success 0", "trip 0"},
			PairState{State: Open, Cause: ByPosterior, Opened: 2, ClosedAt: start.Add(30 * time.Second),
				Until: start.Add(90 * time.Second), Since: 4, Before: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStory(t, 10, Settings{})
			st.play(tt.play...)
			got, known := st.s.Export(pair(0))
			if !got.Equal(tt.want) || known != (tt.play != nil) {
				t.Fatalf("exported %+v, %v\n    want %+v", got, known, tt.want)
			}
			if len(got.Faults) > 0 { // the caller's own
				got.Faults[0] = "overwritten"
				if again, _ := st.s.Export(pair(0)); !again.Equal(tt.want) {
					t.Errorf("what was exported is the Set's own: %+v", again)
				}
			}
			other := newStory(t, 10, Settings{})
			other.now = st.now
			other.hear(other.s.Import(st.now, pair(0), tt.want))
			if again, _ := other.s.Export(pair(0)); !again.Equal(tt.want) {
				t.Errorf("imported %+v\n    want %+v", again, tt.want)
			}
			if got, want := other.text(), st.text(); got != want {
				t.Errorf("imported it is %q, want %q", got, want)
			}
			// And nothing is left of it when it is taken away.
			other.hear(other.s.Import(st.now, pair(0), PairState{}))
			if _, deadline := other.s.NextDeadline(); deadline || !other.s.Quiet() || len(other.s.Pairs()) != 0 ||
				!other.s.Allowed(pair(0)) {
				t.Errorf("removed, it is still there: %v", other.s.Pairs())
			}
		})
	}
}

// TestImportOfTheImpossible: what no Set can have come to is made sane, and always so
// that it ends. Now is an hour after start; the base is 30 s, the longest 300 s, which
// is the tenth; five faults in a row open it, of which ten are kept.
func TestImportOfTheImpossible(t *testing.T) {
	now := start.Add(time.Hour)
	after := func(d time.Duration) time.Time { return now.Add(d) }
	var many, lastTen []coordinator.TaskID
	for i := range 14 {
		many = append(many, coordinator.TaskID(fmt.Sprint(i)))
	}
	lastTen = many[4:]
	tests := []struct {
		name     string
		in, want PairState
	}{
		{"no such state", PairState{State: 3, Opened: 1, Faults: many[:1]}, PairState{}},
		{"no such cause", PairState{State: HalfOpen, Cause: 9, Opened: 1},
			PairState{State: HalfOpen, Cause: ByPosterior, Opened: 1}},
		{"open for ever, for the second time", PairState{State: Open, Opened: 2},
			PairState{State: Open, Opened: 2, Until: after(60 * time.Second)}},
		{"open for a week", PairState{State: Open, Opened: 2, Until: after(7 * 24 * time.Hour)},
			PairState{State: Open, Opened: 2, Until: after(300 * time.Second)}},
		{"open until a while ago: due with the next Advance", PairState{State: Open, Opened: 1, Until: after(-time.Minute)},
			PairState{State: Open, Opened: 1, Until: after(-time.Minute)}},
		{"open and never opened", PairState{State: Open, Until: after(time.Second)},
			PairState{State: Open, Opened: 1, Until: after(time.Second)}},
		{"opened a negative number of times", PairState{State: HalfOpen, Opened: -3}, PairState{State: HalfOpen}},
		{"opened more often than counts", PairState{State: HalfOpen, Opened: 1000}, PairState{State: HalfOpen, Opened: 10}},
		{"half-open with a deadline", PairState{State: HalfOpen, Opened: 1, Until: after(time.Second)},
			PairState{State: HalfOpen, Opened: 1}},
		{"a probe of an open one", PairState{State: Open, Opened: 1, Until: after(time.Second), Probe: "x", Probing: true},
			PairState{State: Open, Opened: 1, Until: after(time.Second)}},
		{"a probe without a name, which nobody could end", PairState{State: HalfOpen, Opened: 1, Probing: true},
			PairState{State: HalfOpen, Opened: 1}},
		{"a name without a probe", PairState{State: HalfOpen, Opened: 1, Probe: "x"}, PairState{State: HalfOpen, Opened: 1}},
		{"closed, was open, and never forgets", PairState{Opened: 1, Since: 3},
			PairState{Opened: 1, Since: 3, Until: after(24 * time.Hour)}},
		{"closed, of a generation that it never forgets", PairState{Since: 3},
			PairState{Since: 3, Until: after(24 * time.Hour)}},
		{"closed, and forgets in a year", PairState{Opened: 1, Until: after(365 * 24 * time.Hour)},
			PairState{Opened: 1, Until: after(24 * time.Hour)}},
		{"closed tomorrow", PairState{Opened: 1, ClosedAt: after(24 * time.Hour), Until: after(time.Hour)},
			PairState{Opened: 1, ClosedAt: now, Until: after(time.Hour)}},
		{"one task twice", PairState{Faults: []coordinator.TaskID{"a", "b", "a"}},
			PairState{Faults: []coordinator.TaskID{"b", "a"}}},
		{"14 faults", PairState{Faults: many}, PairState{Faults: lastTen}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStory(t, 10, Settings{})
			st.now = now
			st.hear(st.s.Import(now, pair(0), tt.in))
			got, known := st.s.Export(pair(0))
			if !got.Equal(tt.want) || known == tt.want.Equal(PairState{}) {
				t.Errorf("it is %+v, %v\n want %+v", got, known, tt.want)
			}
			// However it came about, it passes.
			st.play("wait 300s", "success 0", "wait 24h")
			if !st.s.Quiet() {
				got, _ := st.s.Export(pair(0))
				t.Errorf("a day later there is %+v", got)
			}
		})
	}
}

// TestEqual: two states say the same when nothing in them differs.
func TestEqual(t *testing.T) {
	state := func(change func(*PairState)) PairState {
		s := PairState{State: HalfOpen, Cause: ByProbe, Faults: []coordinator.TaskID{"x"}, Opened: 2, ClosedAt: start,
			Until: start, Since: 3, Before: 1, Probe: "y", Probing: true}
		change(&s)
		return s
	}
	same := state(func(s *PairState) { s.Until = start.In(time.FixedZone("elsewhere", 3600)) })
	if !same.Equal(state(func(*PairState) {})) {
		t.Error("the same moment differs in another place")
	}
	changes := map[string]func(*PairState){
		"state":   func(s *PairState) { s.State = Open },
		"cause":   func(s *PairState) { s.Cause = ByFaults },
		"faults":  func(s *PairState) { s.Faults = []coordinator.TaskID{"z"} },
		"opened":  func(s *PairState) { s.Opened++ },
		"closed":  func(s *PairState) { s.ClosedAt = start.Add(1) },
		"until":   func(s *PairState) { s.Until = time.Time{} },
		"since":   func(s *PairState) { s.Since++ },
		"before":  func(s *PairState) { s.Before++ },
		"probe":   func(s *PairState) { s.Probe = "z" },
		"probing": func(s *PairState) { s.Probing = false },
	}
	for field, change := range changes {
		if same.Equal(state(change)) {
			t.Errorf("%s makes no difference", field)
		}
	}
}

// TestGenerations: they never go back, so that no dispatch is taken for one that was
// made in the state that is.
func TestGenerations(t *testing.T) {
	s := New(Settings{})
	s.SetGeneration(7)
	s.SetGeneration(5)
	if got := s.Generation(); got != 7 {
		t.Errorf("generation %d, want 7", got)
	}
	s.Import(start, pair(0), PairState{State: HalfOpen, Opened: 1, Since: 12})
	if got := s.Generation(); got != 12 {
		t.Errorf("generation %d, want 12, that of a breaker", got)
	}
}

// lead is a Set to which anything may happen, and what its surroundings know.
type lead struct {
	*Set
	now    time.Time
	agents int
	stamps []uint64 // that dispatches may have
	tasks  int
	away   map[Pair]bool
	supply map[string]int
}

var capabilities = []string{gpu, "go"}

// step draws what happens next: change to the breaker of one pair, which the leader
// learns, and what all are told. Time passes by itself.
func (l *lead) step(t *rapid.T) (p Pair, change, told func(*Set) []Pair) {
	p = Pair{rapid.IntRange(0, min(l.agents, 4)-1).Draw(t, "agent"), rapid.SampledFrom(capabilities).Draw(t, "capability")}
	stamp := rapid.SampledFrom(l.stamps).Draw(t, "stamp")
	task := coordinator.TaskID(fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "task")))
	none := func(*Set) []Pair { return nil }
	now := l.now
	away := func(s *Set) []Pair { return s.Away(p, l.away[p]) }
	switch rapid.IntRange(0, 11).Draw(t, "what") {
	case 0, 1, 2:
		l.tasks++
		task, stamp = coordinator.TaskID(fmt.Sprint("own ", l.tasks)), l.Generation()
		return p, func(s *Set) []Pair { return s.Fault(now, p, stamp, task) }, away
	case 3:
		return p, func(s *Set) []Pair { return s.Fault(now, p, stamp, task) }, away
	case 4:
		return p, func(s *Set) []Pair { return s.Success(now, p, stamp, task) }, none
	case 5:
		return p, func(s *Set) []Pair { return s.Trip(now, p) }, away
	case 6:
		return p, func(s *Set) []Pair { _, changed := s.Probe(p, task); return changed }, none
	case 7:
		return p, func(s *Set) []Pair { return s.Release(p, task) }, none
	case 8:
		return p, func(s *Set) []Pair { return s.Forgive(now, p, task) }, none
	case 9:
		n := rapid.IntRange(0, l.agents).Draw(t, "n")
		l.supply[p.Capability] = n
		return p, none, func(s *Set) []Pair { return s.Supply(p.Capability, n) }
	case 10:
		l.away[p] = !l.away[p]
		return p, none, away
	}
	l.now = l.now.Add(time.Duration(rapid.SampledFrom([]int{1, 29, 30, 31, 300, 86_400}).Draw(t, "s")) * time.Second)
	return p, none, none
}

// TestFollowers plays any history of a fleet to a Set and holds two others against it
// after every step: a follower that knows which agents are there and what has become of the
// breaker that was changed, and a successor that is filled with all that is remembered,
// at some moment, and from then on leads by itself. They do not differ.
func TestFollowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{
			Faults:   rapid.IntRange(1, 3).Draw(t, "faults"),
			MaxShare: rapid.SampledFrom([]float64{0.1, 0.3, 1}).Draw(t, "share"),
		}
		agents := rapid.IntRange(1, 30).Draw(t, "agents")
		l := &lead{Set: New(settings), now: start, agents: agents, stamps: []uint64{0}, away: map[Pair]bool{},
			supply: map[string]int{}}
		follower := New(settings)
		var successor *Set
		heard := map[*Set]map[Pair]bool{l.Set: {}, follower: {}}
		hear := func(s *Set, changed []Pair) {
			for _, p := range changed {
				heard[s][p] = s.Allowed(p)
			}
		}
		steps := rapid.IntRange(1, 120).Draw(t, "steps")
		handover := rapid.IntRange(0, steps).Draw(t, "handover")
		for i := range steps {
			p, change, told := l.step(t)
			for s := range heard {
				hear(s, s.Advance(l.now))
			}
			before, was := l.Export(p)
			hear(l.Set, change(l.Set))
			if after, is := l.Export(p); was != is || !after.Equal(before) {
				follower.SetGeneration(l.Generation())
				hear(follower, follower.Import(l.now, p, after))
			}
			if successor != nil {
				hear(successor, change(successor))
			}
			for s := range heard {
				hear(s, told(s))
			}
			l.stamps = append(l.stamps, l.Generation())
			if i == handover {
				successor = New(settings)
				heard[successor] = map[Pair]bool{}
				for c, n := range l.supply {
					hear(successor, successor.Supply(c, n))
				}
				all := l.Pairs()
				if rapid.Bool().Draw(t, "the last first") {
					slices.Reverse(all)
				}
				for _, p := range all {
					state, _ := l.Export(p)
					hear(successor, successor.Import(l.now, p, state))
				}
				for p, away := range l.away {
					hear(successor, successor.Away(p, away))
				}
				successor.SetGeneration(l.Generation())
			}
			for s := range heard {
				same(t, l, s)
				for agent := range agents {
					for _, c := range capabilities {
						p := Pair{agent, c}
						if told, ever := heard[s][p]; s.Allowed(p) != (told || !ever) {
							t.Fatalf("%v is allowed: %v, and nobody was told", p, s.Allowed(p))
						}
					}
				}
			}
		}
	})
}

// same holds every answer of a Set against that of the leader.
func same(t *rapid.T, l *lead, s *Set) {
	for agent := range l.agents {
		for _, c := range capabilities {
			p := Pair{agent, c}
			if got, want := s.Allowed(p), l.Allowed(p); got != want {
				t.Fatalf("%v is allowed: %v, want %v", p, got, want)
			}
			if got, want := s.Look(l.now, p), l.Look(l.now, p); got != want {
				t.Fatalf("%v is %+v, want %+v", p, got, want)
			}
			got, known := s.Export(p)
			if want, wanted := l.Export(p); known != wanted || !got.Equal(want) {
				t.Fatalf("%v is %+v, %v\nwant %+v, %v", p, got, known, want, wanted)
			}
		}
	}
	got, ok := s.NextDeadline()
	if want, wanted := l.NextDeadline(); ok != wanted || !got.Equal(want) {
		t.Fatalf("the next deadline is %v, %v, want %v, %v", got, ok, want, wanted)
	}
	if !slices.Equal(s.Pairs(), l.Pairs()) || s.Generation() != l.Generation() || s.Quiet() != l.Quiet() {
		t.Fatalf("pairs %v in generation %d, want %v in %d", s.Pairs(), s.Generation(), l.Pairs(), l.Generation())
	}
}

// TestImportNever: whatever is imported and whatever follows, no agent gets too little,
// the counts are those of the breakers, and it passes.
func TestImportNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{Faults: rapid.IntRange(1, 3).Draw(t, "faults"), MaxShare: 0.3}
		l := &lead{Set: New(settings), now: start, agents: 5, stamps: []uint64{0}, away: map[Pair]bool{},
			supply: map[string]int{}}
		heard := map[Pair]bool{}
		hear := func(changed []Pair) {
			for _, p := range changed {
				heard[p] = l.Allowed(p)
			}
		}
		times := rapid.Custom(func(t *rapid.T) time.Time {
			s := rapid.SampledFrom([]int{-1e9, -100, 0, 30, 1000, 100_000, 1e9}).Draw(t, "s")
			if s == -1e9 {
				return time.Time{}
			}
			return l.now.Add(time.Duration(s) * time.Second)
		})
		ids := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 8),
			func(i int) coordinator.TaskID { return coordinator.TaskID(fmt.Sprint(i)) }), 0, 9)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p, change, told := l.step(t)
			if rapid.Bool().Draw(t, "import") {
				hear(l.Import(l.now, p, PairState{
					State: State(rapid.Byte().Draw(t, "state") % 5), Cause: Cause(rapid.Byte().Draw(t, "cause") % 5),
					Faults: ids.Draw(t, "faults"), Opened: rapid.IntRange(-2, 20).Draw(t, "opened"),
					ClosedAt: times.Draw(t, "closed"), Until: times.Draw(t, "until"),
					Since: rapid.Uint64Range(0, 50).Draw(t, "since"), Before: rapid.Uint64Range(0, 50).Draw(t, "before"),
					Probe:   coordinator.TaskID(rapid.SampledFrom([]string{"", "1"}).Draw(t, "probe")),
					Probing: rapid.Bool().Draw(t, "probing"),
				}))
			}
			hear(l.Advance(l.now))
			hear(change(l.Set))
			hear(told(l.Set))
			l.stamps = append(l.stamps, l.Generation())
			for _, c := range capabilities {
				open, halfOpen := 0, 0
				for agent := range l.agents {
					p := Pair{agent, c}
					st := l.Look(l.now, p)
					if b := l.find(p); b != nil && !b.away {
						open += count(st.State == Open)
						halfOpen += count(st.State == HalfOpen)
					}
					if st.State == Open && (!st.Until.After(l.now) || st.Until.After(l.now.Add(l.settings.Max))) {
						t.Fatalf("%v is open until %v, now is %v", p, st.Until, l.now)
					}
					if told, ever := heard[p]; l.Allowed(p) != (told || !ever) {
						t.Fatalf("%v is allowed: %v, and nobody was told", p, l.Allowed(p))
					}
				}
				if g := l.groups[c]; g != nil && (g.open != open || g.halfOpen != halfOpen) {
					t.Fatalf("counted %d open, %d half-open; there are %d, %d", g.open, g.halfOpen, open, halfOpen)
				}
			}
		}
		l.Advance(l.now.Add(l.settings.Max))
		for _, p := range l.Pairs() {
			if st := l.Look(l.now, p); st.State == Open {
				t.Fatalf("%v is open for ever: %+v", p, st)
			}
		}
	})
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
