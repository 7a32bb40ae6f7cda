package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskbus/coordinator/bus"
)

// What quotas cost where tasks wait for them. Agents of the SDK work off a backlog. As many
// tasks may be with them at one time on both sides: without quotas because of their slots, with
// quotas because of the pool's concurrency, while slots are free. Then the groups' tasks wait
// for what every result gives back, and wake in turns, by weight. The pool's rate of requests is
// above all that the fleet can do, but has a small burst: what ends together does not begin
// again together. So quotas change the order, and the pace within milliseconds, but not how much
// can be done.

const (
	quotaSlots = cycleSlots - 2 // of each agent, without quotas
	quotaRate  = 20_000         // requests a second
	quotaBurst = 20
)

// quotaWaitRun is one backlog worked off while tasks wait.
type quotaWaitRun struct {
	Subject string `json:"subject"`
	cycleRun
	// Refused is how often a task had to wait for quota, JournalBytes what the journal
	// took for each.
	Refused      float64 `json:"refused_per_task"`
	JournalBytes float64 `json:"journal_bytes_per_task"`
}

// scarce are quotasFile's with a pool that is short.
func scarceQuotas() []byte {
	const pool = "pool:\n  limits:\n"
	short := fmt.Sprintf("    concurrency: {amount: %d}\n", quotaSlots*fleetSize)
	all := strings.Replace(string(quotasFile()), pool, pool+short, 1)
	return []byte(strings.Replace(all, "{rate: 900000000000, per: second}", fmt.Sprintf("{rate: %d, per: second, burst: %d}", quotaRate, quotaBurst), 1))
}

// collectQuotasWaiting measures them in pairs.
func (b *bench) collectQuotasWaiting(ctx context.Context, r *results) error {
	subjects := []string{withoutQuotas, withQuotas}
	for i := range b.options.pairs {
		for _, subject := range subjects {
			run, err := b.quotasWaiting(ctx, subject, b.cycleTasks())
			if err != nil {
				return fmt.Errorf("%s: %w", subject, err)
			}
			b.say("quotas, waiting %d/%d %-9s %6.0f tasks/s %6.1f µs CPU per task, %.2f waits and %.0f bytes of journal each",
				i+1, b.options.pairs, subject, run.TasksPerSec, run.CPUMicros, run.Refused, run.JournalBytes)
			r.QuotasWaiting = append(r.QuotasWaiting, run)
		}
		slices.Reverse(subjects)
	}
	return nil
}

// quotasWaiting has the fleet work off n tasks.
func (b *bench) quotasWaiting(ctx context.Context, subject string, n int) (run quotaWaitRun, err error) {
	slots, env := quotaSlots, []string(nil)
	if subject == withQuotas {
		path := filepath.Join(b.dir, "quotas-waiting.yaml")
		if err := os.WriteFile(path, scarceQuotas(), 0o600); err != nil {
			return run, fmt.Errorf("write the quotas: %w", err)
		}
		slots, env = cycleSlots, []string{quotaEnv + "=" + path}
	}
	s, agents, err := b.startCycle(ctx, slots, env...)
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	run = quotaWaitRun{Subject: subject, cycleRun: cycleRun{Tasks: n, Slots: slots}}
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

// judgeQuotasWaiting is how much of the rate is left while tasks wait for quota.
func (r *results) judgeQuotasWaiting() verdict {
	v := verdict{What: "the same where tasks wait for quota", Target: fmt.Sprintf("≥ %.2f", targetQuotas), Word: notMeasured}
	of := func(subject string, f func(quotaWaitRun) float64) []float64 {
		return collect(slices.DeleteFunc(slices.Clone(r.QuotasWaiting), func(q quotaWaitRun) bool { return q.Subject != subject }), f)
	}
	rate := func(q quotaWaitRun) float64 { return q.TasksPerSec }
	without, with := of(withoutQuotas, rate), of(withQuotas, rate)
	if len(with) == 0 {
		return v
	}
	ratios := pairwise(without, with, func(a, b float64) float64 { return b / a })
	both := func(f func(quotaWaitRun) float64) string {
		return fmt.Sprintf("%.1f and %.1f", median(of(withQuotas, f)), median(of(withoutQuotas, f)))
	}
	return v.measured(median(ratios) >= targetQuotas, fmt.Sprintf("%.2f", median(ratios)),
		fmt.Sprintf("pairs %.2f to %.2f; %.0f and %.0f tasks/s, with agents and results; a task waits %.2f times; CPU per task %s µs; journal %s bytes",
			slices.Min(ratios), slices.Max(ratios), median(with), median(without),
			median(of(withQuotas, func(q quotaWaitRun) float64 { return q.Refused })),
			both(func(q quotaWaitRun) float64 { return q.CPUMicros }), both(func(q quotaWaitRun) float64 { return q.JournalBytes })))
}
