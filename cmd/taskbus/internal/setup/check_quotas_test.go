package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/tests/support/clitest"
)

func TestCheckQuotas(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   []string
		code   int
	}{
		// What stands beside agents.yaml is read as well, once.
		{"check-limited.txt", []string{"testdata/limited/agents.yaml"}, cli.ExitOK},
		{"check-limited.txt", []string{"testdata/limited/agents.yaml", "testdata/limited/../limited/quotas.yaml"},
			cli.ExitOK},
		{"check-quotas.json", []string{"testdata/limited/quotas.yaml", "-o", "json"}, cli.ExitOK},
		{"check-quotas-faulty.txt", []string{"testdata/faulty-quotas.yaml"}, cli.ExitFailed},
		{"check-quotas-priceless.txt", []string{"testdata/priceless-quotas.yaml"}, cli.ExitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.Env["TASKBUS_QUOTAS"] = "nonsense" // the environment of the check does not matter
			if code := r.Run(t, append([]string{"check"}, tc.args...)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.Err.String())
			}
			clitest.Golden(t, tc.golden, strings.ReplaceAll(r.Out.String(), "limited/../limited", "limited"))
		})
	}
}

// The version that check shows is the one that the coordinator will have.
func TestCheckShowsTheCoordinatorsVersion(t *testing.T) {
	cfg, err := config.LoadWithQuotas("testdata/limited/agents.yaml", "testdata/limited/quotas.yaml", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig()
	if code := r.Run(t, "check", "testdata/limited/agents.yaml"); code != cli.ExitOK ||
		!strings.Contains(r.Out.String(), cfg.Policy().Version) {
		t.Errorf("exit code %d, want version %s in:\n%s", code, cfg.Policy().Version, r.Out.String())
	}
}

func TestCheckQuotasSchema(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []byte // nil: refused
	}{
		{[]string{"--schema", "quotas"}, config.QuotasSchema()},
		{[]string{"--schema", "agents"}, config.Schema()},
		{[]string{"--schema"}, config.Schema()},
		{[]string{"--schema", "groups"}, nil},
		{[]string{"--schema", "quotas", "agents"}, nil},
		{nil, nil},
	} {
		r := newRig()
		code := r.Run(t, append([]string{"check"}, tc.args...)...)
		if want := map[bool]int{true: cli.ExitOK, false: cli.ExitUsage}[tc.want != nil]; code != want ||
			r.Out.String() != string(tc.want) || tc.want != nil && !json.Valid([]byte(r.Out.String())) {
			t.Errorf("%v: exit code %d, want %d; %d bytes, want %d", tc.args, code, want, len(r.Out.String()), len(tc.want))
		}
	}
}

// What a node has for another period stands in its own row, with what it comes to, before its seats.
func TestCheckOfSeveralPeriods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	text := `
pool: {limits: {total_tokens: {amount: 1000, per: month}, concurrency: {amount: 8}}}
groups: [{id: a, limits: {total_tokens: {amount: 50, per: day}, concurrency: {amount: 3}}}, {id: b}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig()
	if code := r.Run(t, "check", file, "-o", "json"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	var got struct {
		Files []struct {
			Quotas struct {
				Nodes []struct {
					ID           string
					Limits, Gets []string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(r.Out.String()), &got); err != nil || len(got.Files) != 1 {
		t.Fatalf("%v: %s", err, r.Out.String())
	}
	for _, n := range got.Files[0].Quotas.Nodes {
		if n.ID != "pool/a" {
			continue
		}
		// 50 a day, half of the month's 1,000 by weight beside it, and 3 of the seats.
		if want := []string{"50", "500", "3"}; len(n.Limits) != 3 || !slices.Equal(n.Gets, want) {
			t.Errorf("%q come to %q, want %q", n.Limits, n.Gets, want)
		}
		return
	}
	t.Error("pool/a is not listed")
}
