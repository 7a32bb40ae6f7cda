package sim

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
)

// TestSimulatePriorities: a scenario of priorities in an overload has a table of its own kind, of which
// docs/simulator.md shows the first.
func TestSimulatePriorities(t *testing.T) {
	out, stderr := simulated(t, cli.ExitOK, "priorities")
	table, _, _ := strings.Cut(out, "\n% OF STARTS")
	page, err := os.ReadFile("../../../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	if stderr != "" || !strings.Contains(string(page), "```\n"+table+"```") {
		t.Errorf("docs/simulator.md does not show\n%s\non stderr: %q", table, stderr)
	}
	var report struct {
		Orders []struct {
			Order      string
			Priorities []struct{ Priority string }
		}
	}
	out, _ = simulated(t, cli.ExitOK, "priorities", "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Orders) != 4 ||
		report.Orders[0].Order != "weighted" || report.Orders[0].Priorities[0].Priority != "critical" {
		t.Errorf("JSON: %v, %+v", err, report)
	}
	out, _ = simulated(t, cli.ExitOK, "priorities", "-o", "csv")
	// 4 orders × 4 priorities × 3 values, and the header.
	if lines, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(lines) != 4*4*3+1 {
		t.Errorf("CSV: %v, %d lines", err, len(lines))
	}
	for _, flags := range [][]string{{"priorities", "--timing"}, {"priorities", "--plot", "x.svg"}} {
		if _, stderr := simulated(t, cli.ExitUsage, flags...); !strings.Contains(stderr,
			"--timing and --plot are for scenarios with agents") {
			t.Errorf("%v: stderr %q", flags, stderr)
		}
	}
}
