package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// What quotas cost the engine alone, by its own benchmark: that does the same work with quotas
// and without, in turns. And what it costs to ask whether there is room for one call, by that of
// the package that answers.

const quotasBenchmark = "BenchmarkQuotas"

// quotaModes are its parts, and what they are called for people.
var quotaModes = [...]struct{ name, what string }{
	{"room", "nobody waits"}, {"rate", "all wait for a rate"}, {"seats", "all wait for seats"},
}

// quotaGroups are the numbers of groups; quotaGroupsShown is that of the row itself.
var quotaGroups = [...]int{10, 1000, 10_000}

const quotaGroupsShown = 1000

const (
	fairsharePackage = "./coordinator/fairshare"
	checkBenchmark   = "BenchmarkCheck"
	targetCheck      = 1_000.0 // ns
)

func (b *bench) collectQuotasEngine(ctx context.Context, r *results) (err error) {
	tasks, times := 50_000, 3
	if b.options.quick {
		tasks, times = 5_000, 1
	}
	b.say("engine: go test -bench %s %s", quotasBenchmark, enginePackage)
	if r.QuotasEngine, err = goBenchFor(ctx, enginePackage, quotasBenchmark, fmt.Sprintf("%dx", tasks), times); err != nil {
		return err
	}
	b.say("quotas: go test -bench %s %s", checkBenchmark, fairsharePackage)
	r.QuotasCheck, err = goBench(ctx, fairsharePackage, "^"+checkBenchmark+"$", times)
	return err
}

// judgeCheck is the time of one check where there is room. It is done for every task, and again
// whenever one may have got its quota, so that it may not allocate either.
func (r *results) judgeCheck() verdict {
	v := verdict{What: "check, 3 levels, 4 dimensions, 10000 tenants", Target: fmt.Sprintf("≤ %.0f µs", targetCheck/1000), Word: notMeasured}
	e, ok := medianOf(r.QuotasCheck, func(e engineRun) bool { return strings.HasPrefix(e.Name+"-", checkBenchmark+"-") })
	if !ok {
		return v
	}
	return v.measured(e.NanosPerOp <= targetCheck && e.AllocsPerOp == 0, fmt.Sprintf("%.2f µs", e.NanosPerOp/1000),
		fmt.Sprintf("%.0f allocations (0 is the target); a budget and a rate in each dimension at each level", e.AllocsPerOp))
}

// quotasOfEngine tells what a task takes more.
func (r *results) quotasOfEngine() (rows []verdict) {
	for _, mode := range quotaModes {
		v := verdict{What: fmt.Sprintf("engine, %d groups, %s", quotaGroupsShown, mode.what), Target: noTarget, Word: notMeasured}
		var notes []string
		for _, groups := range quotaGroups {
			of := func(unit string) float64 { return r.quotaFigure(mode.name, groups, unit) }
			if of("quota-ns/task") == 0 {
				continue
			}
			if groups == quotaGroupsShown {
				v.Word, v.Result = "", fmt.Sprintf("%.1f µs more", (of("quota-ns/task")-of("plain-ns/task"))/1000)
			}
			notes = append(notes, fmt.Sprintf("%d: %.1f and %.1f µs, %.0f and %.0f allocations, journal %.0f and %.0f bytes", groups,
				of("quota-ns/task")/1000, of("plain-ns/task")/1000, of("quota-allocs/task"), of("plain-allocs/task"), of("quota-journal-B/task"), of("plain-journal-B/task")))
		}
		v.Note = strings.Join(notes, "; ")
		rows = append(rows, v)
	}
	return rows
}

// quotaFigure is the median of a measure over the runs; 0 without any.
func (r *results) quotaFigure(mode string, groups int, unit string) float64 {
	name := fmt.Sprintf("%s/%s/groups=%d-", quotasBenchmark, mode, groups)
	runs := slices.DeleteFunc(slices.Clone(r.QuotasEngine), func(e engineRun) bool { return !strings.HasPrefix(e.Name+"-", name) })
	return median(collect(runs, func(e engineRun) float64 { return e.More[unit] }))
}
