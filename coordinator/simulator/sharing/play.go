package sharing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator/simulator"
)

// Options are what Play needs beside the scenario. The zero value will do for a scenario
// without traces.
type Options struct {
	// Trace gives a trace of the scenario by its name.
	Trace func(name string) ([]simulator.Request, error)
	// Progress, if not nil, hears after each run how much is done, from 0 to 1.
	Progress func(share float64)
}

// Play plays every policy of sharing at all weights and seeds of the scenario, and compares
// what guesses the calls' outputs. It ends early with the context's error. Any other error
// means that the scenario cannot be played, and says why.
func Play(ctx context.Context, s *simulator.Scenario, o Options) (*Report, error) {
	if s.Sharing == nil {
		return nil, fmt.Errorf("scenario %s: it has no tenants that share a provider: package simulator plays it", s.Name)
	}
	if err := s.Affordable(); err != nil {
		return nil, err
	}
	traces, err := recorded(s.Sharing, o.Trace)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	var played []seedPlayed
	steps := steps{hear: o.Progress, total: len(s.Seeds) * len(s.Sharing.Weights) * len(policies)}
	for _, seed := range s.Seeds {
		one, err := playSeed(ctx, s, seed, traces, &steps)
		if err != nil {
			return nil, err
		}
		played = append(played, *one)
	}
	return newReport(s, played), nil
}

// steps says how much is done.
type steps struct {
	hear        func(share float64)
	done, total int
}

func (s *steps) next() {
	if s.done++; s.hear != nil {
		s.hear(float64(s.done) / float64(s.total))
	}
}

// seedPlayed is what came out of one seed.
type seedPlayed struct {
	calls    []nature           // by tenant
	scores   [][]EstimatorScore // by tenant
	outcomes [][]outcome        // by weights, then by policy
}

// playSeed plays all policies at all weights, with the same calls.
func playSeed(
	ctx context.Context, s *simulator.Scenario, seed uint64, traces [][]Call, steps *steps,
) (*seedPlayed, error) {
	calls, all := make([][]Call, len(traces)), 0
	for i, trace := range traces {
		if calls[i] = trace; trace == nil {
			calls[i] = callsOf(s.Sharing.Tenants[i].Calls.Draw(seed, i, s.Sharing.MaxOutput), 1)
		}
		all += len(calls[i])
	}
	if text := s.Sharing.Excess(len(s.Seeds), all); text != "" { // of traces it is known only now
		return nil, fmt.Errorf("scenario %s: %s", s.Name, text)
	}
	var p seedPlayed
	for i := range calls {
		p.calls = append(p.calls, natureOf(s.Sharing, calls[i]))
		p.scores = append(p.scores, CompareEstimators(calls[i], int64(s.Sharing.MaxOutput)))
	}
	for _, weights := range s.Sharing.Weights {
		var outcomes []outcome
		for i := range policies {
			one, err := playOne(ctx, s.Sharing, &policies[i], weights, calls)
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, one)
			steps.next()
		}
		p.outcomes = append(p.outcomes, outcomes)
	}
	return &p, nil
}

// outcome is what comes of the calls of one seed.
type outcome struct {
	gap, bound, jain, minute float64
	p50, p99                 []float64 // waits, by tenant, in seconds
}

// playOne plays the calls twice: with all of them waiting, and as they come.
func playOne(
	ctx context.Context, s *simulator.Sharing, p *policy, weights []int64, calls [][]Call,
) (o outcome, err error) {
	waiting, err := newRun(s, p, weights, calls, false)
	if err == nil {
		err = waiting.play(ctx)
	}
	if err != nil {
		return o, err
	}
	o = outcome{gap: waiting.evenness.gap, bound: bound(waiting.tenants), jain: jain(byWeight(waiting.tenants)),
		minute: waiting.evenness.worst}
	arriving, err := newRun(s, p, weights, calls, true)
	if err == nil {
		err = arriving.play(ctx)
	}
	for _, t := range arriving.tenants {
		slices.Sort(t.waited)
		o.p50 = append(o.p50, simulator.Quantile(t.waited, 0.5))
		o.p99 = append(o.p99, simulator.Quantile(t.waited, 0.99))
	}
	return o, err
}

// recorded reads the traces of tenants that have one.
func recorded(s *simulator.Sharing, open func(string) ([]simulator.Request, error)) ([][]Call, error) {
	traces := make([][]Call, len(s.Tenants))
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if t.Trace == "" {
			continue
		}
		if open == nil {
			return nil, fmt.Errorf("this program has no way to read the trace %s", t.Trace)
		}
		requests, err := open(t.Trace)
		if err == nil && len(requests) == 0 {
			err = errors.New("it holds no requests")
		}
		if err != nil {
			return nil, fmt.Errorf("trace %s: %w", t.Trace, err)
		}
		traces[i] = callsOf(requests, t.SpeedUp)
	}
	return traces, nil
}

// callsOf are requests as calls, so many times as fast.
func callsOf(requests []simulator.Request, speedUp float64) []Call {
	calls := make([]Call, len(requests))
	for i, q := range requests {
		calls[i] = Call{At: time.Duration(float64(q.At) / speedUp), Input: int64(q.Input), Output: int64(q.Output)}
	}
	return calls
}
