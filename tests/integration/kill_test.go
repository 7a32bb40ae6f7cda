package integration

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/view"
)

// crowd is a fleet of four quick agents with many slots.
const crowd = `
agents:
  a1: {capabilities: [code], max_concurrent_tasks: 400, health_check_interval: 1}
  a2: {capabilities: [code], max_concurrent_tasks: 400, health_check_interval: 1}
  a3: {capabilities: [code], max_concurrent_tasks: 400, health_check_interval: 1}
  a4: {capabilities: [code], max_concurrent_tasks: 400, health_check_interval: 1}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  max_queue_size: 100000
  stale_agent_threshold_seconds: 60
`

// workCrowd starts the four agents; their queues must exist.
func (r *rig) workCrowd(l *ledger) {
	r.t.Helper()
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		r.work(l, id, 400)
	}
}

// stream offers n tasks in portions, so that they are on their way throughout,
// and returns a channel that closes after the last, or when the broker is lost.
func (r *rig) stream(l *ledger, name string, n int) <-chan struct{} {
	r.t.Helper()
	const portion = 100
	producer := connect(r.t, r.broker)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < n; i += portion {
			tasks := make([]request, min(portion, n-i))
			for j := range tasks {
				tasks[j] = task(fmt.Sprintf("%s-%d", name, i+j), "build")
			}
			if l.offer(producer, tasks...) == 0 {
				return
			}
		}
	}()
	return done
}

// flow offers tasks until it is told to stop, or the broker is lost: never more than ahead
// of what has come out. So there are some on their way throughout, on a machine of any
// speed, and no more of them than the test needs. A portion of a hundred comes at most so
// often. ended is closed at its end.
func (r *rig) flow(l *ledger, name string, ahead int, every time.Duration) (stop func(), ended <-chan struct{}) {
	r.t.Helper()
	const portion = 100
	producer := connect(r.t, r.broker)
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pause := time.NewTicker(every)
		defer pause.Stop()
		for i := 0; ; {
			select {
			case <-enough:
				return
			case <-pause.C:
			}
			if producer.conn.IsClosed() {
				return
			}
			if l.open() > ahead-portion {
				continue
			}
			tasks := make([]request, portion)
			for j := range tasks {
				tasks[j] = task(fmt.Sprintf("%s-%d", name, i), "build")
				i++
			}
			if l.offer(producer, tasks...) == 0 {
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(enough); <-done }), done
}

// open counts the tasks that have not come out.
func (l *ledger) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.offered) - len(l.dispatched)
}

// SIGKILL in the middle of a stream of tasks, again and again: nothing is lost,
// and every copy is marked.
func TestSIGKILLLosesNothing(t *testing.T) {
	t.Parallel()
	const ahead, kills = 2_000, 5
	r := newRig(t, crowd)
	c := r.start()
	l := newLedger()
	r.workCrowd(l)
	stop, _ := r.flow(l, "t", ahead, 5*time.Millisecond)
	for i := range kills {
		// Each time while some are out and many are not.
		c.awaitStatus("it is in full swing", func(s view.Status) bool { return s.Counters.Dispatched > 500 })
		if l.open() == 0 {
			t.Fatalf("nothing was on its way at kill %d", i+1)
		}
		c.kill()
		c = r.start()
	}
	stop()
	l.drained(t, 2*time.Minute)
	r.empty("agent.a1", "agent.a2", "agent.a3", "agent.a4")
	r.finish(c)
	duplicated, _ := r.balance(l)
	// At most what was in flight can be doubled by a kill: the publish window.
	if most := kills * 4000; duplicated > most {
		t.Errorf("%d duplicates for %d kills, want at most %d", duplicated, kills, most)
	}
	for id, all := range l.dispatched {
		if len(all) > 1+kills {
			t.Errorf("%s: %d copies by %d kills", id, len(all), kills)
		}
	}
	t.Logf("%d tasks, %d kills: lost 0, duplicated %d, all marked", len(l.offered), kills, duplicated)
}

func TestSIGTERMInMidStreamSettlesAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	const ahead = 2_000
	r := newRig(t, crowd)
	c := r.start()
	l := newLedger()
	r.workCrowd(l)
	stop, _ := r.flow(l, "t", ahead, 5*time.Millisecond)
	for i := range 2 {
		c.awaitStatus("it is in full swing", func(s view.Status) bool { return s.Counters.Dispatched > 100 })
		if l.open() == 0 {
			t.Fatalf("nothing was on its way at stop %d", i+1)
		}
		begun := time.Now()
		if code := c.end(syscall.SIGTERM); code != 0 {
			t.Fatalf("exit code %d, want 0", code)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("the drain took %v, more than shutdown_grace_seconds", took)
		}
		c = r.start()
	}
	stop()
	l.drained(t, 60*time.Second)
	r.finish(c)
	// No fault, no duplicate: what was in flight was settled before the end (S4).
	if duplicated, recovered := r.balance(l); duplicated != 0 || recovered != 0 {
		t.Errorf("%d duplicates, %d recovered after orderly stops, want none", duplicated, recovered)
	}
}

// A stream without any fault: exactly one dispatch for each task (S4, S13), and
// the counters of /status add up (S14).
func TestUndisturbedStreamHasNoDuplicates(t *testing.T) {
	t.Parallel()
	const tasks = 3_000
	r := newRig(t, crowd)
	c := r.start()
	l := newLedger()
	r.workCrowd(l)
	<-r.stream(l, "t", tasks)
	l.drained(t, 30*time.Second)
	if duplicated, recovered := r.balance(l); duplicated != 0 || recovered != 0 {
		t.Errorf("%d duplicates, %d recovered", duplicated, recovered)
	}
	for id, all := range l.dispatched {
		if all[0].marked || attemptID(all[0].dispatchID) != id+".1" {
			t.Errorf("%s: %+v", id, all[0])
		}
	}
	c.awaitStatus("received = dispatched + failed + duplicates + pending", func(s view.Status) bool {
		n := s.Counters
		return n.Received == tasks && n.Dispatched == tasks && n.Failed == 0 && n.Duplicates == 0 && s.Pending.Total == 0
	})
	r.finish(c)
}
