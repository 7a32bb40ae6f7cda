package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Rates of the generators.
const (
	statusRate  = 1000 // agent statuses a second, of the whole fleet
	latencyRate = 1000 // tasks a second in the latency runs
)

// options are the flags.
type options struct {
	quick   bool
	pairs   int
	tasks   int
	json    string
	program string
	profile string
}

// bench is one run of everything.
type bench struct {
	options options
	url     string
	dir     string // logs and the fleet's agents.yaml
	broker  *broker
	out     io.Writer
}

func (b *bench) logPath(name string) string { return filepath.Join(b.dir, name+".log") }

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("RABBITMQ_URL"))
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the whole benchmark or, by its first argument, one of the processes that
// the benchmark starts of itself.
func run(ctx context.Context, args []string, url string) error {
	if url == "" {
		return errors.New("RABBITMQ_URL is not set; make bench starts a broker and sets it")
	}
	if len(args) > 0 && (args[0] == "relay" || args[0] == "statuses") {
		return serveRole(ctx, args[0], url)
	}
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	b := &bench{options: o, url: url, out: os.Stderr, dir: filepath.Join(filepath.Dir(o.json), "bench")}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for the logs: %w", err)
	}
	if b.broker, err = openBroker(url); err != nil {
		return err
	}
	if o.profile != "" {
		err = b.profile(ctx)
	} else {
		err = b.measure(ctx)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return errors.Join(err, b.broker.close())
}

// serveRole ends with ctx, or with whoever started it.
func serveRole(ctx context.Context, role, url string) error {
	if role == "statuses" {
		return reportStatuses(ctx, url, os.Stdin, os.Stdout)
	}
	ctx, orphaned := context.WithCancel(ctx)
	defer orphaned()
	go func() {
		defer orphaned()
		_, _ = io.Copy(io.Discard, os.Stdin) // an error means the same as the end
	}()
	return relay(ctx, url, os.Stdout)
}

func parseFlags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "a look in about a minute: fewer and shorter runs, no engine benchmark")
	f.IntVar(&o.pairs, "pairs", 5, "throughput runs of each of the two")
	f.IntVar(&o.tasks, "tasks", 60_000, "tasks of one throughput run")
	f.StringVar(&o.json, "json", ".run/bench.json", "file for the results; logs go into the directory bench beside it")
	f.StringVar(&o.program, "program", "bin/taskbus", "the service to measure")
	f.StringVar(&o.profile, "profile", "", "instead of measuring, profile the service under full load into this directory")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.pairs < 1 || o.tasks < 1 {
		return o, errors.New("no arguments are expected, and --pairs and --tasks must be at least 1; see --help")
	}
	if o.quick {
		o.pairs, o.tasks = min(o.pairs, 2), min(o.tasks, 20_000)
	}
	return o, nil
}

// measure does every run, writes the results and prints them. What was measured
// before a fault is shown as well.
func (b *bench) measure(ctx context.Context) error {
	r := &results{Machine: describeMachine(b.broker.version), Started: time.Now().UTC()}
	fault := b.collect(ctx, r)
	if fault != nil {
		r.Fault = fault.Error()
	}
	r.judge()
	return errors.Join(fault, r.write(b.options.json), r.print(os.Stdout))
}

// collect fills in the results, from the quick to the slow.
func (b *bench) collect(ctx context.Context, r *results) error {
	latencyLength, rounds, watch := 20*time.Second, 2, 3*time.Second
	if b.options.quick {
		latencyLength, rounds, watch = 5*time.Second, 1, time.Second
	}
	pair := func() [2]contender { relay, taskbus := contenders(); return [...]contender{relay, taskbus} }()
	for i := range b.options.pairs {
		for _, c := range pair {
			run, err := b.throughput(ctx, c, b.options.tasks)
			if err != nil {
				return fmt.Errorf("throughput: %w", err)
			}
			b.say("throughput %d/%d %-8s %6.0f tasks/s %6.1f µs CPU per task %4d MiB at most",
				i+1, b.options.pairs, c.name, run.TasksPerSec, run.CPUMicros, run.PeakRSSBytes>>20)
			r.Throughput = append(r.Throughput, run)
		}
	}
	for i := range rounds {
		for _, c := range pair {
			run, err := b.latency(ctx, c, latencyLength)
			if err != nil {
				return fmt.Errorf("latency: %w", err)
			}
			b.say("latency %d/%d %-8s p50 %.2f ms, p99 %.2f ms, max %.2f ms",
				i+1, rounds, c.name, run.P50Millis, run.P99Millis, run.MaxMillis)
			r.Latency = append(r.Latency, run)
		}
	}
	var err error
	if r.Memory, err = b.memory(ctx, watch); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	b.say("memory: %.1f MiB with %d in flight", mebibytes(r.Memory.RSSBytes), r.Memory.InFlight)
	if b.options.quick {
		return nil
	}
	b.say("engine: go test -bench BenchmarkApply %s", enginePackage)
	r.Engine, err = engine(ctx)
	return err
}
