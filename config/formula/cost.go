package formula

import (
	"fmt"
	"math"
	regexpsyntax "regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// matches is the function of CEL that takes a regular expression.
const matches = "matches"

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

// EstimateCallCost is what matching costs in the worst case: at each character of the text
// every instruction of the pattern's program may be looked at, in some five nanoseconds
// (measured: 3.5), and a step is ten. CEL goes by the length of the pattern, which says
// nothing: a{31} has five characters and 31 instructions. The other functions are left to CEL.
func (sizes) EstimateCallCost(function, _ string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if function != matches {
		return nil
	}
	text := checker.AstNode(nil)
	if target != nil {
		text = *target
	} else if len(args) == 2 {
		text = args[0]
	}
	cost := checker.CostEstimate{Max: math.MaxUint64}
	if text != nil && text.ComputedSize() != nil {
		if n, err := instructions(args[len(args)-1].Expr()); err == nil {
			cost.Max = (min(text.ComputedSize().Max, math.MaxUint32) + 1) * n / 2
		}
	}
	return &checker.CallEstimate{CostEstimate: cost}
}

// instructions is the size of the program of a pattern. The error says why it is none.
func instructions(pattern celast.Expr) (uint64, error) {
	if pattern.Kind() != celast.LiteralKind {
		return 0, fmt.Errorf("the pattern of matches must be a text in quotes, so that its cost is known; it is computed here")
	}
	text, is := pattern.AsLiteral().(types.String)
	if !is {
		return 0, fmt.Errorf("the pattern of matches must be a text in quotes")
	}
	tree, err := regexpsyntax.Parse(string(text), regexpsyntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := regexpsyntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	return uint64(len(program.Inst)), nil
}

// patternFault is what is wrong with the first pattern that cannot be used; nil: all can.
func patternFault(a *cel.Ast) (fault error) {
	celast.PostOrderVisit(a.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if fault != nil || e.Kind() != celast.CallKind || e.AsCall().FunctionName() != matches {
			return
		}
		if args := e.AsCall().Args(); len(args) > 0 {
			_, fault = instructions(args[len(args)-1])
		}
	}))
	return fault
}
