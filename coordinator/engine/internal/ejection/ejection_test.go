package ejection

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
)

var start = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

var rules = coordinator.Breaker{Consecutive: 5, Base: 30 * time.Second, Longest: 300 * time.Second, MaxShare: 0.1}

// bench is a table in a fleet, with the tasks that it has seen.
type bench struct {
	t *testing.T
	Table
	now  time.Time
	last int
}

// crew makes agents of these ids, each of which offers go and web.
func crew(ids ...string) []Agent {
	agents := make([]Agent, len(ids))
	for i, id := range ids {
		agents[i] = Agent{ID: coordinator.AgentID(id), Capabilities: []string{"go", "web"}, Online: true}
	}
	return agents
}

func newBench(t *testing.T, agents []Agent) *bench {
	b := &bench{t: t, Table: New(), now: start}
	b.SetRecording(true)
	b.SetRules(b.now, rules, false)
	was := make([]int, len(agents))
	for i := range was {
		was[i] = -1
	}
	b.Renumber(b.now, agents, was)
	return b
}

// begins has the agent have a task that it has never had.
func (b *bench) begins(agent int, required ...string) Dispatch {
	b.last++
	d := Dispatch{Agent: agent, Task: coordinator.TaskID(fmt.Sprint("t", b.last)), Required: required}
	d.Generation, d.Probe, _ = b.Begin(b.now, d)
	return d
}

// fails has the agent fail so many tasks, and returns what came of the last.
func (b *bench) fails(agent, n int, required ...string) (c *Changes) {
	for range n {
		d := b.begins(agent, required...)
		c = b.Fault(b.now, d, d.Task, false)
	}
	return c
}

// text is what changes say, in the order in which they are carried out.
func text(c *Changes) string {
	var lines []string
	for _, a := range c.Announced {
		if a.Trusted {
			lines = append(lines, fmt.Sprintf("%s is trusted with %s", a.Agent, a.Capability))
		} else {
			lines = append(lines, fmt.Sprintf("%s is ejected from %s for %s", a.Agent, a.Capability, a.Until.Sub(start)))
		}
	}
	for _, r := range c.Records {
		lines = append(lines, fmt.Sprintf("record %s %q state %d faults %d", r.Agent, r.Capability, r.State, len(r.Faults)))
	}
	return strings.Join(lines, "; ")
}

// ejected lists what each agent is ejected from, as Ejected, Usable and List say alike.
func (b *bench) ejected() string {
	b.t.Helper()
	all := agentset.New(len(b.agents))
	for i := range b.agents {
		all.Add(i)
	}
	var lines []string
	online := 0
	for _, a := range b.agents {
		if a.Online {
			online++
		}
	}
	if b.supply["go"] != online || b.supply[""] != online {
		b.t.Fatalf("%d agents are online, counted are %v", online, b.supply)
	}
	for i, a := range b.agents {
		from, _ := b.List(b.now, i)
		for _, c := range []string{"go", "web"} {
			is := slices.Contains(from, c)
			if b.Ejected(i, c) != is || b.Usable(all, []string{c}).Has(i) == is {
				b.t.Fatalf("%s and %s: listed %v, ejected %v, usable %v", a.ID, c, is, b.Ejected(i, c),
					b.Usable(all, []string{c}).Has(i))
			}
		}
		if text := b.Check(i, a.Online); text != "" {
			b.t.Fatalf("%s: %s", a.ID, text)
		}
		if len(from) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", a.ID, strings.Join(from, ",")))
		}
	}
	return strings.Join(lines, " ")
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEjectionAndItsEnd: the fifth fault in a row ejects, for 30 s. The agent is tried with one task; the ejection was
// announced once, and its end is once.
func TestEjectionAndItsEnd(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	same(t, text(b.fails(0, 4, "go")), `record a0 "go" state 0 faults 4`)
	same(t, b.ejected(), "")
	c := b.fails(0, 1, "go")
	same(t, text(c), `a0 is ejected from go for 30s; record a0 "go" state 1 faults 5`)
	if !c.Concern([]string{"go", "web"}) || c.Concern([]string{"web"}) || c.Concern(nil) {
		t.Errorf("changed: %v", c.Capabilities)
	}
	same(t, b.ejected(), "a0: go")

	at, ok := b.NextDeadline()
	if b.now = start.Add(30 * time.Second); !ok || !at.Equal(b.now) {
		t.Fatalf("due %v at %s", ok, at)
	}
	same(t, text(b.Advance(b.now)), `record a0 "go" state 2 faults 5`)
	same(t, b.ejected(), "")
	if n, ok := b.NextTrusted(); !ok || n != 0 {
		t.Errorf("%d %v may have tasks again, want 0", n, ok)
	}
	if n, ok := b.NextTrusted(); ok {
		t.Errorf("%d as well", n)
	}

	d := b.begins(0, "go", "web")
	if !d.Probe {
		t.Error("it is not tried with the task")
	}
	same(t, b.ejected(), "a0: go") // one at a time
	same(t, text(b.Success(b.now, d)), `a0 is trusted with go; record a0 "go" state 0 faults 0`)
	same(t, b.ejected(), "")
}

// TestReleasedProbe: a trial that ends without saying anything makes room for the next, whatever the task
// requires by now: it was the probe for go.
func TestReleasedProbe(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	b.fails(0, 5, "go")
	b.now = start.Add(30 * time.Second)
	b.Advance(b.now)
	d := b.begins(0, "go")
	same(t, b.ejected(), "a0: go")
	d.Required = []string{"web"} // its route has changed
	same(t, text(b.Release(b.now, d)), `record a0 "go" state 2 faults 5`)
	same(t, b.ejected(), "")
}

// TestTooOften: a rate of success that is too low ejects without five faults in a row.
func TestTooOften(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	d := b.begins(1, "web")
	same(t, text(b.Fault(b.now, d, d.Task, true)), `a1 is ejected from web for 30s; `+
		`record a1 "web" state 0 faults 1; record a1 "web" state 1 faults 1`)
}

// TestForgive: a fault that is taken back may be the one that ejected the agent. What was counted under one key,
// for the tasks of a batch, is one fault.
func TestForgive(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	b.fails(0, 4)
	for range 8 {
		b.Fault(b.now, b.begins(0), "batch", false)
	}
	if !b.Ejected(0) || b.Ejected(0, "go") {
		t.Error("five faults at tasks that require nothing: it is not ejected from those, or from others too")
	}
	same(t, text(b.Forgive(b.now, 0, nil, "batch")), `a0 is trusted with ; record a0 "" state 0 faults 4`)
	if b.Ejected(0) {
		t.Error("it is ejected for four faults")
	}
}

// TestRenumber: breakers, announcements and agents that may have tasks again go with their agents; those of agents
// that are gone end.
func TestRenumber(t *testing.T) {
	many := make([]string, 30) // of which three may be ejected
	for i := range many {
		many[i] = fmt.Sprintf("b%02d", i)
	}
	b := newBench(t, crew(append(many, "x", "y", "z")...))
	b.fails(30, 5, "go")
	b.fails(31, 5, "web")
	b.fails(32, 5, "go")
	last, _, _ := b.Begin(b.now, Dispatch{Agent: 0})
	b.Forgive(b.now, 32, []string{"go"}, "t15") // z may have tasks again
	same(t, b.ejected(), "x: go y: web")
	was := []int{-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32}
	c := b.Renumber(b.now, crew("a", "b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b09", "y", "z"), was)
	same(t, text(c), "x is trusted with go")
	same(t, b.ejected(), "y: web")
	if n, ok := b.NextTrusted(); !ok || n != 11 {
		t.Errorf("%d %v may have tasks again, want 11: z", n, ok)
	}
	if n := b.supply["go"]; n != 12 {
		t.Errorf("%d offer go, want 12", n)
	}
	same(t, text(b.SetRules(b.now, coordinator.Breaker{Off: true}, false)),
		`y is trusted with web; record  "" state 0 faults 0`)
	if d := (Dispatch{Agent: 0, Generation: last}); b.Counts(&d) || !b.Off() {
		t.Error("a dispatch counts where nothing does")
	}
}

// TestOtherRules: what was dispatched under other rules says nothing.
func TestOtherRules(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	var before []Dispatch
	for range 5 {
		before = append(before, b.begins(0, "go"))
	}
	other := rules
	other.Base = time.Minute
	b.SetRules(b.now, other, false)
	b.Renumber(b.now, b.agents, []int{0, 1, 2})
	for _, d := range before {
		same(t, text(b.Fault(b.now, d, d.Task, false)), "")
	}
	same(t, text(b.fails(0, 5, "go")), `a0 is ejected from go for 1m0s; record a0 "go" state 1 faults 5`)
}

// TestOnlyOneLeft: where the others leave, ejection is void until they are back.
func TestOnlyOneLeft(t *testing.T) {
	b := newBench(t, crew("a0", "a1"))
	b.fails(0, 5, "go")
	same(t, b.ejected(), "a0: go")
	if c := b.SetOnline(b.now, 1, false); !c.Concern([]string{"go"}) {
		t.Error("it is said of go that nothing has changed")
	}
	same(t, b.ejected(), "")
	if n, ok := b.NextTrusted(); !ok || n != 0 || b.supply["go"] != 1 || b.supply[""] != 1 {
		t.Errorf("%d %v may have tasks again; %d offer go", n, ok, b.supply["go"])
	}
	b.SetOnline(b.now, 1, true)
	same(t, b.ejected(), "a0: go")
	if text := b.Check(1, false); text == "" {
		t.Error("an agent that is online passes for one that is not")
	}
}

// TestFold: another table that folds the records, as they came or all at once, gives the same answers and makes the
// same records from then on.
func TestFold(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	var records []*coordinator.BreakerChanged
	keep := func(c *Changes) { records = append(records, c.Records...) }
	keep(b.SetRules(b.now, coordinator.Breaker{Consecutive: 1, Base: time.Second, Longest: time.Second, MaxShare: 0.1},
		false))
	b.Renumber(b.now, b.agents, []int{0, 1, 2})
	keep(b.SetRules(b.now, rules, false)) // generations do not begin anew
	b.Renumber(b.now, b.agents, []int{0, 1, 2})
	for range 5 {
		keep(b.fails(0, 1, "go", "web"))
	}
	b.now = b.now.Add(30 * time.Second)
	keep(b.Advance(b.now))
	probe := Dispatch{Agent: 0, Task: "probe", Required: []string{"go"}}
	var c *Changes
	probe.Generation, probe.Probe, c = b.Begin(b.now, probe)
	keep(c)
	other := rules
	other.Longest *= 2
	for name, journal := range map[string][]*coordinator.BreakerChanged{"as they came": records, "all": b.Records()} {
		heir := newBench(t, crew("a0", "a1", "a2"))
		for _, r := range journal {
			heir.Fold(b.now, r)
		}
		heir.now = b.now
		heir.SetRules(b.now, other, true) // its file is read later than the leader's
		heir.Renumber(b.now, heir.agents, []int{0, 1, 2})
		if got, want := heir.Records(), b.Records(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: folded\n%s\nwant\n%s", name, text(&Changes{Records: got}), text(&Changes{Records: want}))
		}
		if got, want := heir.ejected(), b.ejected(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		c := heir.Success(heir.now, probe)
		same(t, text(&Changes{Records: c.Records}), `record a0 "go" state 0 faults 0`)
		same(t, heir.ejected(), "")
	}
}

// TestTimeIsRecorded: what time alone changes, by itself or at the moment of another change, is recorded: one that
// folds the records, early or late, counts the same generations.
func TestTimeIsRecorded(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2", "a3"))
	var records []*coordinator.BreakerChanged
	keep := func(c *Changes) { records = append(records, c.Records...) }
	check := func() {
		t.Helper()
		heir := newBench(t, crew("a0", "a1", "a2", "a3"))
		for _, r := range records {
			heir.Fold(b.now.Add(48*time.Hour), r) // late: by now time alone has changed all that is open
		}
		if got, want := heir.Records(), b.Records(); !reflect.DeepEqual(got, want) || len(want) == 0 {
			t.Errorf("folded\n%s\nwant\n%s", text(&Changes{Records: got}), text(&Changes{Records: want}))
		}
	}
	for range 5 {
		keep(b.fails(0, 1, "go"))
	}
	late := b.begins(1, "go")
	b.now = b.now.Add(30 * time.Second) // a0 may be tried again when a1 fails
	keep(b.Fault(b.now, late, late.Task, false))
	check()
	for range 4 {
		keep(b.fails(1, 1, "go"))
	}
	tried := b.begins(0, "go")
	keep(b.Success(b.now, tried))
	b.now = b.now.Add(48 * time.Hour) // a0's is forgotten, a1 may be tried
	keep(b.Advance(b.now))
	check()
}

// TestNotAfter: no agent is ejected for longer than ever because a clock was ahead.
func TestNotAfter(t *testing.T) {
	b := newBench(t, crew("a0", "a1", "a2"))
	b.Fold(start, &coordinator.BreakerChanged{Agent: "a0", Capability: "go", State: 1, Opened: 1,
		Until: start.Add(8760 * time.Hour)})
	b.NotAfter(start)
	at, ok := b.NextDeadline()
	if latest := start.Add(rules.Longest); !ok || at.After(latest) {
		t.Errorf("due %v at %s, want %s at the latest", ok, at, latest)
	}
}
