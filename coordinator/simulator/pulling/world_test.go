package pulling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator/simulator"
)

// shipped is the scenario that comes with the program.
func shipped(t testing.TB) *simulator.Scenario {
	t.Helper()
	s, err := simulator.Open("pulling")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scenario reads one whose agents pull; the text is that of the section.
func scenario(t testing.TB, section string) *simulator.Scenario {
	t.Helper()
	s, err := simulator.Read("test.yaml", "test", []byte("about: a test\nduration_seconds: 100\nseeds: [1]\npulling:\n"+
		section))
	if err != nil {
		t.Fatalf("the scenario of the test is not in order:\n%v", err)
	}
	return s
}

// equalDrain is a run of the shipped scenario's equal controller.
func equalDrain(t *testing.T, load int, seed uint64) *world {
	t.Helper()
	s := shipped(t)
	for i := range s.Pulling.Controllers {
		if c := &s.Pulling.Controllers[i]; c.Mode == simulator.PullEqual {
			w, err := newWorld(s, &s.Pulling.Loads[load], c, seed)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
	}
	t.Fatal("the shipped scenario has no equal controller")
	return nil
}

// watch plays until done says so, and tells seen of every claim.
func watch(t *testing.T, w *world, seen func(agent int), done func() bool) {
	t.Helper()
	for !done() {
		before := make([]time.Duration, len(w.agents))
		for i := range w.agents {
			before[i] = w.agents[i].seen
		}
		if !w.step() {
			t.Fatal("the run is over")
		}
		for i := range w.agents {
			if w.agents[i].seen != before[i] {
				seen(i)
			}
		}
	}
}

// TestConvergence: 49 items at any time, 28 items/s. 49·16/28 = 28, 49·8/28 = 14 and
// 49·4/28 = 7 items, each 1.75 s of work. The first claim of an agent asks blindly, for
// one item; BALANCING allows five. After that every claim makes up what has been done
// since, whatever the work takes and whenever the others ask.
func TestConvergence(t *testing.T) {
	for seed := range uint64(20) {
		w := equalDrain(t, 0, seed)
		cycles, held := [3]int{}, [3]int{}
		watch(t, w, func(i int) {
			cycles[i]++
			held[i] = w.agents[i].pending
			if cycles[i] >= 5 && held[i] != []int{28, 14, 7}[i] {
				t.Errorf("seed %d: %s holds %d after its claim %d, want %v", seed, w.agents[i].id, held[i], cycles[i],
					[]int{28, 14, 7}[i])
			}
		}, func() bool { return min(cycles[0], cycles[1], cycles[2]) >= 5 })
		if w.now > 10*time.Second {
			t.Errorf("seed %d: five cycles took %v", seed, w.now)
		}
	}
}

// TestDeathIsDividedAnew: agent-3 dies after 45 s. Until it has been silent for 30 s its
// part of 7 waits for it. Then 49·16/24 = 32.67 and 49·8/24 = 16.33: 33 and 16, which are
// 33/49 = 0.67 (16/24 = 0.67) and 0.33. An agent asks for what it knows to be its part,
// which for its first claim after that is still the old one.
func TestDeathIsDividedAnew(t *testing.T) {
	for seed := range uint64(20) {
		w := equalDrain(t, 2, seed)
		claims, learnt := map[string]int{}, [3]bool{}
		watch(t, w, func(i int) {
			var part string
			var want []int
			switch silent := w.now - w.agents[2].seen; {
			case w.now < 40*time.Second:
				return
			case !w.agents[2].dead:
				part, want = "alive", []int{28, 14, 7}
			case silent < 30*time.Second:
				part, want = "silent", []int{28, 14}
				if w.unclaimed < 7 {
					t.Errorf("seed %d, %v: %d items are unclaimed, want the 7 of the dead at least", seed, w.now, w.unclaimed)
				}
			default:
				part, want = "dead", []int{33, 16}
				if !learnt[i] {
					learnt[i] = true
					return
				}
			}
			claims[part]++
			if w.agents[i].pending != want[i] {
				t.Errorf("seed %d, %v, agent-3 is %s: %s holds %d after its claim, want %d", seed, w.now, part, w.agents[i].id,
					w.agents[i].pending, want[i])
			}
		}, func() bool { return w.now > 90*time.Second })
		if claims["alive"] == 0 || claims["silent"] == 0 || claims["dead"] == 0 {
			t.Errorf("seed %d: claims %v, want some in each part", seed, claims)
		}
	}
	if share := 33.0 / 49; math.Abs(share-0.67) > 0.005 {
		t.Errorf("agent-1 has %v of it", share)
	}
}

// TestItemsAreConserved: whatever the agents, the load and the controller, no item is
// ever lost, made up, or held above an agent's slots, and the dead hold nothing.
func TestItemsAreConserved(t *testing.T) {
	modes := []simulator.PullMode{simulator.PullFixed, simulator.PullLiteral, simulator.PullLiteralShare,
		simulator.PullEqual}
	rapid.Check(t, func(rt *rapid.T) {
		var section strings.Builder
		section.WriteString("  agents:\n")
		n := rapid.IntRange(1, 4).Draw(rt, "agents")
		for i := range n {
			fmt.Fprintf(&section, "    - {name: a%d, capacity_items_per_second: %g, slots: %d}\n", i,
				rapid.Float64Range(0.05, 20).Draw(rt, "capacity"), rapid.IntRange(1, 50).Draw(rt, "slots"))
		}
		load := fmt.Sprintf("items: %d", rapid.IntRange(1, 100).Draw(rt, "items"))
		if rapid.Bool().Draw(rt, "open") {
			load = fmt.Sprintf("arrivals_per_second: %g", rapid.Float64Range(0.1, 30).Draw(rt, "rate"))
		}
		if n > 1 && rapid.Bool().Draw(rt, "death") {
			load += fmt.Sprintf(", death: {agent: a%d, at_seconds: %d}", rapid.IntRange(0, n-1).Draw(rt, "who"),
				rapid.IntRange(1, 99).Draw(rt, "when"))
		}
		fmt.Fprintf(&section, "  loads: [{%s}]\n  controllers: [{mode: %s, max_claim_items: %d, grants: %s}]\n", load,
			rapid.SampledFrom(modes).Draw(rt, "mode"), rapid.IntRange(1, 100).Draw(rt, "most"),
			rapid.SampledFrom([]string{"all", "fair_part"}).Draw(rt, "grants"))
		s := scenario(t, section.String())
		w, err := newWorld(s, &s.Pulling.Loads[0], &s.Pulling.Controllers[0], rapid.Uint64().Draw(rt, "seed"))
		if err != nil {
			rt.Fatal(err)
		}
		for last := time.Duration(0); w.step(); last = w.now {
			items := w.unclaimed
			for i := range w.agents {
				a := &w.agents[i]
				items += a.pending
				if a.pending < 0 || a.pending > a.Slots || a.dead && a.pending > 0 || (a.done == never) != (a.pending == 0) {
					rt.Fatalf("%v: %s holds %d of %d, dead %v, its item done at %v", w.now, a.id, a.pending, a.Slots, a.dead, a.done)
				}
			}
			want := w.load.Items
			if want == 0 {
				want = int(w.arrived) - 1 - w.tally.done // the last of them is still to come
			}
			if items != want || w.unclaimed < 0 || w.now < last {
				rt.Fatalf("%v: %d items, %d of them unclaimed, want %d; before it was %v", w.now, items, w.unclaimed, want, last)
			}
		}
	})
}

// TestUtilisationIsThatOfTheory: an agent that does 2 items/s and gets 1 item/s is idle
// half of the time, however it asks, and all that arrive are done. What it holds is at
// least what it would be if it got every item at once: ρ/(1−ρ) = 1 (M/M/1).
func TestUtilisationIsThatOfTheory(t *testing.T) {
	s := scenario(t,
		"  agents: [{name: a, capacity_items_per_second: 2}]\n  loads: [{arrivals_per_second: 1}]\n  controllers: [fixed, "+
			"literal, equal]\n")
	s.Duration, s.WarmUp = 20_000*time.Second, 100*time.Second
	r, err := Play(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Loads[0].Controllers {
		// 20,000 arrivals: their standard deviation is 141, 0.7 %.
		if math.Abs(p.Throughput.Mean-1) > 0.03 || math.Abs(p.Agents[0].Idle.Mean-0.5) > 0.03 || p.Backlog.Mean < 0.95 {
			t.Errorf("%s: %v items/s, idle %v, backlog %v; want 1, 0.5, and 1 or more", p.Label, p.Throughput.Mean,
				p.Agents[0].Idle.Mean, p.Backlog.Mean)
		}
	}
}

// TestEveryControllerGetsTheSame arrivals.
func TestEveryControllerGetsTheSame(t *testing.T) {
	s := shipped(t)
	var first []time.Duration
	for c := range s.Pulling.Controllers {
		w, err := newWorld(s, &s.Pulling.Loads[1], &s.Pulling.Controllers[c], 7)
		if err != nil {
			t.Fatal(err)
		}
		var arrivals []time.Duration
		for w.step() {
			if n := len(arrivals); n == 0 || arrivals[n-1] != w.arrives {
				arrivals = append(arrivals, w.arrives)
			}
		}
		if first == nil {
			first = arrivals
		}
		// 25.2/s in 300 s are 7560, with a standard deviation of 87.
		if !slices.Equal(arrivals, first) || len(arrivals) < 7200 || len(arrivals) > 7900 {
			t.Errorf("%s: %d arrivals, other than the %d under the first", s.Pulling.Controllers[c].Label, len(arrivals),
				len(first))
		}
	}
}

func TestPlayEndsEarlyAndRefuses(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Play(gone, shipped(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	pushed, err := simulator.Open("herding")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Play(t.Context(), pushed, nil); err == nil || !strings.Contains(err.Error(), "do not pull") {
		t.Errorf("a scenario of strategies: %v", err)
	}
	// A month, and all seeds.
	large := shipped(t)
	large.Duration, large.Seeds = 31*24*time.Hour, simulator.Seeds(simulator.MaxSeeds)
	if _, err := Play(t.Context(), large, nil); err == nil || !strings.Contains(err.Error(), "have fewer seeds") {
		t.Errorf("a scenario that takes days: %v", err)
	}
}
