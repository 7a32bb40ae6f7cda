package tests

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"

	"taskbus/config/formula"
	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/chart"
	"taskbus/coordinator/simulator/pulling"
)

var update = flag.Bool("update", false, "draw the charts of the documentation anew")

// TestChartsAreWhatTheirCommandsDraw runs the commands that docs/simulator.md gives for
// its charts. The same scenario gives the same bytes, so that a chart shows what the
// program does now. `go test ./tests -run Charts -update` draws them anew.
func TestChartsAreWhatTheirCommandsDraw(t *testing.T) {
	const page = "docs/simulator.md"
	commands := regexp.MustCompile(`(?m)^taskbus simulate (\S+) --plot (\S+\.svg)$`).FindAllStringSubmatch(projectFile(t, page), -1)
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
