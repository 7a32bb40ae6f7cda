package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

var (
	programs = flag.String("program", "../../bin/taskbus", "what to measure; two (a comma between) take turns")
	rounds   = flag.Int("rounds", 5, "of each scenario at most")
	tasks    = flag.Int("tasks", 40_000, "of the largest backlog")
	quick    = flag.Bool("quick", false, "a look in some minutes: one round, less of everything")
	profile  = flag.String("profile", "", "save CPU profiles of 10 s, one of each scenario and program, in this directory")
)

func TestMain(m *testing.M) {
	if os.Getenv(relayEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		relay(ctx)
		return
	}
	flag.Parse()
	if *quick {
		*rounds, *tasks = 1, min(*tasks, 10_000)
	}
	os.Exit(m.Run())
}

// scenario is a fleet, a load, and where its tasks must arrive.
type scenario struct {
	name   string // PART/NAME
	rounds int    // 0: as many as are asked for

	relay  bool     // the relay instead of the service
	fleet  string   // agents.yaml
	quotas string   // quotas.yaml; empty: none
	env    []string // more for the service
	beats  int      // statuses of the fleet a second; 0: 1000; mute: none, its agents speak for themselves
	beside []helper

	task   taskMaker     // nil: task
	share  int           // a backlog of 1/share of all tasks; 0: of all of them
	rate   int           // or a steady load, tasks a second
	length time.Duration // of it
	until  sink
	stream string             // of the results; empty: the service's
	class  func(n int) string // see ear

	run func(r *rig) // nil: work
}

// mute says that no statuses are sent for the fleet.
const mute = -1

// sink is where tasks arrive.
type sink int

const (
	inQueues  sink = iota // in the queues of agents, from which nothing consumes
	delivered             // with the driver, which consumes those queues
	reported              // with the driver, which reads the results
	counted               // with the service, which has counted the results
	answered              // with the driver, which consumes the queue that they name for the answer
)

// BenchmarkBroker runs every scenario. Those of a part take turns, every second time in reverse: what comes later
// meets a warmer broker.
func BenchmarkBroker(b *testing.B) {
	url := os.Getenv(brokerEnv)
	if url == "" {
		b.Skip(brokerEnv + " is not set; scripts/bench.sh starts a broker and sets it")
	}
	load, _ := os.ReadFile("/proc/loadavg")
	err := caught(func() { fmt.Printf("rabbitmq: %s\nload: %.4s\ngo: %s\n", version(url), load, runtime.Version()) })
	if err != nil {
		b.Fatal(err)
	}
	for _, part := range parts() {
		b.Run(part, func(b *testing.B) {
			list := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return partOf(s) != part })
			all := strings.Split(*programs, ",")
			for i := range *rounds {
				for _, s := range list {
					for n, program := range all {
						name := strings.TrimPrefix(s.name, part+"/")
						if len(all) > 1 {
							name += "/program=" + filepath.Base(program)
						}
						// Two programs are compared by all rounds.
						enough := s.rounds > 0 && i >= s.rounds && len(all) == 1
						if !enough && (!s.relay || n == 0) {
							b.Run(name, func(b *testing.B) { measure(b, s, program, url) })
						}
					}
				}
				slices.Reverse(list)
				slices.Reverse(all)
			}
		})
	}
}

func partOf(s scenario) string {
	part, _, _ := strings.Cut(s.name, "/")
	return part
}

// parts are the first halves of the names of scenarios, in their order.
func parts() (all []string) {
	for _, s := range scenarios {
		all = append(all, partOf(s))
	}
	return slices.Compact(all)
}

// count is how many tasks the load has.
func (s *scenario) count() int {
	if s.rate == 0 {
		return max(1, *tasks/max(1, s.share))
	}
	n := int(s.length.Seconds() * float64(s.rate))
	if *quick && s.length > time.Second {
		n /= 5
	}
	return n
}

// work runs the load and reports what it took.
//
// A backlog is released at once: the process stands connected, subscribed and idle, and is stopped with SIGSTOP while
// the backlog is published and confirmed; SIGCONT starts the clock. So no start is measured, no producer competes for
// the cores, and all meet a full queue. A steady load is an open loop: each task is timed from the moment at which it
// was due, so that a producer that is held up counts as delay.
func work(r *rig) {
	s, n := r.scenario, r.scenario.count()
	e := newEar(n)
	e.class, r.ended = s.class, make([]atomic.Int64, n)
	r.start()
	switch s.until {
	case delivered:
		r.consume(e, r.queues()...)
	case reported:
		r.listen(e, s.stream, "next")
	case answered:
		must(r.channel.QueueDeclare(answersQueue, true, false, false, false, quorum))
		r.consume(e, answersQueue)
	}
	published := make(chan error, 1)
	var cpu time.Duration
	var begun time.Time
	if s.rate == 0 {
		r.service.freeze()
		r.fill(0, n, s.task)
		published <- nil
		cpu, begun = r.service.cpu(), time.Now()
		check(r.service.thaw())
	} else {
		cpu, begun = r.service.cpu(), time.Now().Add(100*time.Millisecond)
		due := func(i int) time.Time { return begun.Add(time.Duration(i) * time.Second / time.Duration(s.rate)) }
		if e.due, e.skip = due, n/50; s.until == answered {
			e.due = func(i int) time.Time { return time.Unix(0, r.ended[i].Load()) } // the way back alone
		}
		go func() { published <- r.publish(0, n, due, s.task) }()
	}
	profiled := r.saveProfile()
	seconds := r.arrive(e, n).Sub(begun).Seconds()
	check(<-published, "publish")
	profiled()
	time.Sleep(250 * time.Millisecond) // for the last acknowledgements and log lines
	r.ReportMetric(float64((r.service.cpu()-cpu).Microseconds())/float64(n), "cpu-µs/task")
	_, peak := r.service.memory()
	r.ReportMetric(peak, "peak-MiB")
	r.ReportMetric(float64(n)/seconds, "tasks/s")
	e.percentiles(r.B)
	r.verify(e)
}

func (r *rig) input() string {
	if r.scenario.relay {
		return relayInput
	}
	return bus.QueueAssign
}

// arrive returns when all tasks have arrived, and when the last did.
func (r *rig) arrive(e *ear, n int) time.Time {
	until := r.scenario.until
	if until == delivered || until == reported || until == answered {
		r.await(r.service.process, "arrivals", n, 5*time.Millisecond, e.count)
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.last
	}
	// While there is work, the depth of one queue is asked for: it costs the broker little.
	r.await(r.service.process, "taken tasks", n, 20*time.Millisecond, func() int { return n - r.waiting(r.input()) })
	if until == counted {
		r.awaitStatus("results", n, succeeded)
	} else {
		r.awaitWaiting(n, r.queues()...)
	}
	return time.Now()
}

// verify stops everything and counts every task by its number: all arrived once, none is left or set aside.
func (r *rig) verify(e *ear) {
	s := r.scenario
	if s.until == counted {
		c := r.status().Counters
		delete(c.Results, coordinator.OutcomeSucceeded.String())
		for why, n := range c.ResultsRefused {
			c.Results["refused: "+why] = n
		}
		for outcome, n := range c.Results {
			if n > 0 {
				panic(fmt.Errorf("the service has counted %d results as %s", n, outcome))
			}
		}
	}
	time.Sleep(250 * time.Millisecond) // for what arrives again
	check(r.stop(), "stop")
	if e.due = nil; s.until == inQueues || s.until == counted {
		if s.until == inQueues {
			r.consume(e, r.queues()...)
		} else {
			r.listen(e, s.stream, "first")
		}
		r.await(nil, "arrivals", len(e.seen), 20*time.Millisecond, e.count)
		time.Sleep(250 * time.Millisecond)
	}
	check(e.complete())
	left, aside := r.waiting(r.input()), 0
	if !s.relay {
		aside = r.waiting(bus.QueueReassign, bus.QueueFailed, bus.QueueDead)
	}
	if left+aside > 0 {
		panic(fmt.Errorf("%d tasks were not acknowledged, %d failed or came back", left, aside))
	}
}
