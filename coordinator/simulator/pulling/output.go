package pulling

import (
	"fmt"
	"io"

	"taskbus/coordinator/simulator"
)

// WriteTable writes the report for people: for each load a line for each controller,
// then a line for each agent.
func (r *Report) WriteTable(w io.Writer) error {
	return simulator.WriteTable(w, func(t io.Writer) {
		fmt.Fprintf(t, "%s: %s\n", r.Scenario, r.About)
		fmt.Fprintf(t, "%g s, measured from %g s on; %s\n", r.Duration, r.WarmUp, simulator.SeedsText(r.Seeds))
		for i := range r.Loads {
			load := &r.Loads[i]
			fmt.Fprintf(t, "\n%s (possible: %.4g items/s)\n\n", load.Label, load.Most)
			fmt.Fprintln(t, "CONTROLLER\tITEMS/S\tBACKLOG\tUNCLAIMED\tCLAIMS/S")
			for j := range load.Controllers {
				p := &load.Controllers[j]
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.Label, p.Throughput.Text(1, 2), p.Backlog.Text(1, 1),
					p.Unclaimed.Text(1, 1), p.Claims.Text(1, 1))
			}
			fmt.Fprintln(t)
			r.tableOfAgents(t, load)
		}
	})
}

// tableOfAgents says what each agent held, and how long it had nothing.
func (r *Report) tableOfAgents(w io.Writer, load *Load) {
	fmt.Fprint(w, "DRAIN S (AFTER A CLAIM), IDLE")
	for j := range load.Controllers {
		fmt.Fprint(w, "\t", load.Controllers[j].Label)
	}
	fmt.Fprintln(w)
	for i, a := range r.Agents {
		fmt.Fprintf(w, "%s, %g items/s", a.Name, a.Capacity)
		for j := range load.Controllers {
			p := &load.Controllers[j].Agents[i]
			if p.Alive == 0 {
				fmt.Fprint(w, "\tdead")
				continue
			}
			fmt.Fprintf(w, "\t%.2f (%.2f), %.1f %%", p.Drain.Mean, p.AfterClaim.Mean, 100*p.Idle.Mean)
		}
		fmt.Fprintln(w)
	}
}

// WriteCSV writes one line for each load, controller and value: scenario, load, mode,
// label, metric, mean, half of the 95 % interval. Shares are from 0 to 1, times in
// seconds.
func (r *Report) WriteCSV(w io.Writer) error {
	out := simulator.NewLines(w, "scenario", "load", "mode", "label", "metric")
	for i := range r.Loads {
		for j := range r.Loads[i].Controllers {
			p := &r.Loads[i].Controllers[j]
			for _, m := range r.metrics(p) {
				out.Value(m.value, r.Scenario, r.Loads[i].Label, string(p.Mode), p.Label, m.name)
			}
		}
	}
	return out.End()
}

// metric is one value under its name in CSV.
type metric struct {
	name  string
	value simulator.Value
}

func (r *Report) metrics(p *Performance) []metric {
	list := []metric{
		{"items_per_second", p.Throughput}, {"claims_per_second", p.Claims},
		{"unclaimed_items", p.Unclaimed}, {"backlog_items", p.Backlog},
	}
	for i := range p.Agents {
		a, name := &p.Agents[i], r.Agents[i].Name
		list = append(list,
			metric{"drain_seconds." + name, a.Drain}, metric{"drain_after_claim_seconds." + name, a.AfterClaim},
			metric{"idle." + name, a.Idle})
	}
	return list
}
