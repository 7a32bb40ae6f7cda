package main

import (
	"bufio"
	"encoding/json"
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
	Samples map[string][]float64 `json:"samples"` // by "NAME UNIT", in their order
	Machine map[string]string    `json:"machine"` // configuration lines: cpu, rabbitmq, …
	Cores   string               `json:"cores"`   // GOMAXPROCS of the benchmarks
	Failed  bool                 `json:"failed"`
}

// verdict is one row with its result.
type verdict struct {
	What   string `json:"what"`
	Target string `json:"target"`
	Result string `json:"result"`
	Word   string `json:"verdict"`
	Note   string `json:"note,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bench RESULTS.txt OUTPUT.json; scripts/bench.sh makes both")
		os.Exit(2)
	}
	if err := judgeFile(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func judgeFile(from, to string, out io.Writer) error {
	file, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read the benchmarks: %w", err)
	}
	defer func() { _ = file.Close() }()
	m, err := parse(file)
	if err != nil {
		return err
	}
	var verdicts []verdict
	for _, r := range rows {
		verdicts = append(verdicts, m.judge(r))
	}
	data, err := json.MarshalIndent(struct {
		At       time.Time `json:"at"`
		Verdicts []verdict `json:"verdicts"`
		*measured
	}{time.Now().UTC(), verdicts, m}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(to, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return m.print(out, verdicts)
}

var (
	resultLine = regexp.MustCompile(`^Benchmark(\S+?)(?:#\d+)?(?:-(\d+))?\s+\d+\s+(.*)`)
	configLine = regexp.MustCompile(`^([a-z]+): (.*)`)
)

// parse reads the text format of go test -bench. Rounds of a sub-benchmark (…#01) are samples of one.
func parse(from io.Reader) (*measured, error) {
	m := &measured{Samples: make(map[string][]float64), Machine: make(map[string]string)}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		m.Failed = m.Failed || strings.HasPrefix(line, "FAIL")
		if c := configLine.FindStringSubmatch(line); c != nil {
			m.Machine[c[1]] = c[2]
		}
		r := resultLine.FindStringSubmatch(line)
		if r == nil {
			continue
		}
		name, fields := strings.TrimPrefix(r[1], "Broker/"), strings.Fields(r[3])
		m.Cores = r[2]
		for i := 0; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				key := name + " " + fields[i+1]
				m.Samples[key] = append(m.Samples[key], value)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the benchmarks: %w", err)
	}
	return m, nil
}

// judge holds a row against its target.
func (m *measured) judge(r row) verdict {
	v := verdict{What: r.what, Target: r.target, Word: "not measured"}
	name, unit, _ := strings.Cut(r.of, " ")
	other, _, own := strings.Cut(r.with, " ")
	values, with := m.Samples[r.of], m.Samples[r.with]
	if !own {
		with = m.Samples[r.with+" "+unit]
	}
	if len(values) == 0 || r.with != "" && len(with) == 0 {
		return v
	}
	var notes []string
	if r.with != "" {
		notes = append(notes, figure(median(values))+" and "+figure(median(with))+" "+unit)
		pairs := make([]float64, min(len(values), len(with))) // made side by side
		for i := range pairs {
			if pairs[i] = values[i] / with[i]; r.how == extra {
				pairs[i] = values[i] - with[i]
			}
		}
		if values = pairs; r.how != extra {
			unit = ""
		}
	}
	result := median(values)
	switch r.how {
	case most:
		result = slices.Max(values)
	case least:
		result = slices.Min(values)
	}
	if len(values) > 1 {
		notes = append(notes, "rounds "+figure(slices.Min(values))+" to "+figure(slices.Max(values)))
	}
	allocs := m.Samples[name+" allocs/op"]
	if r.how == allocFree {
		notes = append(notes, figure(median(allocs))+" allocs/op")
	}
	for _, more := range strings.Fields(r.notes) {
		if of := m.Samples[name+" "+more]; len(of) > 0 {
			note := figure(median(of))
			if beside := m.Samples[other+" "+more]; len(beside) > 0 && other != name {
				note += " and " + figure(median(beside))
			}
			notes = append(notes, note+" "+more)
		}
	}
	v.Note, v.Result = strings.Join(notes, "; "), strings.TrimSpace(figure(result)+" "+unit)
	switch limit, err := strconv.ParseFloat(strings.Fields(strings.TrimLeft(r.target, "≥≤ "))[0], 64); {
	case err != nil: // no target
		v.Word = ""
	case r.how == allocFree && median(allocs) > 0, strings.HasPrefix(r.target, "≥") && result < limit,
		!strings.HasPrefix(r.target, "≥") && result > limit:
		v.Word = "MISSED"
	default:
		v.Word = "PASS"
	}
	return v
}

// figure has three digits that count, or all of a whole number.
func figure(x float64) string {
	switch {
	case x == float64(int64(x)), x >= 100 || x <= -100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10 || x <= -10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// median of an even number of values is the mean of the middle two; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func (m *measured) print(to io.Writer, verdicts []verdict) error {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nwhat\ttarget\tresult\t\t\n")
	for _, v := range verdicts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", v.What, v.Target, v.Result, v.Word, v.Note)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the results: %w", err)
	}
	arrived := "Every task of every run arrived exactly once."
	if twice := m.Samples["standby/killed twice"]; slices.ContainsFunc(twice, func(n float64) bool { return n > 0 }) {
		arrived = fmt.Sprintf("Every task arrived, exactly once but for %v around the kill of a coordinator.", twice)
	}
	if m.Failed {
		arrived = "A benchmark has failed: the table is not complete."
	}
	const about = "\n%s, %s cores shared with broker and load, load %s at the start; %s, RabbitMQ %s; %s\n%s\n"
	on := m.Machine
	_, err := fmt.Fprintf(to, about, on["cpu"], m.Cores, on["load"], on["go"], on["rabbitmq"],
		time.Now().UTC().Format(time.DateTime+" MST"), arrived)
	return err
}
