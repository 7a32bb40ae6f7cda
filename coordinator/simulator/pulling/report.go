package pulling

import (
	"taskbus/coordinator/simulator"
)

// Report is what came out of a scenario.
type Report struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about,omitempty"`
	Seeds    []uint64 `json:"seeds"`
	Duration float64  `json:"duration_seconds"`
	WarmUp   float64  `json:"warm_up_seconds"`
	Agents   []Agent  `json:"agents"`
	Loads    []Load   `json:"loads"`
}

// Agent is one that pulls.
type Agent struct {
	Name     string  `json:"name"`
	Capacity float64 `json:"capacity_items_per_second"`
}

// Load is how all controllers did under one load.
type Load struct {
	Label string `json:"load"`
	// Most is how many items per second could be done at best.
	Most        float64       `json:"most_items_per_second"`
	Controllers []Performance `json:"controllers"`
}

// Performance is how one controller did. See the package's documentation for what its
// values mean.
type Performance struct {
	Mode       simulator.PullMode `json:"mode"`
	Label      string             `json:"label"`
	Throughput simulator.Value    `json:"items_per_second"`
	Claims     simulator.Value    `json:"claims_per_second"`
	Unclaimed  simulator.Value    `json:"unclaimed_items"`
	Backlog    simulator.Value    `json:"backlog_items"`
	// Agents in the order of Report.Agents.
	Agents []AgentPerformance `json:"agents"`
}

// AgentPerformance is the part of one agent, while it lived.
type AgentPerformance struct {
	// Alive is the share of the time that is measured, 0 to 1; the values of an agent
	// that was dead all of it are 0.
	Alive      float64         `json:"alive"`
	Drain      simulator.Value `json:"drain_seconds"`
	AfterClaim simulator.Value `json:"drain_after_claim_seconds"`
	Idle       simulator.Value `json:"idle"` // 0 to 1
	// DrainCourse is the mean drain time in each of a hundred equal spans, from the
	// beginning to the end of the run; the mean over the seeds.
	DrainCourse []float64 `json:"drain_course_seconds"`
}

func newReport(s *simulator.Scenario) *Report {
	r := &Report{Scenario: s.Name, About: s.About, Seeds: s.Seeds, Duration: s.Duration.Seconds(),
		WarmUp: s.WarmUp.Seconds()}
	for i := range s.Pulling.Agents {
		r.Agents = append(r.Agents, Agent{s.Pulling.Agents[i].Name, s.Pulling.Agents[i].Capacity})
	}
	return r
}

// performance summarises the runs of one controller under one load.
func performance(p *simulator.Pulling, c *simulator.PullController, runs []outcome) Performance {
	of := func(value func(*outcome) float64) simulator.Value { return simulator.Summarise(runs, value) }
	result := Performance{
		Mode: c.Mode, Label: c.Label,
		Throughput: of(func(o *outcome) float64 { return o.throughput }),
		Claims:     of(func(o *outcome) float64 { return o.claims }),
		Unclaimed:  of(func(o *outcome) float64 { return o.unclaimed }),
		Backlog:    of(func(o *outcome) float64 { return o.backlog }),
	}
	for i := range p.Agents {
		a := AgentPerformance{
			Alive:      of(func(o *outcome) float64 { return o.agents[i].alive }).Mean, // the same in all runs
			Drain:      of(func(o *outcome) float64 { return o.agents[i].drain }),
			AfterClaim: of(func(o *outcome) float64 { return o.agents[i].after }),
			Idle:       of(func(o *outcome) float64 { return o.agents[i].idle }),
		}
		for n := range spans {
			a.DrainCourse = append(a.DrainCourse, of(func(o *outcome) float64 { return o.agents[i].course[n] }).Mean)
		}
		result.Agents = append(result.Agents, a)
	}
	return result
}
