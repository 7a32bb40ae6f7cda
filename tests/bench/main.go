package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// measured is what benchmarks have printed.
type measured struct {
	samples map[string][]float64 // by "NAME UNIT", in their order
	machine map[string]string    // configuration lines: cpu, rabbitmq, …
	failed  bool
}

func main() {
	m, err := parse(os.Stdin)
	if err == nil {
		err = m.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var (
	resultLine = regexp.MustCompile(`^Benchmark(?:Broker/)?(\S+?)(?:#\d+)?(?:-\d+)?\s+\d+\s+(.*)`)
	configLine = regexp.MustCompile(`^([a-z]+): (.*)`)
)

// parse reads the text format of go test -bench. Rounds of a sub-benchmark (…#01) are samples of one.
func parse(from io.Reader) (*measured, error) {
	m := &measured{samples: make(map[string][]float64), machine: make(map[string]string)}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		m.failed = m.failed || strings.HasPrefix(line, "FAIL")
		if c := configLine.FindStringSubmatch(line); c != nil {
			m.machine[c[1]] = c[2]
		} else if r := resultLine.FindStringSubmatch(line); r != nil {
			fields := strings.Fields(r[2])
			for i := 0; i+1 < len(fields); i += 2 {
				if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
					key := r[1] + " " + fields[i+1]
					m.samples[key] = append(m.samples[key], value)
				}
			}
		}
	}
	return m, lines.Err()
}

// judge holds a row against its target.
func (m *measured) judge(r row) (result, verdict string) {
	_, unit, _ := strings.Cut(r.of, " ")
	values, with := m.samples[r.of], m.samples[r.with+" "+unit]
	if r.with != "" {
		values = slices.Clone(values[:min(len(values), len(with))]) // pairs made side by side
	}
	if len(values) == 0 {
		return "", "not measured"
	}
	absolute := median(values)
	for i, other := range with {
		if r.with == "" || i >= len(values) {
			break
		} else if r.how == extra {
			values[i] -= other
		} else {
			values[i] /= other
		}
	}
	value := median(values)
	if r.how == most {
		value = slices.Max(values)
	}
	if result = figure(value) + " " + unit; r.with != "" {
		result = fmt.Sprintf("%s (%s and %s %s)", figure(value), figure(absolute), figure(median(with)), unit)
	}
	if len(values) > 1 {
		result += fmt.Sprintf(", rounds %s to %s", figure(slices.Min(values)), figure(slices.Max(values)))
	}
	limit, err := strconv.ParseFloat(strings.Fields(strings.TrimLeft(r.target, "≥≤ "))[0], 64)
	switch atLeast := strings.HasPrefix(r.target, "≥"); {
	case err != nil: // no target
		return result, ""
	case atLeast && value < limit, !atLeast && value > limit:
		return result, "MISSED"
	}
	return result, "PASS"
}

// figure has three digits that count, or all of a whole number.
func figure(x float64) string {
	if x == float64(int64(x)) || x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// median of an even number of values is the mean of the middle two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	return (sorted[middle] + sorted[len(sorted)-1-middle]) / 2
}

func (m *measured) print(to io.Writer) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nwhat\ttarget\t\tresult\n")
	for _, r := range rows {
		result, verdict := m.judge(r)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.what, r.target, verdict, result)
	}
	arrived := "Every task of every run arrived exactly once."
	if m.failed {
		arrived = "A benchmark has failed: the table is not complete."
	}
	fmt.Fprintf(t, "\n%s, shared with broker and load; load %s at the start; %s, RabbitMQ %s; %s\n%s\n", m.machine["cpu"],
		m.machine["load"], m.machine["go"], m.machine["rabbitmq"], time.Now().UTC().Format(time.DateTime+" MST"), arrived)
	return t.Flush()
}
