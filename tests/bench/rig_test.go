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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
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

// helper is something that works beside the service until ctx ends, and says when it is ready.
type helper func(ctx context.Context, r *rig, ready func())

// rig is one run of a scenario.
type rig struct {
	*testing.B
	scenario     scenario
	program, url string
	dir          string // of files and logs, kept until the next run
	channel      *amqp.Channel
	connection   context.Context // of what listens, to the very end
	ctx          context.Context // of what works beside the service
	cancel       context.CancelFunc
	helpers      sync.WaitGroup
	fault        atomic.Pointer[error] // of a helper
	report       atomic.Pointer[report]
	service      *service
	others       []*process // that end with the service, and before it
	asked        time.Time  // when the service was asked last how many tasks have failed
	failed       int
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
	r := &rig{B: b, scenario: s, program: program, url: url, dir: filepath.Join("..", "..", ".run", "bench")}
	connection, disconnect := context.WithCancel(context.Background())
	defer disconnect()
	r.connection = connection
	r.ctx, r.cancel = context.WithCancel(connection)
	b.ReportMetric(0, "ns/op") // of the whole run: of no use
	fault := caught(func() {
		check(os.MkdirAll(r.dir, 0o755))
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

// stop ends all in order, once: what works beside the service, then the service.
func (r *rig) stop() error {
	r.cancel()
	r.helpers.Wait()
	var errs []error
	if f := r.fault.Load(); f != nil {
		errs = append(errs, *f)
	}
	for _, p := range r.others {
		errs = append(errs, p.stop())
	}
	if r.service != nil {
		errs = append(errs, r.service.stop())
	}
	r.others, r.service = nil, nil
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

// role runs this program again, in a role with an argument.
func (r *rig) role(role string) *process {
	name := strings.NewReplacer(" ", "-", ":", "-").Replace(role)
	env, log := []string{roleEnv + "=" + role}, filepath.Join(r.dir, name+".log")
	p := must(startProcess(name, log, env, must(os.Executable())))
	select {
	case <-p.lines:
	case <-p.exited:
		check(p.alive())
	}
	return p
}

// start runs the service, or the relay, with its helpers.
func (r *rig) start() {
	if r.scenario.relay {
		for _, queue := range append(r.queues(), relayInput) {
			must(r.channel.QueueDeclare(queue, true, false, false, false, quorum()))
		}
		r.service = &service{process: r.role("relay")}
		return
	}
	r.service = r.launch("taskbus", r.scenario.fleet, "ready")
	if beats := r.scenario.beats; beats != mute {
		r.report.Store(&report{available: 1_000_000, perSecond: cmp.Or(beats, 1000)})
		r.with(statuses)
	}
	for _, h := range r.scenario.beside {
		r.with(h)
	}
	r.online(fleetSize)
}

// launch runs the service under a name of its own until it is in a state. It logs as in production: INFO, as JSON.
func (r *rig) launch(name, fleet, state string) *service {
	path, limits, address := filepath.Join(r.dir, name+".yaml"), filepath.Join(r.dir, "limits.yaml"), freeAddress()
	check(os.WriteFile(path, []byte(fleet), 0o600))
	_, port, _ := net.SplitHostPort(address)
	env := append([]string{"COORDINATOR_PORT=" + port, "TASKBUS_HTTP_BIND=127.0.0.1", "LOG_LEVEL=INFO",
		"LOG_FORMAT=json", "ASSIGNMENT_STRATEGY="}, r.scenario.env...)
	if r.scenario.quotas != "" {
		check(os.WriteFile(limits, []byte(r.scenario.quotas), 0o600))
		env = append(env, "TASKBUS_QUOTAS="+limits)
	}
	args := []string{"serve", "--config", path}
	if *profile != "" {
		args = append(args, "--pprof")
	}
	s := &service{http: "http://" + address, begun: time.Now()}
	s.process = must(startProcess(name, filepath.Join(r.dir, name+".log"), env, r.program, args...))
	r.others = append(r.others, s.process) // until it is in its place
	r.await(s.process, name+" is "+state, 1, 10*time.Millisecond, func() int {
		var is httpapi.Readiness
		code, _ := r.get(s, "/readyz", &is)
		return one(state == "ready" && code == http.StatusOK || is.State == state)
	})
	r.others = r.others[:len(r.others)-1]
	return s
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

// awaitReady returns when n messages are in the queues, awaitStatus when a number of /status is that high.
func (r *rig) awaitReady(n int, queues ...string) {
	r.await(r.service.process, "messages in queues", n, 0, func() int { return r.ready(queues...) })
}

func (r *rig) awaitStatus(what string, n int, value func(status) int) {
	r.await(r.service.process, what, n, 50*time.Millisecond, func() int { return value(r.status(r.service)) })
}

// get asks the service and reads the answer into v.
func (r *rig) get(s *service, path string, v any) (code int, err error) {
	answer, err := http.Get(s.http + path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, json.NewDecoder(answer.Body).Decode(v)
}

// status is what the driver reads of /status.
type status struct {
	Agents   []httpapi.Agent  `json:"agents"`
	Counters httpapi.Counters `json:"counters"`
	Journal  httpapi.Journal  `json:"journal"`
}

func (r *rig) status(s *service) (st status) {
	must(r.get(s, "/status", &st))
	return st
}

func dispatched(st status) int { return int(st.Counters.Dispatched) }
func succeeded(st status) int {
	return int(st.Counters.Results[coordinator.OutcomeSucceeded.String()])
}

func (r *rig) online(agents int) {
	r.awaitStatus("agents that are online", agents, func(st status) (n int) {
		for _, a := range st.Agents {
			n += one(a.State == coordinator.AgentOnline.String())
		}
		return n
	})
}

// metrics reads what the service shows to Prometheus: sums by name, and series by name and labels.
func (r *rig) metrics() map[string]float64 {
	all := make(map[string]float64)
	if r.scenario.relay {
		return all
	}
	answer := must(http.Get(r.service.http + "/metrics"))
	defer func() { _ = answer.Body.Close() }()
	for line := range strings.Lines(string(must(io.ReadAll(answer.Body)))) {
		i := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64); err == nil && line[0] != '#' {
			series := line[:i]
			name, _, labelled := strings.Cut(series, "{")
			if all[series] += value; labelled {
				all[name] += value
			}
		}
	}
	return all
}

// queues are those of the agents of the load.
func (r *rig) queues() []string {
	if r.scenario.relay {
		return queueNames(relayQueue, fleetSize)
	}
	a := r.scenario.agents
	return queueNames(agentQueue, fleetSize)[a[0]:cmp.Or(a[1], fleetSize)]
}

// saveProfile begins a CPU profile of the service; what it returns waits for it.
func (r *rig) saveProfile() (wait func()) {
	if *profile == "" || r.scenario.relay {
		return func() {}
	}
	name := filepath.Join(*profile, strings.ReplaceAll(r.scenario.name, "/", "-")+".pprof")
	done, url := make(chan error, 1), r.service.http+"/debug/pprof/profile?seconds=10"
	go func() {
		done <- caught(func() {
			answer := must(http.Get(url))
			check(os.WriteFile(name, must(io.ReadAll(answer.Body)), 0o644))
			check(answer.Body.Close())
		})
	}()
	return func() { check(<-done, "profile") }
}
