package simulator

import (
	"fmt"
	"math"
)

// The limits of a scenario: far above what is useful, far below what would not fit
// into memory or not end.
const (
	maxAgents   = 100_000
	maxGroups   = 64 // a set of groups is one machine word
	maxVariants = 32
	maxPrinted  = 1 << 53 // what every reader of JSON keeps exact

	// MaxSeeds is how many seeds a scenario may have.
	MaxSeeds = 1000
	// MaxFileBytes is the size of the largest scenario file.
	MaxFileBytes = 1 << 20

	// maxTasks is how many tasks may arrive in one run, maxOpen how many of them may be
	// open at once: an open task takes one to two kilobytes, here and in the engine,
	// one that has ended the eight bytes of its wait.
	maxTasks = 20_000_000
	maxOpen  = 1_000_000
	// maxMoments is how many tasks, heartbeats and crashes all runs may have together:
	// some hours' worth.
	maxMoments = 1e10
)

// The least of what is not 0, in seconds: a tick of the clock; a microsecond for
// work, which no message to an agent and back is faster than; and a millisecond for
// heartbeats and for what the coordinator is set to, of which it takes fractions
// (agents.yaml allows whole seconds alone).
const (
	leastTime    = 1e-9
	leastService = 1e-6
	leastSetting = 1e-3
)

// expected is about how many tasks of the workload arrive in one run. A recorded
// workload, which is not read yet, counts 0.
func (s *Scenario) expected(l *Workload) float64 {
	a := &l.Arrivals
	seconds := max(0, (min(l.Until, s.Duration) - l.From).Seconds())
	n := 0.0
	switch a.Kind {
	case ArrivePoisson, ArriveConstant:
		n = a.Rate * seconds
	case ArriveBursts:
		n = math.Ceil(seconds/a.Every.Seconds()) * float64(a.Size)
	case ArriveClosed:
		n = float64(a.Size) + s.ends(l)*seconds
	}
	if l.Count > 0 {
		n = min(n, float64(l.Count))
	}
	return n
}

// ends is how many tasks of a closed workload the fleet could end in a second: one
// by one no more than the fastest agent does, all together no more than all slots do.
func (s *Scenario) ends(l *Workload) float64 {
	fastest, all := 0.0, 0.0
	for i := range s.Fleet {
		g := &s.Fleet[i]
		if g.Count == 0 || !g.capable(l.Required) {
			continue
		}
		rate := g.Speed / g.service(l.Type).Mean
		fastest = max(fastest, rate)
		all += rate * float64(g.Count) * float64(g.Slots)
	}
	return min(all, fastest*float64(l.Arrivals.Size))
}

// cost is what all runs of a scenario have to go through.
type cost struct {
	runs                   int
	tasks, beats, restarts float64 // expected in one run, the drain included
}

func (s *Scenario) cost() cost {
	c := cost{runs: len(s.Seeds) * len(s.Strategies)}
	for i := range s.Workloads {
		c.tasks += s.expected(&s.Workloads[i])
	}
	seconds := (s.Duration + s.Drain).Seconds()
	for i := range s.Fleet {
		g := &s.Fleet[i]
		c.beats += float64(g.Count) * seconds / g.Heartbeat.Seconds()
		if g.MTBF > 0 {
			c.restarts += float64(g.Count) * seconds / (g.MTBF + g.MTTR).Seconds()
		}
	}
	return c
}

// excess says how far all runs together are beyond the limit, and what would help;
// "" when they are not.
func (c cost) excess() string {
	all := float64(c.runs) * (c.tasks + c.beats + c.restarts)
	if all <= maxMoments {
		return ""
	}
	return fmt.Sprintf(
		"%d runs (seeds × strategies) of about %.3g tasks, up to %.3g heartbeats and %.3g crashes each are %.3g moments, "+
			"and %.3g are the most; "+
			"have fewer seeds, strategies, agents or tasks, a shorter duration or drain, or longer heartbeat_seconds or "+
			"mtbf_seconds",
		c.runs, c.tasks, c.beats, c.restarts, all, float64(maxMoments))
}

// crowded is the error of a run that outgrows what could be foreseen of it; nil while
// it does not.
func (w *world) crowded() error {
	var what string
	switch {
	case w.tasks.count >= w.maxTasks:
		what = fmt.Sprintf("%d tasks have arrived, which are the most of one run; make them fewer, or shorten the time",
			w.tasks.count)
	case w.open >= w.maxOpen:
		what = fmt.Sprintf(
			"%d tasks are open at once, which are the most that fit into memory; let fewer arrive, have more agents, or set "+
				"a smaller max_queue_size", w.open)
	default:
		return nil
	}
	return fmt.Errorf("scenario %s, strategy %s, seed %d: after %.3g s %s", w.scenario.Name, w.variant.name(), w.seed,
		float64(w.now)/1e9, what)
}
