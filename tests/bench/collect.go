package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

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
	for _, part := range parts {
		if !b.options.wants(part) {
			continue
		}
		if err := b.collectPart(ctx, part, r); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

func (b *bench) collectPart(ctx context.Context, part string, r *results) (err error) {
	switch part {
	case partAssigning:
		return b.collectAssigning(ctx, r)
	case partLatency:
		return b.collectLatency(ctx, r)
	case partResults:
		return b.collectResults(ctx, r)
	case partCycle:
		return b.collectCycle(ctx, r)
	case partBurst:
		n := burstTasks
		if b.options.quick {
			n /= 10
		}
		if r.Burst, err = b.burst(ctx, n); err == nil {
			b.say("burst: %d of %d failed", r.Burst.Failed, n)
		}
	case partMarket:
		r.Market, err = b.market(ctx)
	case partPull:
		return b.collectPull(ctx, r)
	case partQuotas:
		return b.collectQuotas(ctx, r)
	case partCalls:
		return b.collectCalls(ctx, r)
	case partBeside:
		r.Beside, err = b.beside(ctx)
	case partDetection:
		if r.Detection, err = b.detection(ctx); err == nil {
			b.say("detection: silent %.0f ms, offline %.0f ms, killed: noticed %.0f ms, redone %.0f ms",
				r.Detection.SilentMillis, r.Detection.OfflineMillis, r.Detection.GoneMillis, r.Detection.KilledMillis)
		}
	case partLooks:
		watch := time.Minute
		if b.options.quick {
			watch /= 6
		}
		if r.Looks, err = b.looks(ctx, watch); err == nil {
			b.say("looks at %d agents: %.1f %% of a core while idle, %.1f %% with a task each",
				r.Looks.Agents, r.Looks.IdlePercent, r.Looks.BusyPercent)
		}
	case partStandby:
		r.Standby, err = b.standby(ctx, b.standbyLengths())
	case partStart:
		tasks, runs := startTasks, startRuns
		if b.options.quick {
			tasks, runs = startTasks/10, 1
		}
		r.Start, err = b.start(ctx, tasks, runs)
	case partMemory:
		r.Window = windowMemory()
		b.say("memory: %s bytes an id", r.Window)
	default:
		return b.collectEngine(ctx, r)
	}
	return err
}

// collectEngine measures the engine alone.
func (b *bench) collectEngine(ctx context.Context, r *results) (err error) {
	b.say("engine: go test -bench BenchmarkApply %s", enginePackage)
	if r.Engine, err = goBench(ctx, enginePackage, "BenchmarkApply", 3); err != nil {
		return err
	}
	b.say("engine: go test -bench BenchmarkChoose %s; -bench BenchmarkPlay %s", enginePackage, simulatorPackage)
	judged := "BenchmarkChoose/(" + strings.Join(judgedStrategies[:], "|") + ")"
	if r.Choosing, err = goBench(ctx, enginePackage, judged, 3); err != nil {
		return err
	}
	played, err := goBench(ctx, simulatorPackage, "BenchmarkPlay/.*/"+learnedStrategy, 1)
	r.Choosing = append(r.Choosing, played...)
	return err
}

// collectAssigning measures the way from task.assign to the agents' queues under full
// load, and then what the service weighs with tasks in flight.
func (b *bench) collectAssigning(ctx context.Context, r *results) error {
	relay, taskbus := contenders()
	all := []contender{relay, taskbus, unjournalled(), learning()}
	for i := range b.options.pairs {
		for _, c := range all {
			run, err := b.throughput(ctx, c, b.options.tasks)
			if err != nil {
				return err
			}
			b.say("throughput %d/%d %-11s %6.0f tasks/s %6.1f µs CPU per task %4d MiB at most",
				i+1, b.options.pairs, c.name, run.TasksPerSec, run.CPUMicros, run.PeakRSSBytes>>20)
			r.Throughput = append(r.Throughput, run)
		}
		slices.Reverse(all) // whoever comes later meets a warmer broker
	}
	watch := 2 * time.Second
	if b.options.quick {
		watch = time.Second
	}
	var err error
	if r.Memory, err = b.memory(ctx, watch); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	b.say("memory: %.1f MiB with %d in flight", mebibytes(r.Memory.RSSBytes), r.Memory.InFlight)
	return nil
}

// collectLatency measures the same way with a steady trickle of tasks.
func (b *bench) collectLatency(ctx context.Context, r *results) error {
	length, rounds := 30*time.Second, 2
	if b.options.quick {
		length, rounds = 5*time.Second, 1
	}
	relay, taskbus := contenders()
	all := []contender{relay, taskbus, unjournalled()}
	for i := range rounds {
		for _, c := range all {
			run, err := b.latency(ctx, c, length)
			if err != nil {
				return err
			}
			b.say("latency %d/%d %-11s p50 %.2f ms, p99 %.2f ms, max %.2f ms",
				i+1, rounds, c.name, run.P50Millis, run.P99Millis, run.MaxMillis)
			r.Latency = append(r.Latency, run)
		}
		slices.Reverse(all)
	}
	return nil
}

// collectResults measures what the results of agents cost the service.
func (b *bench) collectResults(ctx context.Context, r *results) error {
	pair := audiences()
	for i := range b.options.pairs {
		for _, a := range pair {
			run, err := b.results(ctx, a, b.resultsTasks())
			if err != nil {
				return fmt.Errorf("read by %s: %w", a.name, err)
			}
			b.say("results %d/%d read by %-8s %6.0f tasks/s %6.1f µs CPU per task, agents %.1f µs; last read after %.0f ms more",
				i+1, b.options.pairs, a.name, run.TasksPerSec, run.CPUMicros, run.AgentsCPUMicros, 1e3*(run.ReadSeconds-run.Seconds))
			r.Results = append(r.Results, run)
		}
		slices.Reverse(pair[:]) // whoever comes second meets a warmer broker
	}
	return nil
}

// Runs with results have fewer tasks: each is twice as much work for the broker, and
// with agents of the SDK for everybody.
func (b *bench) resultsTasks() int { return max(1, b.options.tasks/2) }

func (b *bench) cycleTasks() int { return max(1, b.options.tasks/3) }

// collectPull measures a backlog that is claimed, and the same one pushed.
func (b *bench) collectPull(ctx context.Context, r *results) error {
	modes := []string{modePush, modePull}
	for i := range min(b.options.pairs, 3) {
		for _, mode := range modes {
			run, err := b.pulled(ctx, mode, b.resultsTasks())
			if err != nil {
				return fmt.Errorf("by %s: %w", mode, err)
			}
			b.say("pull %d: by %s %6.0f tasks/s %6.1f µs CPU per task, %d claims", i+1, mode, run.TasksPerSec, run.CPUMicros, run.Claims)
			r.Pull = append(r.Pull, run)
		}
		slices.Reverse(modes)
	}
	return nil
}

// collectCycle measures the whole way with agents of the SDK.
func (b *bench) collectCycle(ctx context.Context, r *results) error {
	rounds, trickle := 2, 5*time.Second
	if b.options.quick {
		rounds, trickle = 1, 3*time.Second
	}
	for i := range rounds {
		run, err := b.cycle(ctx, b.cycleTasks(), trickle)
		if err != nil {
			return err
		}
		b.say("whole cycle %d/%d %6.0f tasks/s, p50 %.2f ms, p99 %.2f ms, CPU per task %.1f µs, of its agent %.1f µs",
			i+1, rounds, run.TasksPerSec, run.Latency.P50Millis, run.Latency.P99Millis, run.CPUMicros, run.AgentsCPUMicros)
		r.Cycle = append(r.Cycle, run)
	}
	return nil
}
