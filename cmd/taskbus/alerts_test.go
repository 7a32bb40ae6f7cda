package main

import (
	"strings"
	"syscall"
	"testing"

	"taskbus/cmd/taskbus/cli"
)

// A webhook that would never work is refused before anything runs, without its URL.
func TestServeRefusesAWebhook(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"unsigned": {map[string]string{"TASKBUS_WEBHOOK_URL": "https://hooks.example/hidden"},
			"TASKBUS_WEBHOOK_SECRET: is missing"},
		"no URL": {map[string]string{"TASKBUS_WEBHOOK_URL": "hidden", "TASKBUS_WEBHOOK_FORMAT": "slack"},
			"TASKBUS_WEBHOOK_URL: must be an http:// or https:// URL"},
		"no secret": {map[string]string{"TASKBUS_WEBHOOK_URL": "https://hooks.example/hidden",
			"TASKBUS_WEBHOOK_SECRET": "hidden"}, "does not begin with whsec_"},
		"without an address": {map[string]string{"TASKBUS_WEBHOOK_FORMAT": "slack"},
			"TASKBUS_WEBHOOK_FORMAT: is set, but nothing is sent"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			for k, v := range c.env {
				r.Env[k] = v
			}
			code := r.Run(t, "serve", "--config", "internal/setup/testdata/agents.yaml", "--http", "127.0.0.1:0")
			if said := r.Err.String(); code != cli.ExitConfig || !strings.Contains(said, c.want) ||
				strings.Contains(said, "hidden") {
				t.Errorf("exit code %d: %s", code, said)
			}
		})
	}
}

// With one that is in order it starts, and logs where it sends.
func TestServeWithAWebhook(t *testing.T) {
	r := newRig()
	r.Env["TASKBUS_WEBHOOK_URL"], r.Env["TASKBUS_WEBHOOK_FORMAT"] = "https://hooks.example/hidden", "slack"
	s := startServe(t, r)
	s.until(t, "the line of the webhook", func() bool {
		return strings.Contains(s.Err.String(), `"host":"hooks.example","slack":true,"keys":0`)
	})
	s.Signals <- syscall.SIGTERM
	if code := <-s.exit; code != cli.ExitOK || strings.Contains(s.Err.String(), "hidden") {
		t.Errorf("exit code %d; log:\n%s", code, s.Err.String())
	}
}
