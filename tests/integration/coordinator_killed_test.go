package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// SIGKILL of the coordinator, at random moments, while agents refuse a stream of
// tasks: what is on its way from task.reassign to the next agent is not lost.
func TestCoordinatorKilledWhileWorkComesBack(t *testing.T) {
	t.Parallel()
	// Each coordinator may send a hundred again at once (the retry budget), and ten a
	// second after that: seven of them do not get through all.
	const tasks, kills = 900, 6
	r := newRig(t, replaced(t, crowd, "assignment_timeout_seconds: 60",
		"assignment_timeout_seconds: 60\n  max_retry_attempts: 10"))
	c := r.start()
	l := newLedger()
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		h := r.hand(id, 400)
		refused := 0
		h.serve(l, func(d dispatch) error {
			if d.Attempt == 1 {
				refused++
				return d.amqp.Reject(false)
			}
			return d.amqp.Ack(false)
		})
		h.beats(func() heartbeat { return beat(id, 0, 400) })
	}
	sent := r.stream(l, "t", tasks)
	moments := rand.New(rand.NewPCG(1, 2))
	secondTime := func() (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, all := range l.dispatched {
			if slices.ContainsFunc(all, func(o outcome) bool {
				return attemptID(o.dispatchID) != id+".1" ||
					o.dispatchID != all[0].dispatchID
			}) {
				n++
			}
		}
		return n
	}
	for i := range kills {
		// Each time after some more have gone out again, and while others are coming back.
		goal := (i+1)*tasks/(2*kills) + moments.IntN(tasks/(4*kills))
		eventually(t, 60*time.Second, "more work has come back and gone out again", func() (bool, string) {
			n := secondTime()
			return n >= goal, fmt.Sprintf("%d of %d", n, goal)
		})
		if n := secondTime(); n == tasks {
			t.Fatalf("all had gone out again before kill %d: too few tasks for this machine", i+1)
		}
		c.kill()
		c = r.start()
	}
	<-sent
	eventually(t, 60*time.Second, "every task goes out a second time", func() (bool, string) {
		n := secondTime()
		return n == tasks, fmt.Sprintf("%d of %d", n, tasks)
	})
	c.awaitStatus("nothing waits", func(s view.Status) bool {
		return s.Pending.Total == 0 &&
			s.Pending.Dispatching == 0
	})
	r.empty("agent.a1", "agent.a2", "agent.a3", "agent.a4")
	r.finish(c)
	r.balanceReturned(l, kills)
}

// balanceReturned is balance for tasks that were refused once: two attempts each,
// on different agents, and beyond that no more copies than kills, all marked.
func (r *rig) balanceReturned(l *ledger, kills int) {
	t := r.t
	t.Helper()
	r.empty("assignment.failed", "task.dead")
	l.mu.Lock()
	defer l.mu.Unlock()
	extra := 0
	for id := range l.acknowledged {
		byAgent, unmarked := map[string]int{}, 0
		for _, o := range l.dispatched[id] {
			if o.payload != l.offered[id] {
				t.Errorf("%s: %s got another payload than was sent", id, o.agent)
			}
			if !o.marked {
				unmarked++
			}
			byAgent[o.agent]++
		}
		copies := len(l.dispatched[id]) - 2
		if copies < 0 || len(byAgent) < 2 {
			t.Errorf("lost: %s: %+v", id, l.dispatched[id])
		}
		if copies > kills || unmarked > 2 {
			t.Errorf("%s: %d copies, %d unmarked: %+v", id, len(l.dispatched[id]), unmarked, l.dispatched[id])
		}
		extra += max(0, copies)
	}
	t.Logf("%d tasks refused once, %d kills: lost 0, %d copies, all marked", len(l.acknowledged), kills, extra)
}
