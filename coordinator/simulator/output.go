package simulator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// measure is one value of a Performance as tables show it.
type measure struct {
	head string // of its column
	of   func(*Performance) Value
	// scale is what the value is multiplied with, digits how many follow the point.
	scale  float64
	digits int
}

var measures = []measure{
	{"TASKS/S", func(p *Performance) Value { return p.Throughput }, 1, 2},
	{"SUCCESS %", func(p *Performance) Value { return p.SuccessRate }, 100, 2},
	{"WAIT P50 S", func(p *Performance) Value { return p.WaitP50 }, 1, 3},
	{"P99 S", func(p *Performance) Value { return p.WaitP99 }, 1, 3},
	{"MAX S", func(p *Performance) Value { return p.WaitMax }, 1, 2},
	{"USED %", func(p *Performance) Value { return p.Utilisation }, 100, 1},
	{"JAIN", func(p *Performance) Value { return p.Jain }, 1, 3},
	{"IDLE S", func(p *Performance) Value { return p.Violations }, 1, 1},
	{"REGRET SUCCESS %", func(p *Performance) Value { return p.RegretSuccess }, 100, 2},
	{"REWARD %", func(p *Performance) Value { return p.RegretReward }, 100, 2},
	{"DECISIONS", func(p *Performance) Value { return p.Decisions }, 1, 0},
}

// WriteTable writes the report for people: a line for each strategy, then what
// failed and which agents did the work.
func (r *Report) WriteTable(w io.Writer) error {
	return WriteTable(w, func(t io.Writer) {
		fmt.Fprintf(t, "%s: %s\n", r.Scenario, r.About)
		fmt.Fprintf(t, "%g s of arrivals, measured from %g s on; %s\n\n", r.Duration, r.WarmUp, SeedsText(r.Seeds))
		r.tableOfStrategies(t)
		r.tableOfFailures(t)
		r.tableOfGroups(t)
	})
}

// tableOfStrategies says how each strategy did.
func (r *Report) tableOfStrategies(w io.Writer) {
	fmt.Fprint(w, "STRATEGY")
	for _, m := range measures {
		fmt.Fprint(w, "\t", m.head)
	}
	if r.timed() {
		fmt.Fprint(w, "\tEVENTS/S")
	}
	fmt.Fprintln(w)
	for i := range r.Strategies {
		p := &r.Strategies[i]
		fmt.Fprint(w, p.Label)
		for _, m := range measures {
			fmt.Fprint(w, "\t", m.text(p))
		}
		if r.timed() {
			fmt.Fprintf(w, "\t%.0f", p.Timing.EventsPerSecond)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func (r *Report) timed() bool { return len(r.Strategies) > 0 && r.Strategies[0].Timing != nil }

// text renders the measure of one strategy.
func (m *measure) text(p *Performance) string { return m.of(p).Text(m.scale, m.digits) }

// Text renders the value, multiplied with scale, with so many digits behind the point,
// and its interval where it has one.
func (v Value) Text(scale float64, digits int) string {
	s := strconv.FormatFloat(v.Mean*scale, 'f', digits, 64)
	if v.Interval > 0 {
		s += " ±" + strconv.FormatFloat(v.Interval*scale, 'f', digits, 64)
	}
	return s
}

// tableOfFailures says where the tasks ended.
func (r *Report) tableOfFailures(w io.Writer) {
	fmt.Fprintln(w, "STRATEGY\tARRIVED\tSUCCEEDED\tOPEN\tFAILED (after warm-up)")
	for i := range r.Strategies {
		p := &r.Strategies[i]
		var failed []string
		for _, f := range p.Failed {
			failed = append(failed, f.Reason+" "+f.Tasks.Text(1, 0))
		}
		if failed == nil {
			failed = []string{"-"}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", p.Label, p.Tasks.Arrived, p.Tasks.Succeeded, p.Tasks.Open,
			strings.Join(failed, ", "))
	}
	fmt.Fprintln(w)
}

// tableOfGroups says which agents did the work: the share of the decisions, and how much of
// its time the group worked.
func (r *Report) tableOfGroups(w io.Writer) {
	fmt.Fprint(w, "SHARE % (USED %)")
	for i := range r.Strategies {
		fmt.Fprint(w, "\t", r.Strategies[i].Label)
	}
	fmt.Fprintln(w)
	for g := range r.Strategies[0].Groups {
		group := &r.Strategies[0].Groups[g]
		fmt.Fprint(w, group.Group)
		if group.Agents > 1 {
			fmt.Fprintf(w, " ×%d", group.Agents)
		}
		for i := range r.Strategies {
			s := &r.Strategies[i].Groups[g]
			fmt.Fprintf(w, "\t%.1f (%.0f)", 100*s.Share.Mean, 100*s.Utilisation.Mean)
		}
		fmt.Fprintln(w)
	}
}

// WriteCSV writes one line for each strategy and value: scenario, strategy, label,
// metric, mean, half of the 95 % interval. Shares are from 0 to 1, times in seconds.
func (r *Report) WriteCSV(w io.Writer) error {
	out := NewLines(w, "scenario", "strategy", "label", "metric")
	for i := range r.Strategies {
		p := &r.Strategies[i]
		line := func(metric string, v Value) { out.Value(v, r.Scenario, p.Strategy, p.Label, metric) }
		line("throughput_per_second", p.Throughput)
		line("success_rate", p.SuccessRate)
		line("wait_mean_seconds", p.WaitMean)
		line("wait_p50_seconds", p.WaitP50)
		line("wait_p99_seconds", p.WaitP99)
		line("wait_max_seconds", p.WaitMax)
		line("utilisation", p.Utilisation)
		line("jain_index", p.Jain)
		line("work_conservation_violated_seconds", p.Violations)
		line("regret_success", p.RegretSuccess)
		line("regret_reward", p.RegretReward)
		line("decisions", p.Decisions)
		line("engine_events", p.Events)
		for _, f := range p.Failed {
			line("failed."+f.Reason, f.Tasks)
		}
		for _, g := range p.Groups {
			line("share."+g.Group, g.Share)
			line("utilisation."+g.Group, g.Utilisation)
		}
	}
	return out.End()
}
