package pulling

import (
	"context"
	"fmt"

	"taskbus/coordinator/simulator"
)

// Play plays every controller of the scenario under every load and seed. progress, if
// not nil, hears after each run how much is done, from 0 to 1. It ends early with the
// context's error. Any other error means that the scenario cannot be played, and says
// why.
func Play(ctx context.Context, s *simulator.Scenario, progress func(share float64)) (*Report, error) {
	if s.Pulling == nil {
		return nil, fmt.Errorf("scenario %s: its agents do not pull: package simulator plays it", s.Name)
	}
	if err := s.Affordable(); err != nil {
		return nil, err
	}
	r := newReport(s)
	p := s.Pulling
	done, total := 0, len(p.Loads)*len(p.Controllers)*len(s.Seeds)
	for l := range p.Loads {
		load := &p.Loads[l]
		result := Load{Label: load.Label, Most: most(s, load)}
		for c := range p.Controllers {
			var runs []outcome
			for _, seed := range s.Seeds {
				w, err := newWorld(s, load, &p.Controllers[c], seed)
				if err != nil {
					return nil, err
				}
				if err := w.run(ctx); err != nil {
					return nil, err
				}
				runs = append(runs, w.tally.outcome(w.agents))
				if done++; progress != nil {
					progress(float64(done) / float64(total))
				}
			}
			result.Controllers = append(result.Controllers, performance(p, &p.Controllers[c], runs))
		}
		r.Loads = append(r.Loads, result)
	}
	return r, nil
}

// most is how many items per second could be done in the time that is measured: what the
// agents that live can do, or what arrives if that is less.
func most(s *simulator.Scenario, load *simulator.PullLoad) float64 {
	measured := (s.Duration - s.WarmUp).Seconds()
	sum := 0.0
	for i := range s.Pulling.Agents {
		a, alive := &s.Pulling.Agents[i], measured
		if a.Name == load.Death.Agent {
			alive = max(0, (load.Death.At - s.WarmUp).Seconds())
		}
		sum += a.Capacity * alive / measured
	}
	if load.Rate > 0 {
		return min(sum, load.Rate)
	}
	return sum
}
