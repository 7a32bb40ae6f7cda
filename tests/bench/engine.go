package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// engineRun is one line of the engine's own benchmark.
type engineRun struct {
	Name            string  `json:"name"`
	Agents          int     `json:"agents"` // 0: the name does not say
	NanosPerOp      float64 `json:"ns_per_op"`
	DecisionsPerSec float64 `json:"decisions_per_second"`
	BytesPerOp      float64 `json:"bytes_per_op"`
	AllocsPerOp     float64 `json:"allocs_per_op"`
	// EventsPerSec of a simulation; 0 for the others.
	EventsPerSec float64 `json:"events_per_second,omitempty"`
	// More are measures by their units, such as "ratio".
	More map[string]float64 `json:"more,omitempty"`
}

const (
	enginePackage    = "./coordinator/engine"
	simulatorPackage = "./coordinator/simulator"
)

// goBench runs a benchmark of a package a few times, because the machine is shared.
func goBench(ctx context.Context, pkg, name string, times int) ([]engineRun, error) {
	return goBenchFor(ctx, pkg, name, "500ms", times)
}

// goBenchFor runs each for that long, or that often ("10000x").
func goBenchFor(ctx context.Context, pkg, name, length string, times int) ([]engineRun, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", name, "-benchmem", "-benchtime", length, "-count", strconv.Itoa(times), pkg)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s of %s: %w\n%s%s", name, pkg, err, out, stderr.String())
	}
	return parseEngine(string(out)), nil
}

var agentsInName = regexp.MustCompile(`agents=(\d+)|/(\d+)(?:-\d+)?$`)

// parseEngine reads the lines of `go test -bench`: a name, the iterations, and
// pairs of value and unit. One operation is one decision unless the line has a
// measure of its own called decisions/s.
func parseEngine(out string) []engineRun {
	var runs []engineRun
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") || strings.HasPrefix(fields[0], "BenchmarkReport") {
			continue
		}
		run := engineRun{Name: fields[0]}
		if m := agentsInName.FindStringSubmatch(fields[0]); m != nil {
			run.Agents, _ = strconv.Atoi(m[1] + m[2]) // digits by the pattern
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				break
			}
			switch fields[i+1] {
			case "ns/op":
				run.NanosPerOp = value
			case "B/op":
				run.BytesPerOp = value
			case "allocs/op":
				run.AllocsPerOp = value
			case "decisions/s":
				run.DecisionsPerSec = value
			case "events/s":
				run.EventsPerSec = value
			default:
				if run.More == nil {
					run.More = make(map[string]float64)
				}
				run.More[fields[i+1]] = value
			}
		}
		if run.DecisionsPerSec == 0 && run.NanosPerOp > 0 {
			run.DecisionsPerSec = 1e9 / run.NanosPerOp
		}
		runs = append(runs, run)
	}
	return runs
}
