package pulling

import (
	"time"

	"taskbus/coordinator/simulator"
)

// spans is into how many equal parts the courses of a report cut the time.
const spans = 100

// tally is what is counted in one run. Everything but the courses counts from the
// warm-up on.
type tally struct {
	from, span time.Duration // the warm-up; the length of one span
	seconds    float64       // measured so far
	done       int
	claims     int
	unclaimed  float64 // item seconds, as are held and the courses
	agents     []count
}

// count is the part of one agent.
type count struct {
	alive, idle float64 // s
	held        float64
	after       int // items held right after its claims, summed up
	claims      int
	course      [spans]float64
}

func newTally(s *simulator.Scenario) tally {
	return tally{from: s.WarmUp, span: max(1, s.Duration/spans), agents: make([]count, len(s.Pulling.Agents))}
}

// pass counts the time from one moment to the next, in which nothing changes.
func (t *tally) pass(from, to time.Duration, agents []agent, unclaimed int) {
	for at := from; at < to; {
		span := min(int(at/t.span), spans-1)
		end := to
		if span < spans-1 {
			end = min(to, t.span*time.Duration(span+1))
		}
		for i := range agents {
			t.agents[i].course[span] += float64(agents[i].pending) * (end - at).Seconds()
		}
		at = end
	}
	seconds := (to - max(from, t.from)).Seconds()
	if seconds <= 0 {
		return
	}
	t.seconds += seconds
	t.unclaimed += float64(unclaimed) * seconds
	for i := range agents {
		a, c := &agents[i], &t.agents[i]
		if a.dead {
			continue
		}
		c.alive += seconds
		c.held += float64(a.pending) * seconds
		if a.pending == 0 {
			c.idle += seconds
		}
	}
}

func (t *tally) finished(now time.Duration) {
	if now >= t.from {
		t.done++
	}
}

// claimed counts an answered claim of agent i, which holds so many items now.
func (t *tally) claimed(now time.Duration, i, pending int) {
	if now >= t.from {
		t.claims++
		t.agents[i].claims++
		t.agents[i].after += pending
	}
}

// outcome is what came out of one run.
type outcome struct {
	throughput, claims, unclaimed, backlog float64 // the first two per second
	agents                                 []agentOutcome
}

type agentOutcome struct {
	alive, drain, after, idle float64 // 0 to 1, s, s, 0 to 1
	course                    []float64
}

func (t *tally) outcome(agents []agent) outcome {
	o := outcome{
		throughput: simulator.Ratio(float64(t.done), t.seconds), claims: simulator.Ratio(float64(t.claims), t.seconds),
		unclaimed: simulator.Ratio(t.unclaimed, t.seconds), backlog: simulator.Ratio(t.unclaimed, t.seconds),
	}
	for i := range agents {
		c, capacity := &t.agents[i], agents[i].Capacity
		one := agentOutcome{
			alive: simulator.Ratio(c.alive, t.seconds),
			drain: simulator.Ratio(c.held, c.alive) / capacity,
			after: simulator.Ratio(float64(c.after), float64(c.claims)) / capacity,
			idle:  simulator.Ratio(c.idle, c.alive),
		}
		for _, held := range c.course {
			one.course = append(one.course, held/t.span.Seconds()/capacity)
		}
		o.backlog += simulator.Ratio(c.held, t.seconds)
		o.agents = append(o.agents, one)
	}
	return o
}
