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
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	only    string
	agents  bool
}

// The parts of a run, in their order.
const (
	partAssigning = "assigning"
	partLatency   = "latency"
	partResults   = "results"
	partCycle     = "cycle"
	partBurst     = "burst"
	partMarket    = "market"
	partPull      = "pull"
	partQuotas    = "quotas"
	partCalls     = "calls"
	partBeside    = "beside"
	partDetection = "detection"
	partLooks     = "looks"
	partStandby   = "standby"
	partStart     = "start"
	partMemory    = "memory"
	partEngine    = "engine"
)

var parts = []string{partAssigning, partLatency, partResults, partCycle, partBurst, partMarket, partPull, partQuotas, partCalls, partBeside, partDetection, partLooks, partStandby, partStart, partMemory, partEngine}

// wants tells whether a part is to be measured.
func (o *options) wants(part string) bool {
	if o.only != "" {
		return o.only == part
	}
	return part != partEngine || !o.quick
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
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return serveRole(ctx, args[0], args[1:], url)
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

// serveRole runs one of our own processes. It ends with ctx, or with whoever
// started it.
func serveRole(ctx context.Context, role string, args []string, url string) error {
	var arg, more string
	if len(args) > 0 {
		arg, more = args[0], strings.Join(args[1:], " ")
	}
	switch role { // these two are told what to do on standard input
	case "statuses":
		return reportStatuses(ctx, url, os.Stdin, os.Stdout)
	case "plain":
		return plainAgent(ctx, url, arg, os.Stdin, os.Stdout)
	}
	ctx, orphaned := context.WithCancel(ctx)
	defer orphaned()
	go func() {
		defer orphaned()
		_, _ = io.Copy(io.Discard, os.Stdin) // an error means the same as the end
	}()
	switch role {
	case "relay":
		return relay(ctx, url, os.Stdout)
	case "fleet":
		return sdkFleet(ctx, url, arg, os.Stdout)
	case "crowd":
		return crowd(ctx, url, os.Stdout)
	case "httpecho":
		return httpEcho(ctx, arg, os.Stdout)
	case "grpcecho":
		return grpcEcho(ctx, arg, os.Stdout)
	case "httpredis":
		return httpRedis(ctx, arg, os.Stdout)
	case "rescue", "holder":
		return sdkAgent(ctx, url, role, arg, os.Stdout)
	}
	if is, err := serveChoosing(ctx, url, role, arg, os.Stdout); is {
		return err
	}
	n, err := strconv.Atoi(more)
	switch {
	case role == "light" && err == nil:
		return light(ctx, url, arg, n, os.Stdout)
	case role == "reader" && err == nil:
		return read(ctx, url, arg, n, os.Stdout)
	}
	return fmt.Errorf("no arguments are expected, but there is %q; see --help", role)
}

func parseFlags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", false, "a look in about a minute: fewer and shorter runs, no engine benchmark")
	f.IntVar(&o.pairs, "pairs", 5, "throughput runs of each")
	f.IntVar(&o.tasks, "tasks", 40_000, "tasks of one throughput run")
	f.StringVar(&o.json, "json", ".run/bench.json", "file for the results; logs go into the directory bench beside it")
	f.StringVar(&o.program, "program", "bin/taskbus", "the service to measure")
	f.StringVar(&o.only, "only", "", "measure one part alone: "+strings.Join(parts, ", "))
	f.StringVar(&o.profile, "profile", "", "instead of measuring, profile the service under full load into this directory")
	f.BoolVar(&o.agents, "agents", false, "with --profile: light agents take the tasks and publish results")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.pairs < 1 || o.tasks < 1 {
		return o, errors.New("no arguments are expected, and --pairs and --tasks must be at least 1; see --help")
	}
	if o.only != "" && !slices.Contains(parts, o.only) {
		return o, fmt.Errorf("--only %s: there is no such part; the parts are %s", o.only, strings.Join(parts, ", "))
	}
	if o.quick {
		o.pairs, o.tasks = min(o.pairs, 2), min(o.tasks, 20_000)
	}
	return o, nil
}
