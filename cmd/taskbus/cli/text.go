package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/messages"
)

// TextWidth is where the text of a check is broken.
const TextWidth = 98

// WithAdvice is what was found and, after an arrow, what to do about it, in lines of so many columns.
func WithAdvice(text, advice string, columns int) []string {
	lines := Wrap(OneLine(text), columns)
	for i, line := range Wrap(OneLine(advice), columns-2) {
		arrow := "  "
		if i == 0 {
			arrow = "→ "
		}
		lines = append(lines, arrow+line)
	}
	return lines
}

// Wrap breaks a text between words into lines of at most so many columns, as far as its
// words allow.
func Wrap(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > columns {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Seconds is a time of so many of them.
func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Shortly renders seconds for people: tenths below ten seconds, then seconds, then
// as coordinator.Roughly has it.
func Shortly(drain float64) string {
	switch d := Seconds(drain); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", drain)
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", drain)
	default:
		return coordinator.Roughly(d)
	}
}

// Cause is the code of a refusal for people: the code for a cordoned agent stands for
// one that drains as well.
func Cause(why string) string {
	if why == coordinator.Cordoned.String() {
		return "cordoned or draining"
	}
	return why
}

// Counts renders "5 full, 7 lacks_capability", the largest first, then by name.
func Counts(by map[string]int) string {
	parts := make([]string, 0, len(by))
	for _, name := range ByCount(by) {
		parts = append(parts, fmt.Sprintf("%d %s", by[name], name))
	}
	return strings.Join(parts, ", ")
}

// ByCount are the names, the largest count first, then by name.
func ByCount(by map[string]int) []string {
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
}

// After is a text behind a separator; empty for none.
func After(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

func At(address string) string { return After(" at ", address) }

// Ago renders how long before now something was: "3s ago", in the largest unit
// that fits; "" when it never was.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	if d := now.Sub(then); d >= time.Second {
		return InUnit(d) + " ago"
	}
	return "now"
}

// InUnit renders a time of a second or more in the largest unit that fits: "3s".
func InUnit(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// Count renders a number of things: "1 agent", "3 agents".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// OneLine makes a text from any source fit for one line of a terminal.
func OneLine(s string) string { return messages.Clean(s, messages.MaxText) }

// List joins words in a cell: the first few, then how many more.
func List[S ~string](words []S, most int) string {
	var b strings.Builder
	for i, w := range words {
		if i == most {
			fmt.Fprintf(&b, " +%d", len(words)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// Priority names a task's priority, or gives the number if it has no name; "" of a message that does not say one.
func Priority(p int) string {
	if p < 0 {
		return ""
	}
	if p < int(coordinator.PriorityLow) || p > int(coordinator.PriorityCritical) {
		return fmt.Sprint(p)
	}
	return coordinator.Priority(p).String()
}

// Milliseconds renders a duration with as many digits as a person wants; "" for
// none.
func Milliseconds(ms float64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
}
