package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// CompileFormula compiles the text of an `expression` strategy, as the loader of
// agents.yaml does. Its error says what is wrong with the text.
type CompileFormula func(text string) (strategy.Score, error)

// compile compiles the formulas of all variants; those without one get nil. The error
// is *Faults.
func (s *Scenario) compile(compile CompileFormula) ([]strategy.Score, error) {
	scores := make([]strategy.Score, len(s.Strategies))
	var faults []Fault
	for i := range s.Strategies {
		v := &s.Strategies[i]
		if v.Formula == "" {
			continue
		}
		fault := v.formulaAt
		if compile == nil {
			fault.Text = "this program cannot compile formulas"
			faults = append(faults, fault)
			continue
		}
		score, err := compile(v.Formula)
		if err != nil {
			fault.Text = err.Error()
			faults = append(faults, fault)
		}
		scores[i] = score
	}
	if len(faults) > 0 {
		return nil, &Faults{List: faults}
	}
	return scores, nil
}

// policy is the configuration under which the engine plays a variant.
func (s *Scenario) policy(v *Variant, agents []agent, seed uint64, score strategy.Score) (*coordinator.Policy, error) {
	chosen, err := v.build(seed, score)
	if err != nil {
		return nil, err
	}
	p := &coordinator.Policy{
		Version:    "simulated",
		Strategy:   chosen.Name,
		Strategies: []coordinator.Strategy{chosen},
		Routes:     make(map[string]coordinator.Route, len(s.Workloads)),
		Settings:   v.Settings,
	}
	p.Settings.Seed = mix(seed)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		p.Routes[w.Type] = coordinator.Route{Required: w.Required}
	}
	for i := range agents {
		p.Agents = append(p.Agents, s.spec(v, &agents[i]))
	}
	slices.SortFunc(p.Agents, func(a, b coordinator.AgentSpec) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return p, nil
}

// build makes the variant's strategy; score is its formula, compiled.
func (v *Variant) build(seed uint64, score strategy.Score) (coordinator.Strategy, error) {
	o := strategy.Options{
		Weights: v.Weights, AffinityLabel: v.AffinityLabel, SessionLabel: v.SessionLabel,
		Exploration: v.Exploration, FormulaText: v.Formula, Formula: score,
		Specialists: v.Prefer == strategy.PreferSpecialists,
	}
	if chosen, ok := reference(v.Strategy, seed); ok {
		if len(v.Weights) > 0 || v.AffinityLabel+v.SessionLabel+v.Formula+v.Prefer != "" || v.Exploration > 0 {
			return chosen, fmt.Errorf("strategy %s: it has no options; remove them", v.name())
		}
		return chosen, nil
	}
	return strategy.Build(v.Strategy, o)
}

// name is what faults call the variant.
func (v *Variant) name() string { return cmp.Or(v.Label, v.Strategy) }

// spec is what agents.yaml would say of the agent.
func (s *Scenario) spec(v *Variant, a *agent) coordinator.AgentSpec {
	g := &s.Fleet[a.group]
	spec := coordinator.AgentSpec{
		ID: a.id, Queue: "agent." + string(a.id), Capabilities: g.Capabilities,
		MaxConcurrent: g.advertised(v), Rank: g.Rank, Cost: g.Cost, Labels: g.Labels,
		HealthCheckInterval: g.Heartbeat, Timeout: defaultTimeout, AcceptTimeout: g.AcceptTimeout,
	}
	if g.Stated != nil {
		spec.SuccessRate, spec.SuccessStated = *g.Stated, true
	}
	return spec
}

// advertised is how many slots the group's agents claim under the variant.
func (g *Group) advertised(v *Variant) int {
	if v.Advertised > 0 {
		return v.Advertised
	}
	return g.Advertised
}

// reports is what the group's agents tell under the variant.
func (g *Group) reports(v *Variant) Reports {
	if v.Reports != "" {
		return v.Reports
	}
	return g.Reports
}
