package yamlconf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"taskbus/coordinator/nearest"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	// Source is the file's name, or what stands for it.
	Source string
	// Line and Column count from 1; Line is 0 for what is no file, and Column is
	// 0 where the YAML parser gives none.
	Line, Column int
	// Path leads to the setting, e.g. "agents.gpu-1.max_concurrent_tasks". Empty for what concerns the file as a
	// whole.
	Path string
	// Text says what is wrong and what to do.
	Text string
}

// String renders "agents.yaml:12:5: agents.gpu-1.priority: text".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Source)
	for _, n := range []int{f.Line, f.Column} {
		if n > 0 {
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(n))
		}
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is the error of everything that reads a file: all that is wrong, in the order of the file. List is never
// empty.
type Faults struct{ List []Fault }

// MaxPrinted keeps a thoroughly broken file from flooding a log.
const MaxPrinted = 50

// Error gives one line for each fault, and after MaxPrinted of them only says
// how many more there are; List has them all.
func (e *Faults) Error() string {
	var b strings.Builder
	for i, f := range e.List {
		if i == MaxPrinted {
			fmt.Fprintf(&b, "\n… and %d more faults", len(e.List)-MaxPrinted)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(f.String())
	}
	return b.String()
}

// ErrorOf sorts faults by place and makes a *Faults of them, if there are any.
func ErrorOf(list []Fault) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Faults{List: list}
}

// RefusePanic is deferred where a file is read. A file is read again by a running coordinator: what
// its content makes of the reader, or of a library, is a fault of the file and never the end of the
// process.
func RefusePanic(source string, err *error) {
	if cause := recover(); cause != nil {
		*err = &Faults{List: []Fault{{Source: source, Line: 1,
			Text: Clip(strings.Join(strings.Fields(fmt.Sprint(cause)), " ")) +
				": reading this file has failed inside Taskbus; please report it, with the file"}}}
	}
}

// MaxEcho is how many characters of the file a fault repeats.
const MaxEcho = 40

// Clip shortens what stands in the file to what a line can hold.
func Clip(s string) string { return ClipTo(s, MaxEcho) }

// ClipTo shortens a text to so many characters.
func ClipTo(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most]) + "…"
	}
	return s
}

// Echo quotes what stands in the file, shortened and without control characters.
func Echo(s string) string { return strconv.Quote(Clip(s)) }

// DidYouMean ends a fault about an unknown name: with the known name that comes
// closest, else with all of them (shortened when there are very many).
func DidYouMean(got string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if near := nearest.DidYouMean(got, known); near != "" {
		return "; " + near
	}
	const most = 32
	if len(known) > most {
		return fmt.Sprintf("; known are %s and %d more", strings.Join(known[:most], ", "), len(known)-most)
	}
	return "; known are " + strings.Join(known, ", ")
}

// Warning is something that is allowed in the files and probably not meant.
type Warning struct {
	Text string
	// Fails: tasks fail because of it, agents are lost, or something is not done that the file asks
	// for. The others are advice: what they say may be meant.
	Fails bool
}
