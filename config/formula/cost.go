package formula

import (
	"fmt"
	"math"
	regexpsyntax "regexp/syntax"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// matches is the function of CEL that takes a regular expression.
const matches = "matches"

// sizes says to CEL how long the texts and how many the labels can be, for its
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

// What some calls cost in the worst case, in steps (measured; CEL knows the length of texts, and
// nothing of these).
const (
	costOfMap  = 1500 // to compare all labels of an agent or a task with others
	costOfZone = 2000 // to find a time zone by its name: it is looked up each time
)

// EstimateCallCost is what matching, comparing whole sets of labels, and time zones cost in the worst
// case. The other functions are left to CEL.
func (sizes) EstimateCallCost(function, _ string, target *checker.AstNode,
	args []checker.AstNode) *checker.CallEstimate {
	var cost uint64
	switch {
	case function == matches:
		cost = costOfMatching(target, args)
	case function == operators.Equals, function == operators.NotEquals, function == operators.In:
		cost = costOfMap * mapsIn(function, args)
	case len(args) == 1 && slices.Contains(inZones, function):
		cost = costOfZone
	}
	if cost == 0 {
		return nil
	}
	return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Max: cost}}
}

// inZones are the functions of times that take a time zone.
var inZones = []string{
	overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth,
	overloads.TimeGetDate,
	overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds,
	overloads.TimeGetMilliseconds,
}

// mapsIn counts the sets of labels that a comparison may look at as a whole: those in its arguments that
// are not merely asked for one label.
func mapsIn(function string, args []checker.AstNode) (n uint64) {
	for i, arg := range args {
		if function == operators.In && i == 1 && arg.Type().Kind() == types.MapKind {
			continue // a label is looked up
		}
		n += wholeMaps(arg.Expr())
	}
	return n
}

func wholeMaps(e celast.Expr) (n uint64) {
	switch e.Kind() {
	case celast.IdentKind:
		if name := e.AsIdent(); name == nameLabels || name == nameTaskLabels {
			return 1
		}
	case celast.SelectKind:
		return 0
	case celast.CallKind:
		c := e.AsCall()
		if c.FunctionName() == operators.Index || c.FunctionName() == operators.In || c.FunctionName() == overloads.Size {
			return 0
		}
		for _, arg := range c.Args() {
			n += wholeMaps(arg)
		}
	case celast.ListKind:
		for _, element := range e.AsList().Elements() {
			n += wholeMaps(element)
		}
	case celast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n += wholeMaps(entry.AsMapEntry().Value())
		}
	}
	return n
}

// costOfMatching: at each character of the text every instruction of the pattern's program may be looked
// at, in some five nanoseconds (measured: 3.5), and a step is ten. CEL goes by the length of the pattern,
// which says nothing: a{31} has five characters and 31 instructions.
func costOfMatching(target *checker.AstNode, args []checker.AstNode) uint64 {
	text := checker.AstNode(nil)
	if target != nil {
		text = *target
	} else if len(args) == 2 {
		text = args[0]
	}
	if text == nil || text.ComputedSize() == nil {
		return math.MaxUint64
	}
	n, err := instructions(args[len(args)-1].Expr())
	if err != nil {
		return math.MaxUint64
	}
	return (min(text.ComputedSize().Max, math.MaxUint32) + 1) * n / 2
}

// manyRanges of characters make an instruction count as much as costOfRanges others: they are searched.
const (
	manyRanges   = 8
	costOfRanges = 3
)

// instructions is the size of the program of a pattern. The error says why it is none.
func instructions(pattern celast.Expr) (uint64, error) {
	if pattern.Kind() != celast.LiteralKind {
		return 0,
			fmt.Errorf("the pattern of matches must be a text in quotes, so that its cost is known; it is computed here")
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
	n := uint64(len(program.Inst))
	for i := range program.Inst {
		if len(program.Inst[i].Rune) > 2*manyRanges {
			n += costOfRanges - 1
		}
	}
	return n, nil
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
