package views

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// member is one agent online, for tests of sums.
func member(id coordinator.AgentID, capacity float64, pending int,
	change ...func(*coordinator.AgentSnapshot)) coordinator.AgentSnapshot {
	drain := time.Duration(float64(pending) / capacity * float64(time.Second))
	a := coordinator.AgentSnapshot{
		Spec: coordinator.AgentSpec{ID: id, MaxConcurrent: 4}, State: coordinator.AgentOnline, Free: 1,
		Capacity: coordinator.CapacitySnapshot{ItemsPerSecond: capacity, Reported: true, Pending: pending, Drain: drain,
			Health: coordinator.HealthOf(drain)},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func in(state coordinator.AgentState) func(*coordinator.AgentSnapshot) {
	return func(a *coordinator.AgentSnapshot) { a.State = state }
}

func working(inFlight int, load, success float64, took time.Duration) func(*coordinator.AgentSnapshot) {
	return func(a *coordinator.AgentSnapshot) {
		a.InFlight, a.Load, a.Success, a.Duration = inFlight, load, success, took
	}
}

// BALANCING's three agents at their balance: 28, 14 and 7 items for 16, 8 and 4
// items a second drain in 1.75 s, and each has its share.
func TestBalancingsThreeAgents(t *testing.T) {
	snap := coordinator.Snapshot{
		Agents:  []coordinator.AgentSnapshot{member("a1", 16, 28), member("a2", 8, 14), member("a3", 4, 7)},
		Pending: [4]int{1, 2, 0, 0},
	}
	s := AgentStats(&snap, 48)
	if s.TotalCapacity != 28 || s.ActiveAgentCount != 3 { // 16 + 8 + 4
		t.Errorf("total capacity %v of %d agents, want 28 of 3", s.TotalCapacity, s.ActiveAgentCount)
	}
	// 28 + 14 + 7 = 49; 49 + 3 + 48 = 100
	if want := (view.QueueDepth{Agents: 49, Waiting: 3, Unread: 48}); s.QueueDepth != want ||
		s.GlobalQueueDepth != 100 {
		t.Errorf("queue depth %+v, %d in all; want %+v, 100", s.QueueDepth, s.GlobalQueueDepth, want)
	}
	for i, want := range []struct{ load, target float64 }{{28. / 100, 16. / 28}, {14. / 100, 8. / 28},
		{7. / 100, 4. / 28}} {
		a := s.Agents[i]
		if a.LoadFactor != want.load || a.TargetLoadFactor != want.target || a.DrainSeconds != 1.75 || a.Health != "HEALTHY" {
			t.Errorf("%s: load factor %v of %v, drain %v s, %s; want %v of %v, 1.75 s", a.ID, a.LoadFactor, a.TargetLoadFactor,
				a.DrainSeconds, a.Health, want.load, want.target)
		}
	}
	// Agent 3 is gone: the others' targets are of 24 (BALANCING, mode 3: 16/24 = 0.67).
	snap.Agents[2].State = coordinator.AgentStale
	s = AgentStats(&snap, 0)
	if got := fmt.Sprintf("%.2f %.2f %.2f", s.Agents[0].TargetLoadFactor, s.Agents[1].TargetLoadFactor,
		s.Agents[2].TargetLoadFactor); got != "0.67 0.33 0.00" || s.ActiveAgentCount != 2 {
		t.Errorf("targets %s of %d agents, want 0.67 0.33 0.00 of 2", got, s.ActiveAgentCount)
	}
	if s.TotalCapacity != 24 || s.QueueDepth.Agents != 42 {
		t.Errorf("capacity %v, %d pending; want those of the two left: 24, 42", s.TotalCapacity, s.QueueDepth.Agents)
	}
}

// The health of an agent that is not there is not known: it is absent, in JSON, too.
func TestHealthOfAgentsThatAreNotThere(t *testing.T) {
	for state, want := range map[coordinator.AgentState]string{
		coordinator.AgentOnline: `"health":"OVERLOADED"`, coordinator.AgentNeverSeen: "", coordinator.AgentOffline: "",
		coordinator.AgentStale: "", coordinator.AgentGone: "",
	} {
		a := member("a1", 1, 60, in(state)) // 60 items at 1 a second
		text, err := json.Marshal(agentInfo(&a))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `"health"`); got != (want != "") || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, want %q", state, text, want)
		}
	}
}

func TestSwarm(t *testing.T) {
	snap := coordinator.Snapshot{Agents: []coordinator.AgentSnapshot{
		member("a1", 1, 0, working(0, 0, 0.9, 0)),
		member("a2", 1, 0, working(2, 0.5, 0.8, 2*time.Second)),
		member("a3", 1, 0, working(1, 0.25, 1, 4*time.Second)),
		// Offline is never idle or busy, whatever it had, and spoils no average.
		member("b1", 1, 0, in(coordinator.AgentOffline), working(3, 1, 0, time.Hour)),
		member("b2", 1, 0, in(coordinator.AgentStale)),
		member("b3", 1, 0, in(coordinator.AgentGone)),
		member("b4", 1, 0, in(coordinator.AgentNeverSeen)),
	}}
	got := swarm(&snap)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"total", float64(got.Total), 7}, {"idle", float64(got.Idle), 1}, {"busy", float64(got.Busy), 2},
		{"offline", float64(got.Offline), 4},
		{"in flight", float64(got.InFlight), 3},               // 0 + 2 + 1
		{"average load", got.AverageLoad, 0.25},               // (0 + 0.5 + 0.25) / 3
		{"average success", got.AverageSuccessRate, 0.9},      // (0.9 + 0.8 + 1) / 3
		{"average latency in ms", got.AverageLatencyMS, 3000}, // (2 s + 4 s) / 2: of a1 it is not known
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestBottlenecks(t *testing.T) {
	full := func(a *coordinator.AgentSnapshot) { a.Free = 0 }
	agents := []coordinator.AgentSnapshot{
		member("a-idle", 1, 0),
		member("b-full", 1, 10, full),
		member("c-slow", 1, 70), // drain 70 s: above 2 × (0+10+70+0)/4 = 40 s, and at least 60 s
		member("d-full", 1, 10, full, working(4, 1, 1, 0)),
		member("e-away", 1, 1000, full, in(coordinator.AgentOffline)),
	}
	agents[3].Capacity.Drain = 0
	var got []string
	waiting := [4]int{1: 3}
	for _, b := range swarm(&coordinator.Snapshot{Agents: agents, Pending: waiting}).Bottlenecks {
		got = append(got, b.ID+" "+strings.Join(b.Why, "+"))
	}
	if want := []string{"c-slow overloaded+slow", "b-full full", "d-full full"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// At most ten, the worst; of equals those with more load, then by id.
	agents = nil
	for i := range 30 {
		agents = append(agents, member(coordinator.AgentID(fmt.Sprintf("a%02d", i)), 1, 0, full,
			working(1, float64(i%2), 1, 0)))
	}
	found := swarm(&coordinator.Snapshot{Agents: agents, Pending: waiting}).Bottlenecks
	if len(found) != 10 || found[0].ID != "a01" || found[9].ID != "a19" {
		t.Errorf("%+v", found)
	}
	// One agent alone is not slower than the mean of itself.
	if b := swarm(&coordinator.Snapshot{Agents: []coordinator.AgentSnapshot{member("a1", 1, 20)}}).
		Bottlenecks; len(b) != 0 {
		t.Errorf("%+v", b)
	}
}

// Where others fail, an agent that works is no bottleneck, however much it has to do.
func TestBottlenecksAreNotTheInnocent(t *testing.T) {
	full := func(a *coordinator.AgentSnapshot) { a.Free = 0 }
	failing := func(a *coordinator.AgentSnapshot) { a.Success, a.Outcomes = 0.2, 30 }
	var agents []coordinator.AgentSnapshot
	for i := range 19 {
		agents = append(agents, member(coordinator.AgentID(fmt.Sprintf("bad-%02d", i)), 1, 0, failing))
	}
	agents[18].EjectedFrom = []string{"go"}
	// It alone has work left, 20 s of it: the mean of all twenty would be 20/20 = 1 s.
	agents = append(agents, member("good", 1, 20, full))
	names := func(waiting int, agents ...coordinator.AgentSnapshot) (got []string) {
		for _, b := range swarm(&coordinator.Snapshot{Agents: agents, Pending: [4]int{1: waiting}}).Bottlenecks {
			got = append(got, b.ID+" "+strings.Join(b.Why, "+"))
		}
		return got
	}
	if got := names(100, agents...); len(got) != maxBottlenecks ||
		slices.ContainsFunc(got, func(b string) bool { return strings.HasPrefix(b, "good") }) {
		t.Errorf("%v, want ten of those that fail", got)
	}
	if got := names(100, agents[18:]...); !slices.Equal(got, []string{"bad-18 ejected+failing"}) {
		t.Errorf("%v", got)
	}
	// Few outcomes are those of others: what is assumed of one that has just come.
	agents[0].Outcomes = 2
	if got := names(100, agents[0]); got != nil {
		t.Errorf("%v after two outcomes", got)
	}
	// An agent whose slots are all taken has no more to do than it can, while nothing waits.
	if got := names(0, agents[19]); got != nil {
		t.Errorf("%v where nothing waits", got)
	}
}

// An empty fleet gives zeros, and no fleet at all gives what JSON does not know.
func TestStatsAreNumbers(t *testing.T) {
	var empty coordinator.Snapshot
	if s := AgentStats(&empty, 0); s.GlobalQueueDepth != 0 || s.Swarm.Total != 0 || s.Swarm.AverageLoad != 0 ||
		s.TotalCapacity != 0 {
		t.Errorf("%+v", s)
	}
	odd := rapid.SampledFrom([]float64{0, 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e308, 1e-308})
	rapid.Check(t, func(t *rapid.T) {
		var snap coordinator.Snapshot
		for i := range rapid.IntRange(0, 4).Draw(t, "agents") {
			a := member(coordinator.AgentID(fmt.Sprint(i)), 1, rapid.IntRange(0, 5).Draw(t, "pending"))
			a.State = coordinator.AgentState(rapid.IntRange(0, 4).Draw(t, "state"))
			a.Capacity.ItemsPerSecond, a.Capacity.Measured = odd.Draw(t, "capacity"), odd.Draw(t, "measured")
			a.Load, a.Success, a.Outcomes = odd.Draw(t, "load"), odd.Draw(t, "success"), odd.Draw(t, "outcomes")
			snap.Agents = append(snap.Agents, a)
		}
		s := AgentStats(&snap, rapid.IntRange(0, 5).Draw(t, "unread"))
		if w := s.Swarm; w.Idle+w.Busy+w.Offline != w.Total || w.Total != len(snap.Agents) {
			t.Fatalf("%d idle, %d busy, %d offline of %d", w.Idle, w.Busy, w.Offline, w.Total)
		}
		if q := s.QueueDepth; q.Agents+q.Waiting+q.Unread != s.GlobalQueueDepth {
			t.Fatalf("%+v is not %d", q, s.GlobalQueueDepth)
		}
		for _, a := range s.Agents {
			if a.LoadFactor < 0 || a.LoadFactor > 1 || a.TargetLoadFactor < 0 || a.TargetLoadFactor > 1 {
				t.Fatalf("%+v", a)
			}
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatalf("not JSON: %v", err)
		}
	})
}

func TestConcentration(t *testing.T) {
	// fleet makes agents of so many slots each, all online.
	fleet := func(slots ...int) (all []coordinator.AgentSnapshot) {
		for i, n := range slots {
			all = append(all, coordinator.AgentSnapshot{
				Spec: coordinator.AgentSpec{ID: coordinator.AgentID(fmt.Sprint("a", i))}, Slots: n, State: coordinator.AgentOnline,
			})
		}
		return all
	}
	given := func(tasks ...int) map[coordinator.AgentID]int {
		m := make(map[coordinator.AgentID]int)
		for i, n := range tasks {
			m[coordinator.AgentID(fmt.Sprint("a", i))] = n
		}
		return m
	}
	offline := fleet(4, 4)
	offline[0].State = coordinator.AgentStale
	for _, tc := range []struct {
		name   string
		given  map[coordinator.AgentID]int
		agents []coordinator.AgentSnapshot
		want   float64
	}{
		{"each its share", given(16*20, 8*20, 4*20), fleet(16, 8, 4), 0},
		{"all to one of three equals", given(300, 0, 0), fleet(2, 2, 2), 1},              // (1 - 1/3) / (1 - 1/3)
		{"half to one of four equals", given(100, 0, 50, 50), fleet(1, 1, 1, 1), 1. / 3}, // (1/2 - 1/4) / (3/4)
		{"most to the one with most slots", given(900, 100), fleet(9, 1), 0},             // 0.9 - 0.9
		{"as many to the one with few slots", given(100, 900), fleet(9, 1), (0.9 - 0.1) / 0.9},
		{"one agent alone", given(500), fleet(4), 0},
		{"49 tasks say nothing", given(49, 0), fleet(1, 1), 0},
		{"50 do", given(50, 0), fleet(1, 1), 1}, // (1 - 1/2) / (1/2)
		{"what an agent had that is gone now does not count", given(900, 100), offline, 0},
		{"no agent online", given(900, 100), nil, 0},
		{"an empty fleet", nil, nil, 0},
		{"no slots", given(900, 100), fleet(0, 0), 0},
	} {
		if got := Concentration(tc.given, tc.agents); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// An agent that fails all that it is given has no work before it, and is not healthy because of that.
func TestFailingAgentIsNotHealthy(t *testing.T) {
	failing := member("a1", 4, 0, working(0, 0, 0.1, 0), func(a *coordinator.AgentSnapshot) { a.Outcomes = 29 })
	ejected := member("a2", 4, 0, working(0, 0, 0.9, 0),
		func(a *coordinator.AgentSnapshot) { a.EjectedFrom = []string{"gpu"} })
	away, well := failing, member("a4", 4, 0, working(0, 0, 0.9, 0))
	away.State = coordinator.AgentStale
	for i, want := range []string{view.FailingHealth, view.FailingHealth, "", "HEALTHY"} {
		a := []coordinator.AgentSnapshot{failing, ejected, away, well}[i]
		if got := agentInfo(&a).Health; got != want {
			t.Errorf("%s is %q, want %q", a.Spec.ID, got, want)
		}
	}
}
