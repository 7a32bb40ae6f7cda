package main

import (
	"encoding/json"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		golden string
		args   []string
		code   int
	}{
		{"check-agents.txt", []string{"testdata/agents.yaml"}, exitOK},
		{"check-agents.json", []string{"testdata/agents.yaml", "-o", "json"}, exitOK},
		// Warnings do not fail: they are allowed.
		{"check-doubtful.txt", []string{"testdata/doubtful.yaml"}, exitOK},
		{"check-discovery.txt", []string{"testdata/discovery.yaml"}, exitOK},
		{"check-discovery.json", []string{"testdata/discovery.yaml", "-o", "json"}, exitOK},
		{"check-empty.txt", []string{"testdata/empty.yaml"}, exitOK},
		{"check-faulty.txt", []string{"testdata/faulty.yaml"}, exitFailed},
		{"check-faulty.json", []string{"testdata/faulty.yaml", "-o", "json"}, exitFailed},
		// One bad file among several spoils the lot, and all are shown.
		{"check-several.txt", []string{"testdata/empty.yaml", "testdata/faulty.yaml"}, exitFailed},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			// The environment of the check does not matter.
			r.env["ASSIGNMENT_STRATEGY"], r.env["RABBITMQ_URL"] = "nonsense", "nonsense"
			if code := r.run(t, append([]string{"check"}, tc.args...)...); code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.err.String())
			}
			golden(t, tc.golden, r.out.String())
		})
	}
}

func TestCheckSchema(t *testing.T) {
	r := newRig()
	if code := r.run(t, "check", "--schema"); code != exitOK || !json.Valid([]byte(r.out.String())) {
		t.Errorf("exit code %d, output is JSON: %v", code, json.Valid([]byte(r.out.String())))
	}
}
