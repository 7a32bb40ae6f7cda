package breaker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// TestNever plays any history of a fleet of up to 30 agents and holds after each
// step what must never be otherwise:
//
//   - at most the maximum share is open after any opening, and one is closed;
//   - no agent is refused while ejection is ignored;
//   - no half-open agent has two probes;
//   - a breaker opens only upon a fault or a failed test of its own;
//   - one that is open has a deadline, no further away than Max, and ends then;
//   - the counts are those of the breakers, and every change is told.
func TestNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{
			Faults:   rapid.IntRange(1, 3).Draw(t, "faults"),
			MaxShare: rapid.SampledFrom([]float64{0.1, 0.3, 1}).Draw(t, "share"),
		}
		s := New(settings)
		agents := rapid.IntRange(1, 30).Draw(t, "agents")
		now, stamps := start, []uint64{0}
		probes := map[int]coordinator.TaskID{}
		told := map[Pair]bool{}
		supply := agents
		s.Supply(gpu, supply)
		tasks := 0
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			// Few agents, so that much happens to each.
			agent := rapid.IntRange(0, min(agents, 4)-1).Draw(t, "agent")
			p := pair(agent)
			stamp := rapid.SampledFrom(stamps).Draw(t, "stamp")
			task := coordinator.TaskID(fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "task")))
			before := states(s, agents)
			mayOpen := -1
			var changed []Pair
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); what {
			case 0, 1, 2:
				tasks++
				changed, mayOpen = s.Fault(now, p, s.Generation(), coordinator.TaskID(fmt.Sprint("own ", tasks))), agent
			case 3:
				changed, mayOpen = s.Fault(now, p, stamp, task), agent
			case 4:
				changed = s.Success(now, p, stamp, task)
			case 5:
				changed, mayOpen = s.Trip(now, p), agent
			case 6:
				taken, c := s.Probe(p, task)
				changed = c
				if had, under := probes[agent]; taken && under {
					t.Fatalf("agent %d has probes %q and %q", agent, had, task)
				}
				if taken {
					probes[agent] = task
				}
			case 7:
				changed = s.Release(p, task)
				if probes[agent] == task {
					delete(probes, agent)
				}
			case 8:
				changed = s.Forgive(now, p, task)
			case 9:
				if rapid.Bool().Draw(t, "supply") {
					supply = rapid.IntRange(0, agents).Draw(t, "n")
					changed = s.Supply(gpu, supply)
				} else {
					now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "s")) * time.Second)
					changed = s.Advance(now)
				}
			}
			stamps = append(stamps, s.Generation())
			for _, c := range changed {
				told[c] = s.Allowed(c)
			}
			after, open, notClosed, opened := states(s, agents), 0, 0, false
			for i, st := range after {
				if st.State == Open {
					open++
				}
				if st.State != Closed {
					notClosed++
				}
				if st.State != HalfOpen || !st.Probing {
					delete(probes, i)
				}
				if st.State == Open && before[i].State != Open {
					opened = true
					if i != mayOpen {
						t.Fatalf("agent %d opened by what happened to %d", i, mayOpen)
					}
				}
				if st.State == Open && (!st.Until.After(now) || st.Until.After(now.Add(s.settings.Max))) {
					t.Fatalf("agent %d is open until %v, now is %v", i, st.Until, now)
				}
				if st.State == HalfOpen && s.Allowed(pair(i)) == st.Probing && !st.Ignored {
					t.Fatalf("agent %d is half-open, probing %v, allowed %v", i, st.Probing, !st.Probing)
				}
				if was, ever := told[pair(i)]; s.Allowed(pair(i)) != (was || !ever) {
					t.Fatalf("agent %d: a change was not told", i)
				}
			}
			if limit := max(1, int(math.Floor(settings.MaxShare*float64(supply)+1e-9))); opened &&
				(open > limit || notClosed >= supply) {
				t.Fatalf("%d open and %d not closed of %d, at most %d may be open", open, notClosed, supply, limit)
			}
			if ignored := supply <= 1 || open*2 > supply; ignored && len(s.Refused()) > 0 {
				t.Fatalf("%d of %d are open, and %v are refused", open, supply, s.Refused())
			}
			if g := s.groups[gpu]; g != nil && (g.open != open || g.open+g.halfOpen != notClosed) {
				t.Fatalf("counted %d open, %d half-open; there are %d, %d", g.open, g.halfOpen, open, notClosed-open)
			} else if there := g != nil && len(g.breakers) > 0; s.Quiet() == there {
				t.Fatalf("quiet %v, breakers there %v", s.Quiet(), there)
			}
		}
		s.Advance(now.Add(s.settings.Max))
		for i, st := range states(s, agents) {
			if st.State == Open {
				t.Fatalf("agent %d is open for ever: %+v", i, st)
			}
		}
	})
}

func states(s *Set, agents int) []Status {
	list := make([]Status, agents)
	for i := range list {
		list[i] = s.Look(start, pair(i))
	}
	return list
}

// BenchmarkSuccess is what every good outcome costs, of an agent without faults.
func BenchmarkSuccess(b *testing.B) {
	s := New(Settings{})
	s.Supply(gpu, 100)
	for i := range 20 {
		for k := range 3 {
			s.Fault(start, pair(i), 0, coordinator.TaskID(fmt.Sprint(k)))
		}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		s.Success(start, pair(50+n%50), s.Generation(), "x")
	}
}

// BenchmarkAllowed asks about agents of which nothing is known, and of which some is.
func BenchmarkAllowed(b *testing.B) {
	s := New(Settings{})
	s.Supply(gpu, 100)
	s.Trip(start, pair(3))
	n := 0
	for b.Loop() {
		n++
		s.Allowed(pair(n & 7))
	}
}
