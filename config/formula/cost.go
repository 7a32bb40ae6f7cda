package formula

import "github.com/google/cel-go/checker"

// sizes tells CEL how long the texts and how many the labels can be, for its
// estimate of what a formula costs. The bounds are those of messages and agents.yaml.
type sizes struct{}

// EstimateSize gives the bounds of one value; nil where CEL knows better.
func (sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	switch {
	case len(path) == 0:
		return nil
	case path[0] != nameLabels && path[0] != nameTaskLabels:
		return &checker.SizeEstimate{Max: 128} // task_type, agent_id
	case len(path) == 1:
		return &checker.SizeEstimate{Max: 32} // labels
	default:
		return &checker.SizeEstimate{Max: 256} // the value of a label
	}
}

// EstimateCallCost leaves the functions to CEL.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
