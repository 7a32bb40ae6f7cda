package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
)

// subject is a process under test, connected and idle.
type subject struct {
	process  *process
	statuses *statuses  // nil where nobody speaks for the fleet: for the relay, and with agents of their own
	others   []*process // that end with it, and before it
	http     string     // base URL; empty for the relay
	begun    time.Time  // just before its process was started; zero for the relay
}

// stop ends it in order.
func (s *subject) stop() error {
	var errs []error
	if s.statuses != nil {
		errs = append(errs, s.statuses.process.stop())
	}
	for _, p := range s.others {
		errs = append(errs, p.stop())
	}
	return errors.Join(s.process.stop(), errors.Join(errs...))
}

// with starts this program again in a role of its own, which ends with s.
func (s *subject) with(ctx context.Context, b *bench, role string, args ...string) (*process, error) {
	p, err := b.startRole(ctx, role, args...)
	if err == nil {
		s.others = append(s.others, p)
	}
	return p, err
}

// freeze stops it with those that work with it, or what these ask for meanwhile would come
// all at once. They must not be frozen for as long as their heartbeats to the broker last.
func (s *subject) freeze() error {
	for _, p := range s.others {
		if err := p.freeze(); err != nil {
			return err
		}
	}
	return s.process.freeze()
}

// thaw lets all of them go on.
func (s *subject) thaw() error {
	err := s.process.thaw()
	for _, p := range s.others {
		err = errors.Join(err, p.thaw())
	}
	return err
}

// abandon ends what still runs after a fault; that error counts, not this one's.
func (s *subject) abandon() { _ = s.stop() }

// say has the fleet report, if the subject listens to one.
func (s *subject) say(r report) error {
	if s.statuses == nil {
		return nil
	}
	return s.statuses.say(r)
}

// unlimited says that an agent could always take more.
func unlimited(perSecond int) report { return report{available: 1_000_000, perSecond: perSecond} }

// contender is one way to do the work.
type contender struct {
	name   string
	input  string
	queues []string
	start  func(context.Context, *bench) (*subject, error)
	task   func(n int) amqp.Publishing // nil: task
}

func contenders() (relay, taskbus contender) {
	return contender{name: "relay", input: relayInput, queues: queues(relayQueue), start: startRelay},
		contender{name: "taskbus", input: bus.QueueAssign, queues: queues(taskbusQueue), start: func(ctx context.Context, b *bench) (*subject, error) {
			return startTaskbus(ctx, b, fleetFile(100_000, skills), unlimited(0))
		}}
}

// withoutJournal is the service with its journal switched off, by noJournal in its
// agents.yaml.
const (
	withoutJournal = "no-journal"
	noJournal      = "journal: {enabled: false}\n"
)

func unjournalled() contender {
	_, c := contenders()
	c.name = withoutJournal
	c.start = func(ctx context.Context, b *bench) (*subject, error) {
		return startTaskbus(ctx, b, append(fleetFile(100_000, skills), noJournal...), unlimited(0))
	}
	return c
}

// startTaskbus runs the service and has every agent report once. env adds to its
// environment.
func startTaskbus(ctx context.Context, b *bench, fleet []byte, first report, env ...string) (*subject, error) {
	s, err := launchTaskbus(ctx, b, fleet, env...)
	if err != nil {
		return nil, err
	}
	if err := s.speakFor(ctx, b, first); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// readyPoll is the time between two questions whether the service is ready.
const readyPoll = 10 * time.Millisecond

// launchTaskbus runs the service until it takes tasks.
func launchTaskbus(ctx context.Context, b *bench, fleet []byte, more ...string) (*subject, error) {
	return launch(ctx, b, "taskbus", fleet, more, func(s *subject) error {
		return s.awaitEvery(ctx, readyPoll, "ready", func() (bool, error) { return s.ready(ctx) })
	})
}

// launch runs the service under a name of its own, and waits for it. Logging is as in
// production: INFO, as JSON, into a file.
func launch(ctx context.Context, b *bench, name string, fleet []byte, more []string, wait func(*subject) error) (*subject, error) {
	path := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(path, fleet, 0o600); err != nil {
		return nil, fmt.Errorf("write the fleet: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--config", path}
	if b.options.profile != "" {
		args = append(args, "--pprof")
	}
	env := []string{fmt.Sprintf("COORDINATOR_PORT=%d", port), "LOG_LEVEL=INFO", "LOG_FORMAT=json",
		"ASSIGNMENT_STRATEGY=", "TASKBUS_HTTP_BIND=127.0.0.1"}
	env = append(env, more...)
	s := &subject{http: fmt.Sprintf("http://127.0.0.1:%d", port), begun: time.Now()}
	s.process, err = startProcess(ctx, name, b.logPath(name), env, b.options.program, args...)
	if err != nil {
		return nil, fmt.Errorf("%w; build the program first (make build) or name it with --program", err)
	}
	if err := wait(s); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// speakFor starts the generator of statuses and returns when every agent is online.
func (s *subject) speakFor(ctx context.Context, b *bench, first report) error {
	generator, err := startStatuses(ctx, b.logPath("statuses"))
	if err != nil {
		return err
	}
	s.statuses = generator
	if err := generator.say(first); err != nil {
		return err
	}
	return s.awaitOnline(ctx, fleetSize)
}

// awaitOnline returns when that many agents are online.
func (s *subject) awaitOnline(ctx context.Context, agents int) error {
	return s.await(ctx, "aware of all agents", func() (bool, error) {
		status, err := s.status(ctx)
		return status.online() == agents, err
	})
}

// startTimeout is how long a subject may take to become ready.
const startTimeout = 60 * time.Second

// await asks again and again. An error of the question itself only counts when
// the time is over: the HTTP server may not be up yet.
func (s *subject) await(ctx context.Context, what string, is func() (bool, error)) error {
	return s.awaitEvery(ctx, 100*time.Millisecond, what, is)
}

func (s *subject) awaitEvery(ctx context.Context, pause time.Duration, what string, is func() (bool, error)) error {
	timeout := time.After(startTimeout)
	for {
		yes, err := is()
		if yes && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.exited:
			return s.process.alive()
		case <-timeout:
			return errors.Join(fmt.Errorf("%s is not %s after %s; see %s", s.process.name, what, startTimeout, s.process.log), err)
		case <-time.After(pause):
		}
	}
}

func (s *subject) ready(ctx context.Context) (bool, error) {
	code, err := s.get(ctx, "/readyz", nil)
	return code == http.StatusOK, err
}

// serviceStatus is what we read of /status.
type serviceStatus struct {
	Agents    []httpapi.Agent   `json:"agents"`
	Counters  httpapi.Counters  `json:"counters"`
	Readiness httpapi.Readiness `json:"readiness"`
	Journal   httpapi.Journal   `json:"journal"`
}

func (s *subject) status(ctx context.Context) (status serviceStatus, err error) {
	_, err = s.get(ctx, "/status", &status)
	return status, err
}

// online is how many agents the service knows to be there.
func (s *serviceStatus) online() int {
	online := 0
	for _, a := range s.Agents {
		if a.State == coordinator.AgentOnline.String() {
			online++
		}
	}
	return online
}

// get asks the service and reads the answer into v unless that is nil.
func (s *subject) get(ctx context.Context, path string, v any) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+path, nil)
	if err != nil {
		return 0, fmt.Errorf("ask %s for %s: %w", s.process.name, path, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask %s for %s: %w", s.process.name, path, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if v != nil {
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			return answer.StatusCode, fmt.Errorf("read the answer of %s to %s: %w", s.process.name, path, err)
		}
	}
	return answer.StatusCode, nil
}

// freePort is one that nobody listens on at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
