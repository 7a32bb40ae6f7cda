package formula

import (
	"testing"

	"taskbus/coordinator"
)

// BenchmarkScore is one evaluation of the formulas of docs/reference/strategies.md.
func BenchmarkScore(b *testing.B) {
	for name, text := range map[string]string{
		"adr018": "success_rate / (1 + load)",
		"sum":    "2 * success + free + 0.5 * fit + speed",
		"labels": "has(labels.zone) && labels.zone == task_labels.zone ? success_rate : 0.5 * success_rate",
	} {
		b.Run(name, func(b *testing.B) {
			score, err := Compile(text)
			if err != nil {
				b.Fatal(err)
			}
			c := &coordinator.Case{Task: &coordinator.Task{Labels: map[string]string{"zone": "a"}}, Required: 1, Reference: 10}
			a := &coordinator.AgentView{Load: 0.4, Max: 5, Free: 3, Capabilities: 2, Labels: map[string]string{"zone": "a"}}
			s := &coordinator.Standing{Success: 0.95, Duration: 8}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := score(c, a, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
