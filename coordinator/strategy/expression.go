package strategy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"taskbus/coordinator"
)

// ExpressionName is the strategy whose score is a formula of agents.yaml.
const ExpressionName = "expression"

// expressionSample is how many agents a formula looks at, at most: it costs some
// hundred nanoseconds for each, where the other strategies cost ten.
const expressionSample = 256

func newExpression(o Options) (coordinator.Strategy, error) {
	if o.Formula == nil || o.FormulaText == "" {
		return coordinator.Strategy{},
			errors.New(`a formula is missing; write one, e.g. formula: "success_rate / (1.0 + load)"`)
	}
	used := termsIn(o.FormulaText)
	s := coordinator.Strategy{
		Name:       ExpressionName,
		About:      "the highest value of a formula of agents.yaml",
		Parameters: fmt.Sprintf("%s formula=%q", labelParameters(o), o.FormulaText),
		Learned: slices.ContainsFunc(Terms(),
			func(t Term) bool { return t.Learned && strings.Contains(o.FormulaText, t.Name) }),
		Scored:  true,
		Sample:  expressionSample,
		Prepare: prepare(o),
		Key: func(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) coordinator.Key {
			score, err := o.Formula(c, a, s)
			if err != nil || !isNumber(score) {
				return coordinator.Key{First: math.NaN()}
			}
			return coordinator.Key{First: -score, Second: a.Flexibility}
		},
		Why: func(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) string {
			score, err := o.Formula(c, a, s)
			if err != nil {
				return "the formula fails: " + err.Error()
			}
			return fmt.Sprintf("the formula gives %v", score)
		},
		Explain: func(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing, v *coordinator.TermValues) {
			for i, t := range used {
				v[i] = t.Value(c, a, s)
			}
		},
	}
	for _, t := range used {
		s.Terms = append(s.Terms, t.Name)
	}
	return s, nil
}

// termsIn lists the terms that stand in a formula, in the order of their first
// appearance, as many as an explanation shows; those that only stand in a text do
// not count. A formula without any is explained by its load.
func termsIn(formula string) []Term {
	all := Terms()
	var found []Term
	quote := rune(0)
	words := strings.FieldsFunc(formula, func(r rune) bool {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
			return true
		case r == '"' || r == '\'':
			quote = r
			return true
		}
		return !(r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	})
	for _, word := range words { // a field such as labels.load stays one word
		add := func(t Term) bool { return t.Name == word }
		if i := slices.IndexFunc(all, add); i >= 0 && !slices.ContainsFunc(found, add) && len(found) < coordinator.MaxTerms {
			found = append(found, all[i])
		}
	}
	if len(found) == 0 {
		found = append(found, all[slices.IndexFunc(all, func(t Term) bool { return t.Name == "load" })])
	}
	return found
}
