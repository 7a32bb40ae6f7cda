package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/brokertest"
)

// patience is how long anything may take that should happen at once: the machine
// may be busy with other tests.
const patience = 60 * time.Second

// fleet is the agents.yaml of most tests: two writers of code that differ in rank
// and slots, one of them with a GPU, and none that speaks French. Reports are
// promised every second, so that the start-up grace is over after one.
const fleet = `
agents:
  a1: {capabilities: [code, go], max_concurrent_tasks: 2, priority: 1, health_check_interval: 1}
  a2: {capabilities: [code, gpu], max_concurrent_tasks: 3, priority: 2, health_check_interval: 1}
task_routing:
  build: {required_capabilities: [code]}
  train: {required_capabilities: [gpu]}
  translate: {required_capabilities: [french]}
global_settings:
  assignment_timeout_seconds: 1
  stale_agent_threshold_seconds: 60
`

// rig is one virtual host of a real broker with a configuration file. What a test
// starts in it is stopped, and looked through, when the test ends.
type rig struct {
	t      *testing.T
	broker brokertest.Broker
	config string // path of agents.yaml
	*client
}

// newRig makes a virtual host and writes the configuration.
func newRig(t *testing.T, config string) *rig {
	t.Helper()
	return rigOn(t, brokertest.Vhost(t), config)
}

// rigOn is newRig on a broker that the test has already.
func rigOn(t *testing.T, b brokertest.Broker, config string) *rig {
	t.Helper()
	r := &rig{t: t, broker: b, config: filepath.Join(t.TempDir(), "agents.yaml")}
	r.writeConfig(config)
	r.client = connect(t, b)
	return r
}

// on is the same rig for a part of the test, with a connection of its own.
func (r *rig) on(t *testing.T) *rig {
	t.Helper()
	return &rig{t: t, broker: r.broker, config: r.config, client: connect(t, r.broker)}
}

// writeConfig replaces agents.yaml in one step, as careful tools do.
func (r *rig) writeConfig(content string) {
	r.t.Helper()
	next := r.config + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(next, r.config); err != nil {
		r.t.Fatal(err)
	}
}

// eventually looks until the condition holds: at first every few milliseconds, then less
// and less often, since looking costs more than waiting. It fails the test with what was
// seen last when that takes too long.
func eventually(t testing.TB, within time.Duration, what string, holds func() (ok bool, seen string)) {
	t.Helper()
	const rarest = 100 * time.Millisecond
	late, next := time.Now().Add(within), 5*time.Millisecond
	for {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("not within %v: %s; last seen: %s", within, what, seen)
		}
		<-time.After(next)
		next = min(next*3/2, rarest)
	}
}

// ready counts what is ready in a queue.
func (r *rig) ready(queue string) int {
	r.t.Helper()
	return r.broker.Ready(r.t, queue)
}

// holds waits until exactly n messages are ready in the queue.
func (r *rig) holds(queue string, n int) {
	r.t.Helper()
	eventually(r.t, patience, queue+" holds the right number of messages", func() (bool, string) {
		got := r.ready(queue)
		return got == n, plural(got, "message") + ", want " + plural(n, "message")
	})
}

// empty waits until nothing is ready in the queues.
func (r *rig) empty(queues ...string) {
	r.t.Helper()
	for _, q := range queues {
		r.holds(q, 0)
	}
}

// finish stops the coordinator and asserts that it leaves nothing behind: what it
// held unacknowledged would be ready again.
func (r *rig) finish(c *process) {
	r.t.Helper()
	c.stop()
	r.empty(bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign)
}

// dispatches takes the next n dispatches off an agent's queue, waiting for them if
// need be: without a consumer, as agents do that fetch their messages one by one. One
// that consumed for a moment would be missed as soon as the coordinator had seen it:
// it looks once a second at the queues that have work.
func (r *rig) dispatches(agent string, n int) []dispatch {
	r.t.Helper()
	all := make([]dispatch, n)
	for i := range all {
		all[i] = readDispatch(r.t, receive(r.t, r.client, "agent."+agent))
	}
	return all
}

// failures takes exactly n messages off assignment.failed.
func (r *rig) failures(n int) []failure {
	r.t.Helper()
	var all []failure
	for _, d := range r.broker.Get(r.t, bus.QueueFailed, n) {
		all = append(all, readFailure(r.t, d))
	}
	return all
}

// newDecoder reads what the coordinator publishes, by the published schemas.
func newDecoder(t testing.TB) *messages.Decoder {
	t.Helper()
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return messages.NewDecoder(set, messages.Limits{})
}

// replaced is the text with old, which must be in it, replaced by new.
func replaced(t testing.TB, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("%q is not in the text", old)
	}
	return strings.Replace(text, old, new, 1)
}

// literally has tasks wait for assignment_timeout_seconds, whatever moves.
func literally(t testing.TB, config string) string {
	t.Helper()
	return replaced(t, config, "global_settings:\n", "global_settings:\n  assignment_timeout_counts: waiting\n")
}
