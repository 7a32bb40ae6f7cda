package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskbus/coordinator/bus"
)

// What quotas cost where tasks wait. Agents of the SDK work off a backlog with all the slots they
// have, all of it within the window. With quotas that have room for everything the tasks wait for
// agents, and go by turns of their groups. With scarce ones they wait for quota: the pool's
// concurrency is a little less than all slots, so that the groups' tasks wait for what every result
// gives back, and wake in turns, by weight; and its rate of requests is above all that the fleet
// can do, but has a small burst: what ends together does not begin again together. (Slots to spare
// would be another comparison: what an agent has done would go on with another one, and not with
// itself at once.) At last the window is the one there is without settings, which the backlog
// overflows: what crowds it is moved to lanes, which takes each task that is moved another way
// through the broker.

const (
	scarceQuota = "scarce"
	smallWindow = "overflow"
	quotaSeats  = cycleSlots*fleetSize - fleetSize/10 // of 1,000 slots
	quotaRate   = 20_000                              // requests a second
	quotaBurst  = 100
)

// quotaWaitRun is one backlog worked off while tasks wait.
type quotaWaitRun struct {
	Subject string `json:"subject"`
	cycleRun
	// Refused is how often a task was refused quota, Moved how often it was moved to a lane, and
	// JournalBytes what the journal took for each.
	Refused      float64 `json:"refused_per_task"`
	Moved        float64 `json:"moved_per_task"`
	JournalBytes float64 `json:"journal_bytes_per_task"`
}

// scarce are quotasFile's with a pool that is short.
func scarceQuotas() []byte {
	const pool = "pool:\n  limits:\n"
	short := fmt.Sprintf("    concurrency: {amount: %d}\n", quotaSeats)
	all := strings.Replace(string(quotasFile()), pool, pool+short, 1)
	return []byte(strings.Replace(all, "{rate: 900000000000, per: second}", fmt.Sprintf("{rate: %d, per: second, burst: %d}", quotaRate, quotaBurst), 1))
}

// collectQuotasWaiting measures them in pairs.
func (b *bench) collectQuotasWaiting(ctx context.Context, r *results) error {
	subjects := []string{withoutQuotas, withQuotas, scarceQuota, smallWindow}
	for i := range b.options.pairs {
		for _, subject := range subjects {
			run, err := b.quotasWaiting(ctx, subject, b.cycleTasks())
			if err != nil {
				return fmt.Errorf("%s: %w", subject, err)
			}
			b.say("quotas, waiting %d/%d %-9s %6.0f tasks/s %6.1f µs CPU per task, %.2f refusals, %.2f moves and %.0f bytes of journal each",
				i+1, b.options.pairs, subject, run.TasksPerSec, run.CPUMicros, run.Refused, run.Moved, run.JournalBytes)
			r.QuotasWaiting = append(r.QuotasWaiting, run)
		}
		slices.Reverse(subjects)
	}
	return nil
}

// quotasWaiting has the fleet work off n tasks.
func (b *bench) quotasWaiting(ctx context.Context, subject string, n int) (run quotaWaitRun, err error) {
	var env []string
	if file := map[string]func() []byte{withQuotas: quotasFile, scarceQuota: scarceQuotas, smallWindow: quotasFile}[subject]; file != nil {
		path := filepath.Join(b.dir, "quotas-waiting.yaml")
		if err := os.WriteFile(path, file(), 0o600); err != nil {
			return run, fmt.Errorf("write the quotas: %w", err)
		}
		env = append(env, quotaEnv+"="+path)
	}
	fleet := fleetFile(cycleSlots, skills)
	if subject != smallWindow {
		const settings = "global_settings: {"
		wide := fmt.Sprintf("%swindow: %d, max_queue_size: %d, ", settings, 3*n, 3*n) // more than half of it may not wait
		fleet = bytes.Replace(fleet, []byte(settings), []byte(wide), 1)
	}
	s, agents, err := b.startCycle(ctx, fleet, env...)
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	run = quotaWaitRun{Subject: subject, cycleRun: cycleRun{Tasks: n, Slots: cycleSlots}}
	c := quotaContenders()[0] // the tasks are the same
	before, err := s.metrics(ctx)
	if err != nil {
		return run, err
	}
	if err := b.cycleBacklog(ctx, s, agents, c, &run.cycleRun); err != nil {
		return run, err
	}
	after, err := s.metrics(ctx)
	if err != nil {
		return run, err
	}
	more := func(metric string) float64 { return (sumOf(after, metric) - sumOf(before, metric)) / float64(n) }
	run.Refused, run.JournalBytes = more("taskbus_quota_refusals_total"), more("taskbus_journal_bytes_total")
	run.Moved = more("taskbus_tasks_moved_total")
	if err := s.verifyCounted(ctx, uint64(n)); err != nil {
		return run, err
	}
	if err := s.stop(); err != nil {
		return run, err
	}
	return run, b.verifyResults(c, bus.StreamResult, newTally(n))
}

// sumOf adds up the series of a metric.
func sumOf(all map[string]float64, name string) (sum float64) {
	for series, value := range all {
		if bare, _, _ := strings.Cut(series, "{"); bare == name {
			sum += value
		}
	}
	return sum
}

// judgeQuotasWaiting is how much of the rate is left while tasks wait for agents, and for quota.
func (r *results) judgeQuotasWaiting() []verdict {
	return []verdict{
		r.judgeWaitingOf(withQuotas, "the same where tasks wait for agents", targetQuotas),
		r.judgeWaitingOf(scarceQuota, "the same where tasks wait for quota", targetQuotas),
		r.judgeWaitingOf(smallWindow, "the same where they overflow the window", 0),
	}
}

// judgeWaitingOf compares one of them with none; target 0: there is none.
func (r *results) judgeWaitingOf(subject, what string, target float64) verdict {
	v := verdict{What: what, Target: noTarget, Word: notMeasured}
	if target > 0 {
		v.Target = fmt.Sprintf("≥ %.2f", target)
	}
	of := func(subject string, f func(quotaWaitRun) float64) []float64 {
		return collect(slices.DeleteFunc(slices.Clone(r.QuotasWaiting), func(q quotaWaitRun) bool { return q.Subject != subject }), f)
	}
	rate := func(q quotaWaitRun) float64 { return q.TasksPerSec }
	without, with := of(withoutQuotas, rate), of(subject, rate)
	if len(with) == 0 {
		return v
	}
	ratios := pairwise(without, with, func(a, b float64) float64 { return b / a })
	both := func(f func(quotaWaitRun) float64) string {
		return fmt.Sprintf("%.1f and %.1f", median(of(subject, f)), median(of(withoutQuotas, f)))
	}
	result := fmt.Sprintf("%.2f", median(ratios))
	note := fmt.Sprintf("rounds %.2f to %.2f; %.0f and %.0f tasks/s, with agents and results; each refused %.2f times, moved %.2f times; CPU per task %s µs; journal %s bytes",
		slices.Min(ratios), slices.Max(ratios), median(with), median(without),
		median(of(subject, func(q quotaWaitRun) float64 { return q.Refused })), median(of(subject, func(q quotaWaitRun) float64 { return q.Moved })),
		both(func(q quotaWaitRun) float64 { return q.CPUMicros }), both(func(q quotaWaitRun) float64 { return q.JournalBytes }))
	if target == 0 {
		v.Word, v.Result, v.Note = "", result, note
		return v
	}
	return v.measured(median(ratios) >= target, result, note)
}
