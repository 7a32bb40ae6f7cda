package quotas

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// manyAgents is a file of so many agents in ten groups, and as many more to be registered.
func manyAgents(n int) (file string, more []coordinator.QuotaControl) {
	var b strings.Builder
	b.WriteString("pool:\n  limits: {total_tokens: {amount: 1000000000, per: month}}\ngroups:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  - {id: g%d, weight: %d}\n", i, i+1)
	}
	b.WriteString("agents:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: a%d, group_id: g%d}\n", i, i%10)
		more = append(more, control(coordinator.ControlAgent, fmt.Sprint("r", i), "",
			fmt.Sprintf(`{"group_id": "g%d", "weight": 2}`, i%10)))
	}
	return b.String(), more
}

// BenchmarkRegistration is what it takes to work out the configuration with one registration more,
// where 1,000 agents are in the file.
func BenchmarkRegistration(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			text, more := manyAgents(1000)
			file := NewControlledFile(mustParse(b, text))
			for b.Loop() {
				q, suspended := file.With(more[:n], false)
				if Append(nil, q); len(suspended) > 0 {
					b.Fatal(suspended)
				}
			}
		})
	}
}
