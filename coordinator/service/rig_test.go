package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

// rig is a coordinator on a broker in memory, in virtual time, and the means of
// producers, agents and operators to meddle with it.
type rig struct {
	t        *testing.T
	broker   *membus.Broker
	service  *Service
	log      *lockedBuffer
	outside  bus.Session
	others   []bus.Session // of agents
	spoilt   bool          // the test has broken the books on purpose
	stop     context.CancelFunc
	finished chan error
}

// lockedBuffer collects log lines from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fleet is the configuration most tests use: two agents of one slot each, one
// that can do more, and short times.
const fleet = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 1, health_check_interval: 5}
  a2: {capabilities: [go, gpu], max_concurrent_tasks: 1, health_check_interval: 5}
task_routing:
  build: {required_capabilities: [go]}
  train: {required_capabilities: [gpu]}
global_settings: {assignment_timeout_seconds: 30}
`

func parseConfig(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "agents.yaml")
	if err != nil {
		t.Fatalf("configuration of the test: %v", err)
	}
	return c
}

// inRig runs a test in a bubble of virtual time with a coordinator that takes
// tasks.
func inRig(t *testing.T, agentsYAML string, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agentsYAML)
		r.start()
		defer r.close()
		test(r)
	})
}

func newRig(t *testing.T, agentsYAML string) *rig {
	t.Helper()
	r := &rig{t: t, broker: membus.New(), log: &lockedBuffer{}, finished: make(chan error, 1)}
	s, err := New(Options{
		Config: parseConfig(t, agentsYAML), ConfigPath: "agents.yaml", Bus: r.broker,
		Logger: zerolog.New(r.log), Registry: prometheus.NewRegistry(),
		Instance: "taskbus@test", BrokerURL: "mem://", Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	r.service = s
	return r
}

// start runs the coordinator and connects an outside client.
func (r *rig) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.finished <- r.service.Run(ctx) }()
	time.Sleep(journaling.FindsEmpty) // until the end of the journal is found
	synctest.Wait()
	r.connect()
}

func (r *rig) connect() {
	r.t.Helper()
	s, err := r.broker.Open(context.Background(), bus.SessionSpec{
		Name: "outside", Topology: bus.Standard(bus.Off, bus.ProfileQuorum, nil), OnSettled: func(uint64, bus.Outcome) {},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.outside = s
}

// close stops the coordinator and insists that it ends well.
func (r *rig) close() {
	r.stop()
	if err := <-r.finished; err != nil {
		r.t.Errorf("the coordinator ended with %v", err)
	}
	if !r.spoilt {
		r.checkBooks()
	}
	for _, s := range append(r.others, r.outside) {
		if err := s.Close(context.Background()); err != nil {
			r.t.Errorf("closing a session from outside: %v", err)
		}
	}
}

// checkBooks: every delivery has an outcome, and the auditor has never found anything.
func (r *rig) checkBooks() {
	r.t.Helper()
	if found := r.service.observe.Books.Audit(); found != nil {
		r.t.Errorf("not conserved: %+v", found)
	}
	if t, byReason := r.service.observe.Books.Read(), r.service.observe.Counters(0, 0).FailedByReason; t.Held != 0 ||
		t.Outcomes[intake.Failed] != sum(byReason) {
		r.t.Errorf("%s after the end, and failed for these reasons: %v", t, byReason)
	}
	if f := r.service.observe.Audit().Found; f != nil {
		r.t.Errorf("the auditor has found %+v", f)
	}
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// publish sends a body as a producer or agent would and lets it take effect.
func (r *rig) publish(key, body string, properties ...func(*bus.Properties)) {
	r.t.Helper()
	r.send(key, body, properties...)
	r.settle()
}

// send publishes and does not wait for what follows.
func (r *rig) send(key, body string, properties ...func(*bus.Properties)) {
	r.t.Helper()
	p := bus.Publication{Key: key, Body: []byte(body)}
	for _, set := range properties {
		set(&p.Properties)
	}
	if err := r.outside.Publish(p); err != nil {
		r.t.Fatalf("publish to %s: %v", key, err)
	}
}

// settle waits until nothing happens any more but by time, and nothing waits for company
// on its way into the journal: only for that virtual time passes.
func (r *rig) settle() {
	for gathers := true; gathers; {
		synctest.Wait()
		var due time.Time
		gathers = false
		ctx, cancel := context.WithTimeout(context.Background(), journaling.Linger)
		err := r.service.loop.query(ctx, func(time.Time, *engine.Engine) {
			if c := r.service.loop.commits; c != nil {
				due, gathers = c.Due()
			}
		})
		cancel()
		if err != nil {
			return // the coordinator does not run
		}
		time.Sleep(due.Sub(r.service.now()))
	}
}

// task publishes a task.assign of the given type; extra fields begin with a comma.
func (r *rig) task(id, taskType, extra string, properties ...func(*bus.Properties)) {
	r.t.Helper()
	r.publish(bus.QueueAssign, taskBody(id, taskType, extra), properties...)
}

func taskBody(id, taskType, extra string) string {
	return fmt.Sprintf(
		`{"message_type":"task.assign","task_id":%q,"task_type":%q,"payload":{"n":12345678901234567890, "of":%q}%s}`,
		id, taskType, id, extra)
}

// heartbeat reports an agent as ready with so many tasks active of one slot.
func (r *rig) heartbeat(agent string, active int) {
	r.t.Helper()
	r.publish(bus.StreamStatus, fmt.Sprintf(
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0.0,"active_tasks":%d,`+
			`"available_capacity":%d,"timestamp":%q}`,
		agent, active, 1-active, time.Now().Format(time.RFC3339Nano)))
}

// pass lets virtual time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// message is a delivery with its body as a map.
type message struct {
	bus.Delivery
	fields map[string]any
}

func (m message) text(field string) string {
	s, _ := m.fields[field].(string)
	return s
}

// in lists what is ready in a queue, in order.
func (r *rig) in(queue string) []message {
	r.t.Helper()
	var all []message
	for _, d := range r.broker.Messages(queue) {
		m := message{Delivery: d}
		if err := json.Unmarshal(d.Body, &m.fields); err != nil && queue != bus.QueueDead {
			r.t.Errorf("a message in %s is not JSON: %v", queue, err)
		}
		all = append(all, m)
	}
	return all
}

// only insists that a queue holds exactly one message.
func (r *rig) only(queue string) message {
	r.t.Helper()
	all := r.in(queue)
	if len(all) != 1 {
		r.t.Fatalf("%s holds %d messages, want 1; log:\n%s", queue, len(all), r.log)
	}
	return all[0]
}

// empty insists that a queue holds nothing and no consumer holds anything of it.
func (r *rig) empty(queue string) {
	r.t.Helper()
	if n, held := len(r.broker.Messages(queue)), r.broker.Unacked(queue); n != 0 || held != 0 {
		r.t.Errorf("%s: %d ready and %d held, want it empty", queue, n, held)
	}
}

func (r *rig) status() view.Status {
	r.t.Helper()
	st, err := r.service.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

func (r *rig) agent(id string) view.Agent {
	r.t.Helper()
	for _, a := range r.status().Agents {
		if a.ID == id {
			return a
		}
	}
	r.t.Fatalf("no agent %s in /status", id)
	return view.Agent{}
}
