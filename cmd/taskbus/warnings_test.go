package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"a millisecond more", 15_001, 100, 30, "market may have to cut auctions short: bid_window_ms is 15001, more than half of the 30 s that a task may wait (assignment_timeout_seconds); set it to at most 15000"},
		{"the least window is half of 1 s", 500, 500, 1, ""},
		{"the least window does not fit", 800, 501, 1, "market will hold no auctions: min_bid_window_ms is 501, more than half of the 1 s that a task may wait (assignment_timeout_seconds); set it to at most 500"},
		{"no task waits", 500, 100, 0, "market will hold no auctions: with assignment_timeout_seconds: 0 no task waits for bids"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "agents.yaml")
			text := fmt.Sprintf("agents:\n  a1: {max_concurrent_tasks: 1}\nassignment_strategies:\n  load_balanced:\n  market: {default: true, bid_window_ms: %d, min_bid_window_ms: %d}\n"+
				"global_settings: {assignment_timeout_seconds: %d}\n", tt.window, tt.least, tt.waits)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig()
			if code := r.run(t, "check", file); code != exitOK {
				t.Fatalf("exit code %d: %s", code, r.out.String())
			}
			out := r.out.String()
			if strings.Contains(out, "auctions") != (tt.want != "") || !strings.Contains(out, tt.want+"\n") {
				t.Errorf("it says\n%s\nwant the warning %q", out, tt.want)
			}
		})
	}
}
