package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/strategy"
)

// Options are what Play needs beside the scenario. The zero value will do for a
// scenario without traces and formulas.
type Options struct {
	// Trace gives a trace of the scenario by its name.
	Trace func(name string) ([]Request, error)
	// Formula compiles the text of an `expression` strategy.
	Formula CompileFormula
	// Progress, if not nil, hears now and then how much is done, from 0 to 1.
	Progress func(share float64)
	// Stopwatch, if not nil, is read before and after each run for Report.Timing:
	// the one thing in a report that is not the same every time.
	Stopwatch func() time.Duration
}

// Play plays every strategy of the scenario under every seed. It ends early with
// the context's error. Any other error means that the scenario cannot be played,
// and says why; it is *Faults where a formula is the cause.
func Play(ctx context.Context, s *Scenario, o Options) (*Report, error) {
	if s.Pulling != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, errPulling)
	}
	if s.Priorities != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, errPriorities)
	}
	if s.Sharing != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, errSharing)
	}
	traces, err := s.traces(o.Trace)
	if err != nil {
		return nil, err
	}
	scores, err := s.compile(o.Formula)
	if err != nil {
		return nil, err
	}
	if err := s.Affordable(); err != nil {
		return nil, err
	}
	runs := make([][]outcome, len(s.Strategies))
	done, total := 0, len(s.Seeds)*len(s.Strategies)
	for _, seed := range s.Seeds {
		for i := range s.Strategies {
			w, err := newWorld(s, &s.Strategies[i], seed, traces, scores[i])
			if err != nil {
				return nil, err
			}
			var progress func(float64)
			if o.Progress != nil {
				progress = func(share float64) { o.Progress((float64(done) + share) / float64(total)) }
			}
			var began, took time.Duration
			if o.Stopwatch != nil {
				began = o.Stopwatch()
			}
			if err := w.run(ctx, progress); err != nil {
				return nil, err
			}
			if o.Stopwatch != nil {
				took = o.Stopwatch() - began
			}
			runs[i] = append(runs[i], w.outcome(took))
			done++
		}
	}
	return newReport(s, runs, o.Stopwatch != nil), nil
}

// traces reads what the workloads refer to, each once.
func (s *Scenario) traces(open func(string) ([]Request, error)) (map[string][]Request, error) {
	traces := make(map[string][]Request)
	for i := range s.Workloads {
		a := &s.Workloads[i].Arrivals
		if a.Kind != ArriveTrace || traces[a.Trace.Name] != nil {
			continue
		}
		if open == nil {
			return nil, fmt.Errorf("scenario %s: this program has no way to read the trace %s", s.Name, a.Trace.Name)
		}
		trace, err := open(a.Trace.Name)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: trace %s: %w", s.Name, a.Trace.Name, err)
		}
		if len(trace) == 0 {
			return nil, fmt.Errorf("scenario %s: trace %s: %w", s.Name, a.Trace.Name, errors.New("it holds no requests"))
		}
		traces[a.Trace.Name] = trace
	}
	return traces, nil
}

// newWorld sets up one run: the engine with its policy and its session, the agents
// about to join, the producers about to begin.
func newWorld(s *Scenario, v *Variant, seed uint64, traces map[string][]Request, score strategy.Score) (*world, error) {
	w := &world{
		scenario: s, variant: v, seed: seed, engine: engine.New(),
		byID: make(map[coordinator.AgentID]int32), maxTasks: maxTasks, maxOpen: maxOpen,
	}
	for i := range s.Fleet {
		g := &s.Fleet[i]
		for n := range g.Count {
			id := g.Name
			if g.Count > 1 {
				id = fmt.Sprintf("%s-%05d", g.Name, n+1)
			}
			w.byID[coordinator.AgentID(id)] = int32(len(w.agents))
			w.agents = append(w.agents, agent{id: coordinator.AgentID(id), group: int32(i)})
		}
	}
	if len(w.byID) != len(w.agents) {
		return nil, fmt.Errorf("scenario %s: two agents have the same id; rename one of the groups", s.Name)
	}
	w.kinds = newKinds(s)
	w.tally = newTally(s, &w.kinds)
	for i := range s.Workloads {
		l := &s.Workloads[i]
		w.streams = append(w.streams, stream{load: l, kind: w.kinds.number(l.Type), trace: traces[l.Arrivals.Trace.Name]})
	}
	policy, err := s.policy(v, w.agents, seed, score)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if err := errors.Join(w.apply(coordinator.PolicyChanged{Policy: policy}),
		w.apply(coordinator.SessionOpened{})); err != nil {
		return nil, err
	}
	for i := range w.agents {
		w.moments.Add(int64(s.Fleet[w.agents[i].group].JoinAt), moment{momentJoin, int32(i), 0})
	}
	for i, step := range w.kinds.steps {
		w.moments.Add(int64(step.At), moment{momentDrift, int32(i), 0})
	}
	if slices.ContainsFunc(s.Fleet, func(g Group) bool { return g.MTBF > 0 }) {
		w.moments.Add(int64(lookEvery), moment{momentLook, 0, 0})
	}
	w.begin()
	w.moments.Add(int64(s.Duration), moment{momentEnd, 0, 0})
	w.moments.Add(int64(s.Duration+s.Drain), moment{momentStop, 0, 0})
	return w, nil
}
