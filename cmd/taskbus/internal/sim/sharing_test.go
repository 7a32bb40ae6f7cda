package sim

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
)

// A scenario of tenants that share a provider has tables of its own kind, and needs no trace.
func TestSimulateSharing(t *testing.T) {
	table, stderr := simulated(t, cli.ExitOK, "sharing", "--traces", t.TempDir())
	for _, want := range []string{"2 tenants share 32 slots of a provider; seed 1", "OUTPUT TOKENS RESERVED", "window p99",
		"weights code 1 : chat 1\n", "weights code 3 : chat 1\n", "request round-robin",
		"reserve input + learnt mean (Taskbus)"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	if stderr != "" {
		t.Errorf("on stderr: %q", stderr)
	}
	// docs/simulator.md shows the policies by the first weights.
	page, err := os.ReadFile("../../../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```\nPOLICY  ")
	shown, _, _ = strings.Cut(shown, "```")
	if shown == "" || !strings.Contains(table, shown) {
		t.Errorf("docs/simulator.md shows\n%s\nwhich is not part of the output:\n%s", shown, table)
	}
	if again, _ := simulated(t, cli.ExitOK, "sharing"); again != table {
		t.Error("the second time the table is different")
	}

	var report struct {
		Slots       int
		Comparisons []struct {
			Weights  []int
			Policies []struct{ Policy string }
		}
	}
	// Weights in the order of the tenants of the scenario, which is code, chat.
	out, _ := simulated(t, cli.ExitOK, "sharing", "-o", "json", "--tenants", "chat:2, code:5", "--slots", "24", "--seeds",
		"2")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Slots != 24 || len(report.Comparisons) != 1 ||
		report.Comparisons[0].Weights[0] != 5 || report.Comparisons[0].Weights[1] != 2 ||
		len(report.Comparisons[0].Policies) != 7 {
		t.Errorf("JSON: %v, %+v", err, report)
	}
	out, _ = simulated(t, cli.ExitOK, "sharing", "-o", "csv")
	// 6 estimators × 2 tenants × 2 values; 2 weights × (7 policies × (3 values and 2 of each
	// of 2 tenants), and the bound of 5 of them); and the header.
	if lines, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(lines) != 6*2*2+2*(7*(3+2*2)+5)+1 {
		t.Errorf("CSV: %v, %d lines", err, len(lines))
	}
}

func TestSimulateSharingRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no such tenant", []string{"sharing", "--tenants", "chat:1,coda:2"}, cli.ExitUsage,
			`no tenant "coda"; did you mean code?`},
		{"a tenant without weight", []string{"sharing", "--tenants", "chat:1"}, cli.ExitUsage, "gives code no weight"},
		{"twice", []string{"sharing", "--tenants", "chat:1,code:1,chat:2"}, cli.ExitUsage, "gives chat a weight twice"},
		{"weight 0", []string{"sharing", "--tenants", "chat:0,code:1"}, cli.ExitUsage,
			`the weight of chat must be a whole number from 1 to 1000000, not "0"`},
		{"no weight", []string{"sharing", "--tenants", "chat,code:1"}, cli.ExitUsage,
			`the weight of chat must be a whole number from 1 to 1000000, not ""`},
		{"nothing", []string{"sharing", "--tenants", ""}, cli.ExitUsage, "--tenants must give weights"},
		{"no slots", []string{"sharing", "--slots", "0"}, cli.ExitUsage, "--slots must be from 1 to 100000, not 0"},
		{"no tenants share", []string{"herding", "--slots", "3"}, cli.ExitUsage,
			"are for scenarios with tenants that share a provider"},
		{"a chart", []string{"sharing", "--plot", "x.svg"}, cli.ExitUsage, "there is no chart"},
		{"timing", []string{"sharing", "--timing"}, cli.ExitUsage, "--timing is for scenarios with strategies"},
		{"absent traces", []string{"sharing-azure", "--traces", t.TempDir()}, cli.ExitFailed,
			"AzureLLMInferenceTrace_code.csv does not exist; --traces names the folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, stderr := simulated(t, tt.code, tt.args...); !strings.Contains(stderr, tt.want) {
				t.Errorf("stderr does not say %q:\n%s", tt.want, stderr)
			}
		})
	}
}
