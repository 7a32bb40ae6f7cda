package simulator

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// shippedWith plays a shipped scenario once, under the strategies of these labels.
func shippedWith(t *testing.T, name string, labels ...string) map[string]Performance {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Seeds = s.Seeds[:1]
	var chosen []Variant
	for _, label := range labels {
		for _, v := range s.Strategies {
			if v.Label == label {
				chosen = append(chosen, v)
			}
		}
	}
	s.Strategies = chosen
	results := make(map[string]Performance)
	for _, p := range played(t, s).Strategies {
		results[p.Label] = p
	}
	if len(results) != len(labels) {
		t.Fatalf("%s has not all of the strategies %v", name, labels)
	}
	return results
}

// share of the decisions that a group got.
func share(t *testing.T, p Performance, group string) float64 {
	t.Helper()
	for _, g := range p.Groups {
		if g.Group == group {
			return g.Share.Mean
		}
	}
	t.Fatalf("%s: no group %s", p.Label, group)
	return 0
}

// An agent that fails everything at once always looks idle. A strategy by load gives
// it most of the work; ejected it gets less than 2 %.
func TestSinkhole(t *testing.T) {
	results := shippedWith(t, "sinkhole", "least_loaded without breaker", "least_loaded", "reward_rate")
	if got := share(t, results["least_loaded without breaker"], "sinkhole"); got < 0.5 {
		t.Errorf("without a breaker the sinkhole gets %.1f %%, and is no danger that need be averted", 100*got)
	}
	for _, label := range []string{"least_loaded", "reward_rate"} {
		if got := share(t, results[label], "sinkhole"); got >= 0.02 {
			t.Errorf("%s: the sinkhole gets %.2f %% of the tasks, want less than 2 %%", label, 100*got)
		}
	}
}

// Two of twelve agents come ten minutes later than the others, of which everything is
// known by then, and start slowly. In the five minutes after the minute that this
// takes they get their part, a sixth: not less than three quarters of that, and not
// half as much again, though what is unknown of them may look better than it is.
func TestNewcomersGetTheirShare(t *testing.T) {
	for label, p := range shippedWith(t, "newcomer", "load_balanced", "reward_rate") {
		if got := share(t, p, "newcomer"); got < 0.75*2/12 || got > 1.5*2/12 {
			t.Errorf("%s: the newcomers get %.1f %% of the tasks, their part is 16.7 %%", label, 100*got)
		}
	}
}

// Success rates change twice. A strategy that learns gives away less than half of what chance
// does, and in the last quarter of each phase next to nothing of it: regret falls
// again after every change. The course has a hundred points, the changes are after
// the 33rd and the 66th.
func TestRegretFallsAfterDrift(t *testing.T) {
	results := shippedWith(t, "drift", "random", "reward_rate")
	chance, learnt := results["random"].RegretCourse, results["reward_rate"].RegretCourse
	if learnt[99] > chance[99]/2 {
		t.Errorf("reward_rate gives away %.0f successes, chance %.0f; want less than half", learnt[99], chance[99])
	}
	for _, phase := range [][2]int{{24, 32}, {57, 65}, {91, 99}} {
		given := learnt[phase[1]] - learnt[phase[0]]
		byChance := chance[phase[1]] - chance[phase[0]]
		if given > byChance/4 {
			t.Errorf(
				"from %d %% to %d %% of the time reward_rate gives away %.1f successes, chance %.1f; want less than a quarter",
				phase[0]+1, phase[1]+1, given, byChance)
		}
	}
}

// ADR-018's fleet: the better agents get more, and no one gets all.
func TestBetterAgentsGetMore(t *testing.T) {
	p := shippedWith(t, "adr-018", "load_balanced")["load_balanced"]
	a, b, c := share(t, p, "agent-a"), share(t, p, "agent-b"), share(t, p, "agent-c")
	if !(a > c && c > b && b > 0.2) {
		t.Errorf("shares %.3f, %.3f, %.3f of agents with success rates 0.95, 0.85, 0.90", a, b, c)
	}
}

// BALANCING's agents of 16, 8 and 4 items/s: pushed in turn, each gets a third, the
// slow one drowns; held until a slot is free, work goes where it gets done.
func TestUnequalSpeeds(t *testing.T) {
	results := shippedWith(t, "balancing", "round_robin, pushed", "load_balanced")
	pushed, held := results["round_robin, pushed"], results["load_balanced"]
	approx(t, "pushed: share of the slow agent", share(t, pushed, "agent-3"), 1.0/3, 0.02)
	approx(t, "held: share of the slow agent", share(t, held, "agent-3"), 4.0/28, 0.2)
	if pushed.WaitP99.Mean < 100*held.WaitP99.Mean {
		t.Errorf("p99 of the wait: pushed %.1f s, held %.1f s; want a hundred times as much", pushed.WaitP99.Mean,
			held.WaitP99.Mean)
	}
}

// Every key that the reader knows is described, and every key described is known.
func TestKeysAreDescribed(t *testing.T) {
	page, err := os.ReadFile("scenarios/README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, file := range []string{"read.go", "read_fleet.go", "read_policy.go", "read_pulling.go", "read_sharing.go",
		"read_priorities.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllSubmatch(source, -1) {
			known[string(m[1])] = true
			if !regexp.MustCompile(`\b` + string(m[1]) + `\b`).Match(page) {
				t.Errorf("scenarios/README.md says nothing of %s", m[1])
			}
		}
	}
	if len(known) < 60 {
		t.Fatalf("only %d keys are found in the sources", len(known))
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			if !known[m[1]] {
				t.Errorf("scenarios/README.md describes %s, which no reader knows", m[1])
			}
		}
	}
}

// All-rounders that alone can do some of the work: by COORDINATOR's rule they are given the rest, too, and have hardly
// a moment left for it; where specialists are preferred they have a third of their time, and the work that waits for
// them waits less.
func TestSpecialistsKeepAllRoundersFree(t *testing.T) {
	results := shippedWith(t, "specialists", "capability_match", "capability_match, prefer: specialists")
	used := func(p Performance) float64 {
		t.Helper()
		for _, g := range p.Groups {
			if g.Group == "all-rounder" {
				return g.Utilisation.Mean
			}
		}
		t.Fatalf("%s: no all-rounders", p.Label)
		return 0
	}
	literal, preferred := results["capability_match"], results["capability_match, prefer: specialists"]
	if used(literal) < 0.9 || used(preferred) > 0.7 { // what they alone can do takes 0.6
		t.Errorf("all-rounders are used %.2f, and %.2f where specialists are preferred", used(literal), used(preferred))
	}
	if a, b := literal.WaitP99.Mean, preferred.WaitP99.Mean; b > 0.8*a {
		t.Errorf("of a hundred tasks the one that waits longest waits %.1f s, and %.1f s where specialists are preferred", a,
			b)
	}
}
