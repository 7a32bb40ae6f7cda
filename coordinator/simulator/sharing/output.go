package sharing

import (
	"fmt"
	"io"

	"taskbus/coordinator/simulator"
)

// WriteTable writes the report for people: which tenants share, how well outputs are guessed, and for
// all weights a line for each policy.
func (r *Report) WriteTable(w io.Writer) error {
	return simulator.WriteTable(w, func(t io.Writer) {
		fmt.Fprintf(t, "%s: %s\n", r.Scenario, r.About)
		fmt.Fprintf(t, "%d tenants share %d slots of a provider; %s\n\n", len(r.Tenants), r.Slots,
			simulator.SeedsText(r.Seeds))
		r.tableOfTenants(t)
		r.tableOfEstimators(t)
		for i := range r.Comparisons {
			r.tableOfPolicies(t, &r.Comparisons[i])
		}
	})
}

// tableOfTenants says what the calls of each are like.
func (r *Report) tableOfTenants(t io.Writer) {
	fmt.Fprintln(t, "TENANT\tCALLS\tFROM\tMEAN INPUT\tMEAN OUTPUT\tSLOTS NEEDED")
	for i := range r.Tenants {
		x := &r.Tenants[i]
		from := x.Trace
		if from == "" {
			from = "chance"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", x.Name, x.Calls, from, x.Input.Text(1, 0), x.Output.Text(1, 1),
			x.Demand.Text(1, 1))
	}
	fmt.Fprintln(t)
}

// tableOfEstimators says what was reserved too much, and too little.
func (r *Report) tableOfEstimators(w io.Writer) {
	fmt.Fprint(w, "OUTPUT TOKENS RESERVED")
	for i := range r.Tenants {
		fmt.Fprintf(w, "\t%s: OVER\tUNDER", r.Tenants[i].Name)
	}
	fmt.Fprintln(w)
	for i := range r.Estimators {
		e := &r.Estimators[i]
		fmt.Fprint(w, e.Name)
		for _, x := range e.Tenants {
			fmt.Fprintf(w, "\t%s\t%s", x.Over.Text(1, 3), x.Under.Text(1, 3))
		}
		fmt.Fprintln(w)
	}
}

// tableOfPolicies says how evenly was shared at these weights, and how long calls waited.
func (r *Report) tableOfPolicies(w io.Writer, c *Comparison) {
	fmt.Fprintf(w, "\nweights %s\n\n", c.Label)
	fmt.Fprint(w, "POLICY\tSERVICE GAP\tBOUND\tJAIN\tWORST MINUTE")
	for i := range r.Tenants {
		fmt.Fprintf(w, "\t%s: WAIT P50 S\tP99 S", r.Tenants[i].Name)
	}
	fmt.Fprintln(w)
	for i := range c.Policies {
		p := &c.Policies[i]
		bound := "none"
		if p.Bound != nil {
			bound = p.Bound.Text(1, 0)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s", p.Label, p.Gap.Text(1, 0), bound, p.Jain.Text(1, 4), p.Minute.Text(1, 4))
		for _, x := range p.Waits {
			fmt.Fprintf(w, "\t%s\t%s", x.P50.Text(1, 2), x.P99.Text(1, 2))
		}
		fmt.Fprintln(w)
	}
}

// WriteCSV writes one line for each value: scenario, weights (empty for estimators), policy or
// estimator, metric, mean, half of the 95 % interval. Times in seconds, gaps in cost.
func (r *Report) WriteCSV(w io.Writer) error {
	out := simulator.NewLines(w, "scenario", "weights", "policy", "metric")
	line := func(weights, tenant, metric string, v simulator.Value) {
		out.Value(v, r.Scenario, weights, tenant, metric)
	}
	for i := range r.Estimators {
		e := &r.Estimators[i]
		for j, x := range e.Tenants {
			line("", e.Name, "over_reserved."+r.Tenants[j].Name, x.Over)
			line("", e.Name, "under_reserved."+r.Tenants[j].Name, x.Under)
		}
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for j := range c.Policies {
			p := &c.Policies[j]
			line(c.Label, p.Policy, "service_gap", p.Gap)
			if p.Bound != nil {
				line(c.Label, p.Policy, "service_gap_bound", *p.Bound)
			}
			line(c.Label, p.Policy, "jain_index", p.Jain)
			line(c.Label, p.Policy, "jain_index_worst_minute", p.Minute)
			for k, x := range p.Waits {
				line(c.Label, p.Policy, "wait_p50_seconds."+r.Tenants[k].Name, x.P50)
				line(c.Label, p.Policy, "wait_p99_seconds."+r.Tenants[k].Name, x.P99)
			}
		}
	}
	return out.End()
}
