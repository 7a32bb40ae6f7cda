package fairshare

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// One agent alone does not decide for all how well a provider answers: by its words in a row success
// falls by half at most, and latency changes by a factor of two at most. A second one, or a gateway,
// counts in full.
func TestOneAgentsWordOfAnswers(t *testing.T) {
	const good, bad = false, true
	type said struct {
		by     coordinator.AgentID // empty: a gateway
		times  int
		failed bool
		took   time.Duration
	}
	for _, c := range []struct {
		name    string
		said    []said
		success int64 // at least, per million
		below   int64
		latency time.Duration // 0: it does not matter
	}{
		{"sixteen failures by one agent", []said{{"x", 16, bad, 0}}, 500_000, 500_001, 0},
		{"after a good past", []said{{"", 16, good, 0}, {"x", 100, bad, 0}}, 500_000, 500_001, 0},
		{"a gateway", []said{{"", 16, bad, 0}}, 0, 1, 0},
		{"a second agent goes on from there, to half of it again", []said{{"x", 16, bad, 0}, {"y", 16, bad, 0}}, 250_000,
			250_001, 0},
		{"two in turn", []said{{"x", 16, bad, 0}, {"y", 1, bad, 0}, {"x", 16, bad, 0}, {"y", 1, bad, 0}, {"x", 16, bad, 0}},
			0, 130_000, 0},
		// 500,000, then 16 times a sixteenth of what lacks: 1 − 0.5·(15/16)¹⁶ = 0.82.
		{"others say that it answers", []said{{"x", 16, bad, 0}, {"", 16, good, 0}}, 820_000, 825_000, 0},
		{"the first agent's latency counts", []said{{"x", 1, good, time.Second}}, 1_000_000, 1_000_001, time.Second},
		{"a lie of a nanosecond, after others", []said{{"", 16, good, time.Second}, {"x", 100, good, 1}}, 1_000_000,
			1_000_001, 500 * time.Millisecond},
		{"and one of an hour", []said{{"", 16, good, time.Second}, {"x", 100, good, time.Hour}}, 1_000_000, 1_000_001,
			2 * time.Second},
		// The second one is not held to a lie that came first: after one of each, (1 ns + 2 s) / 2.
		{"the first one lies", []said{{"x", 1, good, 1}, {"y", 1, good, 2 * time.Second}}, 1_000_000, 1_000_001, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTree()
			tr.Nodes[0].Provider = "lab"
			l, charge := tr.ledger(), &Charge{Provider: "lab"}
			for _, s := range c.said {
				for range s.times {
					l.Observe(charge, s.failed, s.took, s.by)
				}
			}
			h := l.HealthOf(charge)
			if h.Success < c.success || h.Success >= c.below {
				t.Errorf("success %d, want %d to %d", h.Success, c.success, c.below-1)
			}
			if c.latency != 0 && (h.Latency < c.latency-time.Millisecond || h.Latency > c.latency+time.Millisecond) {
				t.Errorf("latency %v, want %v", h.Latency, c.latency)
			}
			// A ledger from a snapshot knows the same, and is given the same next.
			heir := tr.ledger()
			for _, r := range l.Export(epoch) {
				heir.Fold(r)
			}
			last := c.said[len(c.said)-1].by
			for range 40 {
				l.Observe(charge, true, 0, last)
				heir.Observe(charge, true, 0, last)
			}
			if a, b := l.HealthOf(charge), heir.HealthOf(charge); a != b {
				t.Errorf("from a snapshot %+v, want %+v", b, a)
			}
		})
	}
}
