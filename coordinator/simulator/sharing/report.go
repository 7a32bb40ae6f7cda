package sharing

import (
	"fmt"
	"strings"

	"taskbus/coordinator/simulator"
)

// Report is what came out of a scenario. See the package's documentation for what its
// values mean.
type Report struct {
	Scenario    string       `json:"scenario"`
	About       string       `json:"about,omitempty"`
	Seeds       []uint64     `json:"seeds"`
	Slots       int          `json:"slots"`
	Tenants     []Tenant     `json:"tenants"`
	Estimators  []Estimator  `json:"estimators"`
	Comparisons []Comparison `json:"comparisons"`
}

// Tenant is one of those that share, and what its calls are like.
type Tenant struct {
	Name  string `json:"name"`
	Trace string `json:"trace,omitempty"`
	Calls int    `json:"calls"`
	// Input and Output are the mean tokens of a call. Demand is how many slots its calls
	// need as they come: the time that all take, by the time in which they come.
	Input  simulator.Value `json:"input_tokens"`
	Output simulator.Value `json:"output_tokens"`
	Demand simulator.Value `json:"demand_slots"`
}

// Estimator is one way to guess a call's output.
type Estimator struct {
	Name string `json:"estimator"`
	// Tenants in the order of Report.Tenants.
	Tenants []Reserved `json:"tenants"`
}

// Reserved is how it does for one tenant: tokens reserved and not taken, and taken and not
// reserved, as parts of all that were taken.
type Reserved struct {
	Over  simulator.Value `json:"over_reserved"`
	Under simulator.Value `json:"under_reserved"`
}

// Comparison is all policies at the same weights.
type Comparison struct {
	Label    string        `json:"weights_label"`
	Weights  []int64       `json:"weights"`
	Policies []Performance `json:"policies"`
}

// Performance is how one policy did.
type Performance struct {
	Policy string          `json:"policy"`
	Label  string          `json:"label"`
	Gap    simulator.Value `json:"service_gap"`
	// Bound of the gap; nil where there is none.
	Bound  *simulator.Value `json:"service_gap_bound"`
	Jain   simulator.Value  `json:"jain_index"`
	Minute simulator.Value  `json:"jain_index_worst_minute"`
	// Waits in the order of Report.Tenants.
	Waits []Wait `json:"waits"`
}

// Wait of one tenant's calls, in seconds.
type Wait struct {
	P50 simulator.Value `json:"p50_seconds"`
	P99 simulator.Value `json:"p99_seconds"`
}

// nature is what the calls of a tenant are like: how many, their mean tokens, and the slots
// that they need.
type nature struct {
	calls                 int
	input, output, demand float64
}

func natureOf(s *simulator.Sharing, calls []Call) nature {
	input, output := 0.0, 0.0
	for _, c := range calls {
		input, output = input+float64(c.Input), output+float64(c.Output)
	}
	n := nature{calls: len(calls), input: input / float64(len(calls)), output: output / float64(len(calls))}
	if span := (calls[len(calls)-1].At - calls[0].At).Seconds(); span > 0 {
		n.demand = (input*s.PerInput.Seconds() + output*s.PerOutput.Seconds()) / span
	}
	return n
}

// newReport summarises what came out of all seeds.
func newReport(s *simulator.Scenario, played []seedPlayed) *Report {
	r := &Report{Scenario: s.Name, About: s.About, Seeds: s.Seeds, Slots: s.Sharing.Slots}
	over := func(value func(*seedPlayed) float64) simulator.Value { return simulator.Summarise(played, value) }
	for i := range s.Sharing.Tenants {
		t := &s.Sharing.Tenants[i]
		r.Tenants = append(r.Tenants, Tenant{
			Name: t.Name, Trace: t.Trace, Calls: played[0].calls[i].calls,
			Input:  over(func(p *seedPlayed) float64 { return p.calls[i].input }),
			Output: over(func(p *seedPlayed) float64 { return p.calls[i].output }),
			Demand: over(func(p *seedPlayed) float64 { return p.calls[i].demand }),
		})
	}
	for j, score := range played[0].scores[0] {
		e := Estimator{Name: score.Name}
		for i := range r.Tenants {
			e.Tenants = append(e.Tenants, Reserved{
				Over:  over(func(p *seedPlayed) float64 { return p.scores[i][j].Over }),
				Under: over(func(p *seedPlayed) float64 { return p.scores[i][j].Under }),
			})
		}
		r.Estimators = append(r.Estimators, e)
	}
	for i, weights := range s.Sharing.Weights {
		c := Comparison{Label: labelOf(s.Sharing, weights), Weights: weights}
		for j := range policies {
			c.Policies = append(c.Policies, performance(&policies[j], func(value func(*outcome) float64) simulator.Value {
				return over(func(p *seedPlayed) float64 { return value(&p.outcomes[i][j]) })
			}, len(r.Tenants)))
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	return r
}

// labelOf names weights: "chat 1 : code 3".
func labelOf(s *simulator.Sharing, weights []int64) string {
	var parts []string
	for i, w := range weights {
		parts = append(parts, fmt.Sprintf("%s %d", s.Tenants[i].Name, w))
	}
	return strings.Join(parts, " : ")
}

// performance is that of one policy; over summarises a value of all its outcomes.
func performance(p *policy, over func(func(*outcome) float64) simulator.Value, tenants int) Performance {
	result := Performance{
		Policy: p.name, Label: p.label,
		Gap:    over(func(o *outcome) float64 { return o.gap }),
		Jain:   over(func(o *outcome) float64 { return o.jain }),
		Minute: over(func(o *outcome) float64 { return o.minute }),
	}
	if p.order == byShares {
		bound := over(func(o *outcome) float64 { return o.bound })
		result.Bound = &bound
	}
	for i := range tenants {
		result.Waits = append(result.Waits, Wait{
			P50: over(func(o *outcome) float64 { return o.p50[i] }),
			P99: over(func(o *outcome) float64 { return o.p99[i] }),
		})
	}
	return result
}
