package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// windowRun is what a dedupe window of that many ids takes.
type windowRun struct {
	IDs        int     `json:"ids"`
	BytesPerID float64 `json:"bytes_per_id"`
}

type windowResult []windowRun

// String lists them.
func (w windowResult) String() string {
	var all []string
	for _, run := range w {
		all = append(all, fmt.Sprintf("%.1f at %d", run.BytesPerID, run.IDs))
	}
	return strings.Join(all, ", ")
}

// windowSizes are those at which it is looked at.
var windowSizes = [...]int{20_000, 100_000, 1_000_000, 1_500_000}

// windowMemory grows one engine's dedupe window and sees how much its heap grows
// with it: everything an id costs, whatever it is kept in. The ids come as they do
// from the journal.
func windowMemory() windowResult {
	e := engine.New()
	e.Follow()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings := coordinator.Settings{DedupeWindow: time.Hour, DedupeMaxIDs: 2 * windowSizes[len(windowSizes)-1]}
	e.Apply(now, coordinator.PolicyChanged{Policy: &coordinator.Policy{Settings: settings}}, nil)
	heapSize() // what others have left behind goes at the second collection, at the latest
	empty := heapSize()
	var all windowResult
	ids := 0
	for _, size := range windowSizes {
		for ; ids < size; ids++ {
			e.Fold(now, &coordinator.Remembered{
				Key: coordinator.KeyOf(coordinator.TaskID(taskID(ids))), Content: uint64(ids),
				Fate: coordinator.FateSucceeded, Seen: now, Attempt: 1,
			})
		}
		all = append(all, windowRun{size, (heapSize() - empty) / float64(size)})
	}
	runtime.KeepAlive(e)
	return all
}

// heapSize is what is alive on our heap.
func heapSize() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}
