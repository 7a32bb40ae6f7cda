package formula

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/google/cel-go/cel"

	"taskbus/coordinator/pattern"
)

// Error is what is wrong with a formula.
type Error struct {
	// Line and Column count from 1, within the formula; 0 where that is not known.
	Line, Column int
	// Unknown is a name that the formula uses and that does not exist; else empty.
	Unknown string
	// Text says what is wrong and what to do, on one line.
	Text string
}

// Error renders "column 9: text", or "line 2, column 9: text".
func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return e.Text
	case e.Line == 1:
		return fmt.Sprintf("column %d: %s", e.Column, e.Text)
	default:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
	}
}

var (
	undeclared = pattern.New(`^undeclared reference to '([^']*)'`)
	overload   = pattern.New(`^found no matching overload for '([^']*)' applied to '(?:[^(]*\.)?\((.*)\)'`)
	syntax     = pattern.New(`(?s)^Syntax error: (.*?)( expecting .*)?$`)
	// operator is how CEL calls + and the like.
	operator = pattern.New(`^_?([^A-Za-z_]+)_?$`)
)

// firstFault is the first thing that is wrong, an unknown name before any other: it
// makes the rest look wrong too.
func firstFault(text string, issues *cel.Issues) *Error {
	lines := strings.Split(text, "\n")
	var first *Error
	for _, fault := range issues.Errors() {
		e := &Error{Text: plain(fault.Message)}
		if at := fault.Location; at != nil && at.Line() > 0 {
			e.Line, e.Column = at.Line(), at.Column()+1
		}
		if m := undeclared.FindStringSubmatch(fault.Message); m != nil {
			if called(lines, e) { // CEL points at the bracket then
				e.Text = "there is no function " + oneLine(m[1]) +
					" here; numbers have + - * / ? : and those of math, such as math.least(a, b)"
			} else {
				e.Unknown, e.Text = m[1], "there is no term "+oneLine(m[1])
			}
			return e
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// called reports whether the fault points at an opening bracket.
func called(lines []string, e *Error) bool {
	if e.Line < 1 || e.Line > len(lines) {
		return false
	}
	line := []rune(lines[e.Line-1])
	return e.Column <= len(line) && line[e.Column-1] == '('
}

// plain says in our words what CEL says in its own, on one line.
func plain(message string) string {
	if m := overload.FindStringSubmatch(message); m != nil {
		return oneLine(notApplicable(m[1], strings.ReplaceAll(m[2], "double", "number")))
	}
	if strings.Contains(message, "recursion limit exceeded") {
		return fmt.Sprintf("nests deeper than %d levels; make it simpler", maxDepth)
	}
	if m := syntax.FindStringSubmatch(message); m != nil {
		message = "cannot be read: " + m[1]
		if strings.Contains(m[1], "<EOF>") {
			message = "cannot be read: it ends too early"
		}
	}
	return oneLine(message)
}

// oneLine makes a line of what may repeat parts of the formula.
func oneLine(text string) string {
	const longest = 200
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }),
		" ")
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

// notApplicable says of a function that it does not take these, and what would help.
func notApplicable(name, given string) string {
	switch op := operator.FindStringSubmatch(name); {
	case name == "_?_:_":
		return "? : needs a condition before the ? and two of a kind after it, not " + given
	case name == "_[_]":
		name = "[ ]"
	case op != nil:
		name = op[1]
	}
	text := fmt.Sprintf("%s cannot be applied to %s", name, given)
	switch {
	case strings.Contains(given, "bool"):
		text += "; make a number of a condition by `condition ? 1 : 0`"
	case strings.Contains(given, "string") && strings.Contains(given, "number"):
		text += "; make a number of a text by double(text)"
	case strings.Contains(given, "int") && strings.Contains(given, "number"):
		text += "; write double(…) round the whole number, or int(…) round the other"
	}
	return text
}
