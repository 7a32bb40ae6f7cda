package priorities

import (
	"fmt"
	"io"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/simulator"
)

// Report is what came out of a scenario.
type Report struct {
	Scenario string   `json:"scenario"`
	About    string   `json:"about,omitempty"`
	Seeds    []uint64 `json:"seeds"`
	Slots    int      `json:"slots"`
	Load     float64  `json:"load"`
	Seconds  float64  `json:"seconds"`
	// Tasks are those of each priority that come, the highest first.
	Tasks  []Count       `json:"tasks"`
	Orders []Performance `json:"orders"`
}

// Count is how many tasks of a priority come.
type Count struct {
	Priority string          `json:"priority"`
	Tasks    simulator.Value `json:"tasks"`
}

// Performance is how tasks fare in one order.
type Performance struct {
	Order string `json:"order"`
	Label string `json:"label"`
	// Priorities, the highest first.
	Priorities []Wait `json:"priorities"`
}

// Wait is that of a priority's tasks.
type Wait struct {
	Priority string          `json:"priority"`
	P50      simulator.Value `json:"p50_seconds"`
	P99      simulator.Value `json:"p99_seconds"`
	// Share is which part of the starts it has while tasks come.
	Share simulator.Value `json:"share"`
}

// newReport summarises what came out of all seeds.
func newReport(s *simulator.Scenario, played [][]outcome) *Report {
	p := s.Priorities
	r := &Report{Scenario: s.Name, About: s.About, Seeds: s.Seeds, Slots: p.Slots, Load: p.Load, Seconds: p.For.Seconds()}
	for level := coordinator.Priorities - 1; level >= 0; level-- {
		r.Tasks = append(r.Tasks, Count{coordinator.Priority(level).String(),
			simulator.Summarise(played[0], func(o *outcome) float64 { return float64(o.tasks[level]) })})
	}
	for i := range orders {
		one := Performance{Order: orders[i].name, Label: orders[i].label}
		for level := coordinator.Priorities - 1; level >= 0; level-- {
			one.Priorities = append(one.Priorities, Wait{
				Priority: coordinator.Priority(level).String(),
				P50:      simulator.Summarise(played[i], func(o *outcome) float64 { return o.p50[level] }),
				P99:      simulator.Summarise(played[i], func(o *outcome) float64 { return o.p99[level] }),
				Share:    simulator.Summarise(played[i], func(o *outcome) float64 { return o.share[level] }),
			})
		}
		r.Orders = append(r.Orders, one)
	}
	return r
}

// WriteTable writes the report for people: a line for each order.
func (r *Report) WriteTable(w io.Writer) error {
	return simulator.WriteTable(w, func(t io.Writer) {
		fmt.Fprintf(t, "%s: %s\n", r.Scenario, r.About)
		fmt.Fprintf(t, "%d slots, %.0f %% load for %.0f s; %s\n\n", r.Slots, 100*r.Load, r.Seconds,
			simulator.SeedsText(r.Seeds))
		r.table(t, "WAIT P50 / P99 S", func(x *Wait) string { return x.P50.Text(1, 1) + " / " + x.P99.Text(1, 1) })
		fmt.Fprintln(t)
		r.table(t, "% OF STARTS", func(x *Wait) string { return x.Share.Text(100, 1) })
		fmt.Fprint(t, "of the tasks that come")
		all := 0.0
		for i := range r.Tasks {
			all += r.Tasks[i].Tasks.Mean
		}
		for i := range r.Tasks {
			fmt.Fprintf(t, "\t%.1f", 100*r.Tasks[i].Tasks.Mean/max(1, all))
		}
		fmt.Fprintln(t)
	})
}

// table has a line for each order and a column for each priority.
func (r *Report) table(t io.Writer, what string, cell func(*Wait) string) {
	fmt.Fprint(t, what)
	for i := range r.Tasks {
		fmt.Fprintf(t, "\t%s", strings.ToUpper(r.Tasks[i].Priority))
	}
	fmt.Fprintln(t)
	for i := range r.Orders {
		fmt.Fprint(t, r.Orders[i].Label)
		for j := range r.Orders[i].Priorities {
			fmt.Fprintf(t, "\t%s", cell(&r.Orders[i].Priorities[j]))
		}
		fmt.Fprintln(t)
	}
}

// WriteCSV writes one line for each value: scenario, order, metric with its priority, mean, half of the
// 95 % interval. Times in seconds.
func (r *Report) WriteCSV(w io.Writer) error {
	out := simulator.NewLines(w, "scenario", "order", "metric")
	for i := range r.Orders {
		o := &r.Orders[i]
		for j := range o.Priorities {
			x := &o.Priorities[j]
			out.Value(x.P50, r.Scenario, o.Order, "wait_p50_seconds."+x.Priority)
			out.Value(x.P99, r.Scenario, o.Order, "wait_p99_seconds."+x.Priority)
			out.Value(x.Share, r.Scenario, o.Order, "share."+x.Priority)
		}
	}
	return out.End()
}
