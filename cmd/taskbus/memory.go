package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"taskbus/cmd/taskbus/cli"
)

const (
	// gcPercent lets the heap grow to three times what is alive before it is collected. What is alive
	// is small, and what each task leaves behind is gone at once: collecting half as often saves 3 to
	// 5 µs of CPU a task.
	gcPercent = 200
	// leastMemory is what the process may have before it is collected earlier than that: in a burst the
	// heap grows beyond its goal while it is collected, and what was once had from the system is given
	// back slowly.
	leastMemory = 96 << 20
	// roomBeside is left beside twice what is alive, for what is no heap: a large fleet or long journal
	// must not be collected without end.
	roomBeside = 40 << 20
	boundEvery = time.Second
)

// memoryBound is the soft limit for a process of which so much is alive.
func memoryBound(alive uint64) int64 { return max(leastMemory, 2*int64(alive)+roomBeside) }

// boundMemory sets how the heap is collected until ctx ends, as far as GOGC and GOMEMLIMIT say nothing.
func boundMemory(ctx context.Context, a *cli.App) {
	if a.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	if a.Getenv("GOMEMLIMIT") != "" {
		return
	}
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	bound := int64(leastMemory)
	before := debug.SetMemoryLimit(bound)
	go func() {
		defer debug.SetMemoryLimit(before)
		tick := time.NewTicker(boundEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if metrics.Read(alive); alive[0].Value.Kind() != metrics.KindUint64 {
				return
			}
			if next := memoryBound(alive[0].Value.Uint64()); next != bound {
				bound = next
				debug.SetMemoryLimit(bound)
			}
		}
	}()
}
