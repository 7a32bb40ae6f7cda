package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkWaitingClaims is one task that comes while 10,000 agents wait for work, and its end; the agent that
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

// passedOver is a fleet of 100 that claim a task after n others have asked that can do nothing of what
// comes, or have enough already.
func passedOver(t testing.TB, n int, busy bool) *rig {
	agents := make([]*specBuilder, 0, n+100)
	for i := range n + 100 {
		id := coordinator.AgentID(fmt.Sprint("a", i))
		agents = append(agents, worker(id).slots(4).can("go").pulls(coordinator.PullShared))
		if i < n && !busy {
			agents[i].can("other")
		}
	}
	r := ready(t, policyOf(agents...).route("any", "go"))
	for i := range agents {
		c := claim(agents[i].ID, 1).rate(1).waits(time.Hour)
		if i < n && busy {
			c.Pending = 3
		}
		r.claim(c)
	}
	return r
}

// BenchmarkClaimsPassedOver is one task, and its end, where 10,000 have asked before that do not get it.
func BenchmarkClaimsPassedOver(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(map[bool]string{false: "unable", true: "enough"}[busy], func(b *testing.B) {
			r := passedOver(b, 10_000, busy)
			b.ResetTimer()
			for i := range b.N {
				id := coordinator.TaskID(fmt.Sprint("t", i))
				d := r.give(job(id))
				r.tell(says(d.Agent, id))
				r.claim(claim(d.Agent, 1).rate(1).waits(time.Hour))
			}
		})
	}
}

// BenchmarkClaimsRunOut is a claim of one of 10,000 that gets nothing in its time.
func BenchmarkClaimsRunOut(b *testing.B) {
	r := passedOver(b, 10_000, true)
	b.ResetTimer()
	for i := range b.N {
		r.claim(claim(coordinator.AgentID(fmt.Sprint("a", i%10_000)), 1).rate(1))
		r.pass(2 * time.Millisecond)
	}
}
