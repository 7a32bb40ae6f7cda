package formula

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

const (
	// MaxLength of a formula, in characters.
	MaxLength = 1024
	// maxCost bounds what one evaluation could cost in the worst case, in CEL's own
	// units (a step is some ten nanoseconds). It is estimated once: nothing in a
	// formula loops, so that the worst case is known, and to count the steps of every
	// evaluation would make each cost three times as much.
	maxCost = 10_000
	// maxDepth is how deep a formula may nest.
	maxDepth = 50
)

// Compile checks a formula and returns what computes it. The error is an *Error with
// the first thing that is wrong. The result is safe for concurrent use.
func Compile(text string) (score strategy.Score, err error) {
	// A formula comes from a file that a running coordinator reads again: whatever CEL makes
	// of it, the file is refused and the process goes on.
	defer func() {
		if cause := recover(); cause != nil {
			score, err = nil, &Error{Text: "cannot be read: " + oneLine(fmt.Sprint(cause))}
		}
	}()
	return compile(text)
}

func compile(text string) (strategy.Score, error) {
	if strings.TrimSpace(text) == "" {
		return nil, &Error{Text: "is empty; write one, e.g. success_rate / (1 + load)"}
	}
	if n := utf8.RuneCountInString(text); n > MaxLength {
		return nil, &Error{Text: fmt.Sprintf("has %d characters; %d are the most", n, MaxLength)}
	}
	env, err := environment()
	if err != nil {
		return nil, &Error{Text: "cannot be read: " + err.Error()}
	}
	checked, err := check(env, text)
	if err != nil {
		return nil, err
	}
	if err := patternFault(checked); err != nil {
		return nil, &Error{Text: oneLine(err.Error())}
	}
	if cost, err := env.EstimateCost(checked, sizes{}); err != nil || cost.Max > maxCost {
		return nil,
			&Error{
				Text: fmt.Sprintf(
					"could cost %d steps for one agent; %d are the most: compare texts instead of matching or joining them", cost.Max,
					maxCost)}
	}
	switch checked.OutputType() {
	case types.DoubleType, types.IntType, types.UintType, types.DynType:
	case types.BoolType:
		return nil, &Error{Text: "gives true or false, a score is a number; write `condition ? 1 : 0`"}
	default:
		return nil, &Error{Text: fmt.Sprintf("gives a %s, a score is a number", checked.OutputType())}
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &Error{Text: "cannot be computed: " + oneLine(err.Error())}
	}
	compute := scoreOf(program)
	if !reads(checked) { // then it gives the same for every agent, and that is known now
		if n, err := compute(&coordinator.Case{Task: &coordinator.Task{}}, &coordinator.AgentView{},
			&coordinator.Standing{}); err != nil {
			return nil, &Error{Text: "fails for every agent: " + oneLine(err.Error())}
		} else if math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, &Error{Text: fmt.Sprintf("gives %v for every agent, which is no score", n)}
		}
	}
	return compute, nil
}

// reads reports whether a formula reads anything of task or agent.
func reads(a *cel.Ast) bool {
	found := false
	celast.PostOrderVisit(a.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		found = found || e.Kind() == celast.IdentKind
	}))
	return found
}

// scoreOf turns a program into a function of an agent.
func scoreOf(program cel.Program) strategy.Score {
	terms := newVocabulary()
	return func(c *coordinator.Case, a *coordinator.AgentView, s *coordinator.Standing) (float64, error) {
		value, _, err := program.Eval(&agent{terms: terms, task: c, view: a, standing: s})
		if err != nil {
			return math.NaN(), err
		}
		switch v := value.(type) {
		case types.Double:
			return float64(v), nil
		case types.Int:
			return float64(v), nil
		case types.Uint:
			return float64(v), nil
		}
		return math.NaN(), fmt.Errorf("the formula gives a %s, not a number", value.Type().TypeName())
	}
}

// environment is the language of formulas: CEL without what loops.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ClearMacros(), // all but has() walk over lists and maps
		cel.Macros(cel.HasMacro),
		ext.Math(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(4),
	}
	for _, t := range strategy.Terms() {
		options = append(options, cel.Variable(t.Name, cel.DoubleType))
	}
	for name, kind := range texts {
		options = append(options, cel.Variable(name, kind))
	}
	return cel.NewEnv(options...)
})

// check parses a formula and checks its names and types: with whole numbers as
// 1.0, and if that makes no sense, as written. Faults are those of the former.
func check(env *cel.Env, text string) (*cel.Ast, error) {
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, firstFault(text, issues)
	}
	wholeAsDouble(parsed.NativeRep())
	checked, faults := env.Check(parsed)
	if faults.Err() == nil {
		return checked, nil
	}
	if checked, issues := env.Compile(text); issues.Err() == nil {
		return checked, nil
	}
	return nil, firstFault(text, faults)
}

// wholeAsDouble makes every whole number of a formula one with a decimal point.
func wholeAsDouble(a *celast.AST) {
	make := celast.NewExprFactory()
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.LiteralKind {
			return
		}
		if n, whole := e.AsLiteral().(types.Int); whole {
			e.SetKindCase(make.NewLiteral(e.ID(), types.Double(n)))
		}
	}))
}
