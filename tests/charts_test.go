package tests

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"taskbus/config/formula"
	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/chart"
	"taskbus/coordinator/simulator/pulling"
)

var update = flag.Bool("update", false, "draw the charts of the documentation anew, and write its generated parts")

// pullingRows are the rows of the table of docs/simulator.md: for each controller the means while the number of items
// is kept, and those while items arrive. What an agent holds is its drain time by its capacity.
func pullingRows(r *pulling.Report) (rows []string) {
	kept, arriving := r.Loads[0].Controllers, r.Loads[1].Controllers
	for i := range kept {
		var drain, claimed []string
		for _, a := range kept[i].Agents {
			drain = append(drain, fmt.Sprintf("%.2f", a.Drain.Mean))
			claimed = append(claimed, fmt.Sprintf("%.2f", a.AfterClaim.Mean))
		}
		last := len(r.Agents) - 1
		rows = append(rows, fmt.Sprintf("| %s | %.1f | %s | %s | %.1f %% | %.1f | %.0f | %.0f |", kept[i].Label,
			kept[i].Throughput.Mean, strings.Join(drain, " / "), strings.Join(claimed, " / "), 100*kept[i].Agents[0].Idle.Mean,
			arriving[i].Throughput.Mean, arriving[i].Backlog.Mean, arriving[i].Agents[last].Drain.Mean*r.Agents[last].Capacity))
	}
	return rows
}

// TestChartsAreWhatTheirCommandsDraw runs the commands that docs/simulator.md gives for
// its charts. The same scenario gives the same bytes, so that a chart shows what the
// program does now; so does the table of the agents that pull. `go test ./tests -run Charts -update` draws them anew.
func TestChartsAreWhatTheirCommandsDraw(t *testing.T) {
	const page = "docs/simulator.md"
	commands := regexp.MustCompile(`(?m)^taskbus simulate (\S+) --plot (\S+\.svg)$`).
		FindAllStringSubmatch(projectFile(t, page), -1)
	if len(commands) < 2 {
		t.Fatalf("%s gives %d commands that draw, want two at least", page, len(commands))
	}
	for _, c := range commands {
		t.Run(c[1], func(t *testing.T) {
			scenario, err := simulator.Open(c[1])
			if err != nil {
				t.Fatal(err)
			}
			var drawn bytes.Buffer
			if scenario.Pulling != nil {
				report, err := pulling.Play(t.Context(), scenario, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := chart.DrawPulling(&drawn, report, chart.SVG); err != nil {
					t.Fatal(err)
				}
				for _, row := range pullingRows(report) {
					if !strings.Contains(projectFile(t, page), row) {
						t.Errorf("%s lacks the row that `%s` gives now: %s", page, c[0], row)
					}
				}
			} else {
				report, err := simulator.Play(t.Context(), scenario, simulator.Options{Formula: formula.Compile})
				if err != nil {
					t.Fatal(err)
				}
				if err := chart.Draw(&drawn, report, chart.SVG); err != nil {
					t.Fatal(err)
				}
			}
			if *update {
				if err := os.WriteFile("../"+c[2], drawn.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if projectFile(t, c[2]) != drawn.String() {
				t.Errorf("%s is not what `%s` draws; go test ./tests -run Charts -update draws it anew", c[2], c[0])
			}
		})
	}
}
