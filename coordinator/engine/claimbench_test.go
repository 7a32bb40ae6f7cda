package engine

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkWaitingClaims is one task that comes while 10,000 agents wait for work, and its end; whoever
// has had it claims again.
func BenchmarkWaitingClaims(b *testing.B) {
	const n = 10_000
	agents := make([]*specBuilder, n)
	for i := range agents {
		agents[i] = worker(coordinator.AgentID(fmt.Sprint("a", i))).slots(4).pulls(coordinator.PullShared)
	}
	r := ready(b, policyOf(agents...))
	for i := range agents {
		r.claim(claim(coordinator.AgentID(fmt.Sprint("a", i)), 1).rate(1).waits(time.Hour))
	}
	b.ResetTimer()
	for i := range b.N {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		d := r.give(job(id))
		r.tell(says(d.Agent, id))
		r.claim(claim(d.Agent, 1).rate(1).waits(time.Hour))
	}
}
