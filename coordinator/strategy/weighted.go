package strategy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"taskbus/coordinator"
)

// WeightedName is the sum of weighted terms.
const WeightedName = "weighted"

// MaxWeight is the largest weight of a term.
const MaxWeight = 100

// Weight is one term of weighted and what it counts where nothing else is said.
type Weight struct {
	Term    string
	Default float64
}

// weights are the terms of weighted, in the order in which they are shown.
//
// Success 2 against free 1 is the bargain of ADR-018: an agent that is full loses
// as much (1) as one whose success is halved (2 · ½), so that work spreads before
// a good agent is full, and a bad one is not chosen for being idle. Affinity
// outweighs any difference in load, for data that is there need not be moved; a
// session outweighs half of it: a fourteenth of its weight lies between its first
// and its second agent, on average. Speed, which lies near ½, and fit, cost and
// rank only decide between agents that are about as good and as free.
var weights = [coordinator.MaxTerms]Weight{
	{FitTerm, 0.5},
	{FreeTerm, 1},
	{SuccessTerm, 2},
	{SpeedTerm, 1},
	{CostTerm, 0.5},
	{AffinityTerm, 1},
	{SessionTerm, 7},
	{RankTerm, 0.25},
}

// Weights lists the terms of weighted with their default weights, in the order in
// which they are shown. The caller owns the list.
func Weights() []Weight {
	list := weights
	return list[:]
}

func newWeighted(o Options) (coordinator.Strategy, error) {
	w, err := readWeights(o.Weights)
	if err != nil {
		return coordinator.Strategy{}, err
	}
	terms := make([]string, len(weights))
	parameters := []string{labelParameters(o)}
	for i := range weights {
		terms[i] = weights[i].Term
		parameters = append(parameters, terms[i]+"="+strconv.FormatFloat(w[i], 'g', -1, 64))
	}
	return coordinator.Strategy{
		Name:       WeightedName,
		About:      "the highest sum of weighted terms: " + strings.Join(terms, ", "),
		Parameters: strings.Join(parameters, " "),
		Terms:      terms,
		Learned:    true,
		Scored:     true,
		Prepare:    prepare(o),
		Key: func(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
			var v coordinator.TermValues
			weightedTerms(c, a, s, &v)
			return coordinator.Key{First: -weightedSum(&w, &v), Second: a.Flexibility}
		},
		Explain: weightedTerms,
	}, nil
}

// weightedTerms are the values of the terms, in the order of weights.
func weightedTerms(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing, v *coordinator.TermValues) {
	*v = coordinator.TermValues{
		fit(c, a), free(a), s.Success, speed(c, s), cheapness(c, a), affinity(c, a), session(c, a), rank(a),
	}
}

func weightedSum(w, v *coordinator.TermValues) float64 {
	sum := 0.0
	for i := range w {
		sum += w[i] * v[i]
	}
	return sum
}

// readWeights puts what is given over the defaults.
func readWeights(given map[string]float64) (coordinator.TermValues, error) {
	var w coordinator.TermValues
	known, sum := 0, 0.0
	for i := range weights {
		w[i] = weights[i].Default
		if x, ok := given[weights[i].Term]; ok {
			known++
			if !(x >= 0 && x <= MaxWeight) {
				return w, fmt.Errorf("the weight of %s must be from 0 to %d, not %g", weights[i].Term, MaxWeight, x)
			}
			w[i] = x
		}
		sum += w[i]
	}
	switch {
	case known < len(given):
		return w, fmt.Errorf("a weight is given to something that is not a term; the terms are %s", termNames())
	case sum == 0:
		return w, fmt.Errorf("every weight is 0, all agents would score alike; give one of %s a weight", termNames())
	}
	return w, nil
}

func termNames() string {
	names := make([]string, len(weights))
	for i := range weights {
		names[i] = weights[i].Term
	}
	return strings.Join(names, ", ")
}

func labelParameters(o Options) string {
	return fmt.Sprintf("affinity_label=%q session_label=%q", o.AffinityLabel, o.SessionLabel)
}

// isNumber is false for NaN and the infinities.
func isNumber(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
