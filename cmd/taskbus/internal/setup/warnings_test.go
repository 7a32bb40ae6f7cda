package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
)

// An auction takes at most half of the time that a task may wait for an agent.
func TestMarketWithTooLittleTime(t *testing.T) {
	for _, tt := range []struct {
		name          string
		window, least int    // ms
		waits         int    // s
		want          string // the warning about auctions; empty: none
	}{
		{"half of 30 s is 15 s", 15_000, 100, 30, ""},
		{"a millisecond more", 15_001, 100, 30,
			"market may have to cut auctions short: bid_window_ms is 15001, more than half of the 30 s that a task may wait " +
				"(assignment_timeout_seconds); set it to at most 15000"},
		{"the least window is half of 1 s", 500, 500, 1, ""},
		{"the least window does not fit", 800, 501, 1,
			"market will hold no auctions: min_bid_window_ms is 501, more than half of the 1 s that a task may wait " +
				"(assignment_timeout_seconds); set it to at most 500"},
		{"no task waits", 500, 100, 0,
			"market will hold no auctions: with assignment_timeout_seconds: 0 no task waits for bids"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "agents.yaml")
			text := fmt.Sprintf(
				"agents:\n  a1: {max_concurrent_tasks: 1}\nassignment_strategies:\n  load_balanced:\n  market: {default: true, "+
					"bid_window_ms: %d, min_bid_window_ms: %d}\n"+
					"global_settings: {assignment_timeout_seconds: %d}\n", tt.window, tt.least, tt.waits)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig()
			if code := r.Run(t, "check", file); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, r.Out.String())
			}
			out := r.Out.String()
			if strings.Contains(out, "auctions") != (tt.want != "") || !strings.Contains(out, tt.want+"\n") {
				t.Errorf("it says\n%s\nwant the warning %q", out, tt.want)
			}
		})
	}
}

// What counts otherwise than it is written is said before the coordinator runs by it.
func TestWaitingTimeThatDoesNotCount(t *testing.T) {
	const capped = "assignment_timeout_seconds: 3600 counts as 1680, because without lanes"
	for _, tt := range []struct {
		name, file, quotas string
		want               []string // parts of warnings; nothing else may speak of lanes
	}{
		{"without lanes", "global_settings: {assignment_timeout_seconds: 3600, lanes: false}\n", "", []string{capped}},
		// 1800 s − 120 s
		{"what is held anyway", "global_settings: {assignment_timeout_seconds: 1680, lanes: false}\n", "", nil},
		{"with lanes", "global_settings: {assignment_timeout_seconds: 3600}\n", "", nil},
		{"with lanes that are off",
			"global_settings: {assignment_timeout_seconds: 3600, lanes: [a]}\njournal: {enabled: false}\n", "",
			[]string{"lanes are off: the journal", capped}},
		{"with the lanes of quotas.yaml", "global_settings: {assignment_timeout_seconds: 3600}\n", "groups: [{id: a}]\n",
			nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "agents.yaml")
			if err := os.WriteFile(file, []byte("agents:\n  a1: {max_concurrent_tasks: 1}\n"+tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.quotas != "" {
				if err := os.WriteFile(filepath.Join(dir, "quotas.yaml"), []byte(tt.quotas), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := newRig()
			if code := r.Run(t, "check", file); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, r.Out.String())
			}
			var found []string
			for line := range strings.Lines(r.Out.String()) {
				if strings.HasPrefix(line, "warning: ") && strings.Contains(line, "lanes") {
					found = append(found, line)
				}
			}
			if len(found) != len(tt.want) {
				t.Fatalf("warnings %q, want %q", found, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(found[i], want) {
					t.Errorf("warning %q, want %q", found[i], want)
				}
			}
		})
	}
}
