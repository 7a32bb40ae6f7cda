package learning

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive is the same question answered from the list of all outcomes with their
// ages, each time anew.
type naive struct {
	settings Settings
	agents   int
	asOf     time.Time
	seen     []seen
}

type seen struct {
	agent         int
	task          string
	at            time.Time
	success       bool
	seconds, cost float64
	expected      float64 // the type's rate before it
	pace          float64 // multiple of the type's mean before it
}

// sum adds up of(outcome) over the outcomes that belong to a row, each weighed
// by its age and by how many of the row came after it, of which half as many
// count as there are in a half-life.
func (n *naive) sum(halfLife float64, row func(seen) bool, of func(seen) float64) (total float64) {
	later := 0.0
	for i := len(n.seen) - 1; i >= 0; i-- {
		if s := n.seen[i]; row(s) {
			age := n.asOf.Sub(s.at).Seconds() / n.settings.HalfLife.Seconds()
			total += of(s) * math.Exp2(-age) * math.Exp2(-later/halfLife)
			later++
		}
	}
	return total
}

func success(s seen) float64 {
	if s.success {
		return 1
	}
	return 0
}
func one(seen) float64       { return 1 }
func seconds(s seen) float64 { return s.seconds }
func (n *naive) own() float64 {
	return n.settings.HalfLifeOutcomes
}
func (n *naive) all() float64 { return n.settings.HalfLifeOutcomes * float64(n.agents) }

func (n *naive) typeSuccess(task string) float64 {
	m := n.settings.Weight
	anything := func(seen) bool { return true }
	ofType := func(s seen) bool { return s.task == task }
	fleet := (m*n.settings.Prior + n.sum(n.all(), anything, success)) / (m + n.sum(n.all(), anything, one))
	return (m*fleet + n.sum(n.all(), ofType, success)) / (m + n.sum(n.all(), ofType, one))
}

func (n *naive) reference(task string) float64 {
	timed := func(s seen) bool { return s.task == task && s.seconds > 0 }
	if count, sum := n.sum(n.all(), timed, one), n.sum(n.all(), timed, seconds); min(count, sum) > forgotten {
		return sum / count
	}
	return 0
}

func (n *naive) standing(agent int, task string) (p, duration float64) {
	m := n.settings.Weight
	ofAgent := func(s seen) bool { return s.agent == agent }
	timedAgent := func(s seen) bool { return s.agent == agent && s.seconds > 0 }
	pair := func(s seen) bool { return s.agent == agent && s.task == task }
	timedPair := func(s seen) bool { return pair(s) && s.seconds > 0 }
	r := (m + n.sum(n.own(), ofAgent, success)) / (m + n.sum(n.own(), ofAgent, func(s seen) float64 { return s.expected }))
	prior := min(max(n.typeSuccess(task)*r, 0.001), 0.999)
	p = (m*prior + n.sum(n.own(), pair, success)) / (m + n.sum(n.own(), pair, one))
	pace := (m + n.sum(n.own(), timedAgent, func(s seen) float64 { return s.pace })) / (m + n.sum(n.own(), timedAgent,
		one))
	duration = (m*n.reference(task)*pace + n.sum(n.own(), timedPair, seconds)) / (m + n.sum(n.own(), timedPair, one))
	return p, duration
}

func (n *naive) cost(agent int) float64 {
	costed := func(s seen) bool { return s.agent == agent && s.cost > 0 }
	if count := n.sum(n.own(), costed, one); count > forgotten {
		return n.sum(n.own(), costed, func(s seen) float64 { return s.cost }) / count
	}
	return 0
}

func (n *naive) observe(s seen) {
	s.expected, s.pace = n.typeSuccess(s.task), 1
	if ref := n.reference(s.task); ref > 0 && s.seconds > 0 {
		s.pace = min(max(s.seconds/ref, 0.01), 100)
	}
	n.seen = append(n.seen, s)
}

// TestAgainstNaive: after any history, read at any time, what the Learner says is
// what the list of all outcomes says, to within 1e-6.
func TestAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Settings{
			Prior:            rapid.Float64Range(0.01, 0.99).Draw(t, "prior"),
			Weight:           rapid.Float64Range(0.5, 20).Draw(t, "m"),
			HalfLife:         time.Duration(rapid.IntRange(1, 3600).Draw(t, "half-life")) * time.Second,
			HalfLifeOutcomes: rapid.Float64Range(1, 50).Draw(t, "half-life in outcomes"),
		}
		agents := rapid.IntRange(1, 4).Draw(t, "agents")
		l := New(settings, agents)
		n := &naive{settings: settings, agents: agents}
		now := start
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600_000).Draw(t, fmt.Sprint("ms before ", step))) * time.Millisecond)
			s := seen{
				agent: rapid.IntRange(0, agents-1).Draw(t, "agent"),
				task:  rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "type"),
				at:    now,
				cost:  float64(rapid.IntRange(0, 3).Draw(t, "dollars")),
			}
			o := Outcome{CostUSD: s.cost, Attribution: Attribution(rapid.IntRange(0, 4).Draw(t, "attribution"))}
			if s.success = o.Attribution == Succeeded; s.success {
				o.Duration = time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
				s.seconds = o.Duration.Seconds()
			}
			// What is read refers to a time that moves by a second at least.
			if o.Attribution.Counts() && (n.asOf.IsZero() || now.Sub(n.asOf) >= time.Second) {
				n.asOf = now
			}
			l.Observe(now, s.agent, l.Type(s.task), o)
			if o.Attribution.Counts() {
				n.observe(s)
			}
			l.Standing(s.agent, l.Type("a")) // reading in between changes nothing
		}
		if rapid.Bool().Draw(t, "wait") {
			now = now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "s")) * time.Second)
			if l.Advance(now); now.After(n.asOf) {
				n.asOf = now
			}
		}
		if len(n.seen) == 0 {
			n.asOf = l.AsOf()
		}
		if !n.asOf.Equal(l.AsOf()) {
			t.Fatalf("read as of %v, not %v", l.AsOf(), n.asOf)
		}
		for i := range agents {
			for _, task := range []string{"a", "b", ""} {
				got := l.Standing(i, l.Type(task))
				if p, d := n.standing(i, task); !near(got.Success, p) || !near(got.Duration, d) {
					t.Fatalf("agent %d, type %q: %+v, naively %v and %v", i, task, got, p, d)
				}
			}
			if usd, _ := l.Cost(i); !near(usd, n.cost(i)) {
				t.Fatalf("agent %d costs %v, naively %v", i, usd, n.cost(i))
			}
		}
	})
}

// TestNeverOutOfRange: with forgiving, renumbering, a clock that jumps and another
// journal's state in between, every reading stays a probability, a duration, a cost.
func TestNeverOutOfRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(Settings{HalfLife: time.Second, HalfLifeOutcomes: 3, MaxTypes: 2}, 3)
		now := start
		agent := rapid.IntRange(-1, 4)
		task := rapid.SampledFrom([]string{"a", "b", "c", ""})
		jump := rapid.IntRange(-2000, 2000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(jump.Draw(t, "jump")) * time.Second)
			switch i, kind := agent.Draw(t, "agent"), l.Type(task.Draw(t, "type")); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				l.Forgive(i, kind, now)
			case 1:
				was := rapid.SliceOfN(agent, 0, 5).Draw(t, "was")
				l.Renumber(rapid.IntRange(0, 5).Draw(t, "n"), was)
			case 2:
				l.Advance(now)
			case 3:
				if err := l.Import(l.Export(name), number); err != nil {
					t.Fatal(err)
				}
			default:
				l.Observe(now, i, kind, Outcome{
					Attribution: Attribution(rapid.IntRange(0, 4).Draw(t, "attribution")),
					Duration:    time.Duration(rapid.Int64().Draw(t, "duration")),
					CostUSD:     rapid.Float64().Draw(t, "cost"),
				})
			}
			for i := -1; i < l.Agents()+1; i++ {
				for _, name := range []string{"a", "b", "c", ""} {
					kind := l.Type(name)
					s := l.Standing(i, kind)
					if !(s.Success >= 0 && s.Success <= 1) || !(s.Duration >= 0 && s.Duration < 1e12) {
						t.Fatalf("agent %d, %q: %+v", i, name, s)
					}
					if p := l.Draw(i, kind, 0.3); !(p >= 0 && p <= 1) {
						t.Fatalf("agent %d, %q: drew %v", i, name, p)
					}
					l.Failing(i, kind)
				}
				if usd, known := l.Cost(i); usd < 0 || usd > 1.001e12 || usd != usd || known != (usd > 0) {
					t.Fatalf("agent %d costs %v, %v", i, usd, known)
				}
			}
		}
	})
}
