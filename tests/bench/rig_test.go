package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// check panics with an error; where a scenario, or what works beside it, begins, that becomes its fault.
func check(err error, doing ...string) {
	if err != nil {
		panic(fmt.Errorf("%s%w", strings.Join(append(doing, ""), ": "), err))
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// caught calls f and gives the error that it panicked with.
func caught(f func()) (err error) {
	defer func() {
		v := recover()
		if fault, ok := v.(error); ok && !errors.As(fault, new(runtime.Error)) {
			err = fault
		} else if v != nil {
			panic(v)
		}
	}()
	f()
	return nil
}

// helper is something that works beside the service until ctx ends, and calls ready when it does.
type helper func(ctx context.Context, r *rig, ready func())

// rig is one run of a scenario.
type rig struct {
	*testing.B
	scenario     scenario
	program, url string
	channel      *amqp.Channel
	connection   context.Context // of what listens, to the very end
	ctx          context.Context // of what works beside the service
	cancel       context.CancelFunc
	helpers      sync.WaitGroup
	fault        atomic.Pointer[error] // of a helper
	report       atomic.Pointer[report]
	ended        []atomic.Int64 // when the result of each task was published, in ns since 1970 (see answering)
	service      *service
}

// service is one process of the service, or the relay.
type service struct {
	*process
	http  string    // base URL; empty for the relay
	begun time.Time // just before its start
}

func measure(b *testing.B, s scenario, program, url string) {
	s.stream = cmp.Or(s.stream, bus.StreamResult)
	if s.task == nil {
		s.task = task
	}
	if s.run == nil {
		s.run = work
	}
	r := &rig{B: b, scenario: s, program: program, url: url}
	connection, disconnect := context.WithCancel(context.Background())
	defer disconnect()
	r.connection = connection
	r.ctx, r.cancel = context.WithCancel(connection)
	b.ReportMetric(0, "ns/op") // of the whole run: of no use
	fault := caught(func() {
		r.channel = connect(connection, url, "driver")
		r.clean()
		s.run(r)
	})
	if ending := r.stop(); fault != nil {
		b.Fatal(fault)
	} else if ending != nil {
		b.Fatal(ending)
	}
}

// file is the path of a file or log, kept until the next run.
func (r *rig) file(name string) string {
	dir := filepath.Join("..", "..", ".run", "bench")
	check(os.MkdirAll(dir, 0o755))
	return filepath.Join(dir, name)
}

// stop ends all in order, once: what works beside the service, then the service.
func (r *rig) stop() error {
	r.cancel()
	r.helpers.Wait()
	var errs []error
	if f := r.fault.Load(); f != nil {
		errs = append(errs, *f)
	}
	if r.service != nil {
		errs = append(errs, r.service.stop())
	}
	r.service = nil
	return errors.Join(errs...)
}

// with starts a helper and returns when it is ready, or has failed.
func (r *rig) with(h helper) {
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	r.helpers.Go(func() {
		defer once()
		if err := caught(func() { h(r.ctx, r, once) }); err != nil && r.ctx.Err() == nil {
			r.fault.Store(&err)
		}
	})
	<-ready
}

// start runs the service, or the relay, with its helpers.
func (r *rig) start() {
	if r.scenario.relay {
		for _, queue := range append(r.queues(), relayInput) {
			must(r.channel.QueueDeclare(queue, true, false, false, false, quorum))
		}
		env := []string{relayEnv + "=1", brokerEnv + "=" + r.url}
		r.service = &service{process: startProcess("relay", r.file("relay.log"), env, must(os.Executable()))}
		r.await(r.service.process, "the relay consumes", 1, 10*time.Millisecond, func() int {
			return must(r.channel.QueueDeclarePassive(relayInput, true, false, false, false, nil)).Consumers
		})
		return
	}
	r.service = r.launch("taskbus", r.scenario.fleet)
	r.ready(r.service)
	if beats := r.scenario.beats; beats != mute {
		r.report.Store(&report{available: 1_000_000, perSecond: cmp.Or(beats, 1000)})
		r.with(statuses)
	}
	for _, h := range r.scenario.beside {
		r.with(h)
	}
	r.awaitStatus("agents that are online", fleetSize, func(st status) (n int) {
		for _, a := range st.Agents {
			n += one(a.State == coordinator.AgentOnline.String())
		}
		return n
	})
}

// launch runs the service, with logs as in production: INFO, as JSON.
func (r *rig) launch(name, fleet string) *service {
	path, limits, address := r.file(name+".yaml"), r.file("limits.yaml"), freeAddress()
	check(os.WriteFile(path, []byte(fleet), 0o600))
	_, port, _ := net.SplitHostPort(address)
	env := append([]string{"RABBITMQ_URL=" + r.url, "COORDINATOR_PORT=" + port, "TASKBUS_HTTP_BIND=127.0.0.1",
		"LOG_LEVEL=INFO",
		"LOG_FORMAT=json", "ASSIGNMENT_STRATEGY="}, r.scenario.env...)
	if r.scenario.quotas != "" {
		check(os.WriteFile(limits, []byte(r.scenario.quotas), 0o600))
		env = append(env, "TASKBUS_QUOTAS="+limits)
	}
	args := []string{"serve", "--config", path}
	if *profile != "" {
		args = append(args, "--pprof")
	}
	begun := time.Now()
	return &service{startProcess(name, r.file(name+".log"), env, r.program, args...), "http://" + address, begun}
}

// ready returns when the service leads.
func (r *rig) ready(s *service) {
	r.await(s.process, s.name+" leads", 1, 5*time.Millisecond, func() int {
		answer, err := http.Get(s.http + "/readyz")
		if err != nil {
			return 0
		}
		return one(answer.Body.Close() == nil && answer.StatusCode == http.StatusOK)
	})
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func freeAddress() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	check(l.Close())
	return l.Addr().String()
}

// grace is how long nothing may change.
const grace = 60 * time.Second

// await returns when value has reached n. It fails when a process ends, or value changes no more.
func (r *rig) await(p *process, what string, n int, pause time.Duration, value func() int) {
	for last, since := -1, time.Now(); ; time.Sleep(pause) {
		v := value()
		if v >= n {
			return
		}
		if v != last {
			last, since = v, time.Now()
		}
		if f := r.fault.Load(); f != nil {
			panic(*f)
		}
		if p != nil {
			check(p.alive())
		}
		if time.Since(since) > grace {
			panic(fmt.Errorf("%s: %d of %d, and no more for %s; see the logs in .run/bench", what, v, n, grace))
		}
	}
}

// status is what the driver reads of /status.
type status struct {
	Agents   []view.Agent  `json:"agents"`
	Counters view.Counters `json:"counters"`
}

func (r *rig) status() (st status) {
	answer := must(http.Get(r.service.http + "/status"))
	defer func() { _ = answer.Body.Close() }()
	check(json.NewDecoder(answer.Body).Decode(&st))
	return st
}

// awaitStatus returns when a number of /status is that high.
func (r *rig) awaitStatus(what string, n int, value func(status) int) {
	r.await(r.service.process, what, n, 50*time.Millisecond, func() int { return value(r.status()) })
}

func succeeded(st status) int { return int(st.Counters.Results[coordinator.OutcomeSucceeded.String()]) }

// queues are those of the agents.
func (r *rig) queues() []string {
	if r.scenario.relay {
		return queueNames(relayQueue, fleetSize)
	}
	return queueNames(agentQueue, fleetSize)
}

// saveProfile begins a CPU profile of the service; what it returns waits for it.
func (r *rig) saveProfile() (wait func()) {
	if *profile == "" || r.scenario.relay {
		return func() {}
	}
	name := strings.ReplaceAll(r.scenario.name, "/", "-") + "-" + filepath.Base(r.program) + ".pprof"
	url := r.service.http + "/debug/pprof/profile?seconds=10"
	done := make(chan error, 1)
	go func() {
		done <- caught(func() {
			answer := must(http.Get(url))
			check(os.WriteFile(filepath.Join(*profile, name), must(io.ReadAll(answer.Body)), 0o644))
			check(answer.Body.Close())
		})
	}()
	return func() { check(<-done, "profile") }
}
