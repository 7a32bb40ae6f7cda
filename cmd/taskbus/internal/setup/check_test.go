package setup

import (
	"encoding/json"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/tests/support/clitest"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   []string
		code   int
	}{
		{"check-agents.txt", []string{"testdata/agents.yaml"}, cli.ExitOK},
		{"check-agents.json", []string{"testdata/agents.yaml", "-o", "json"}, cli.ExitOK},
		// Warnings do not fail: they are allowed.
		{"check-doubtful.txt", []string{"testdata/doubtful.yaml"}, cli.ExitOK},
		{"check-discovery.txt", []string{"testdata/discovery.yaml"}, cli.ExitOK},
		{"check-discovery.json", []string{"testdata/discovery.yaml", "-o", "json"}, cli.ExitOK},
		{"check-empty.txt", []string{"testdata/empty.yaml"}, cli.ExitOK},
		{"check-faulty.txt", []string{"testdata/faulty.yaml"}, cli.ExitFailed},
		{"check-faulty.json", []string{"testdata/faulty.yaml", "-o", "json"}, cli.ExitFailed},
		// One bad file among several spoils the lot, and all are shown.
		{"check-several.txt", []string{"testdata/empty.yaml", "testdata/faulty.yaml"}, cli.ExitFailed},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			// The environment of the check does not matter.
			r.Env["ASSIGNMENT_STRATEGY"], r.Env["RABBITMQ_URL"] = "nonsense", "nonsense"
			if code := r.Run(t, append([]string{"check"}, tc.args...)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.Err.String())
			}
			clitest.Golden(t, tc.golden, r.Out.String())
		})
	}
}

func TestCheckSchema(t *testing.T) {
	r := newRig()
	if code := r.Run(t, "check", "--schema"); code != cli.ExitOK || !json.Valid([]byte(r.Out.String())) {
		t.Errorf("exit code %d, output is JSON: %v", code, json.Valid([]byte(r.Out.String())))
	}
}
