package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What quotas and fair queueing cost the way of a task: the same tasks, each of a group and
// with its expected usage, with a quotas.yaml and without.

// targetQuotas is how much of the rate may be lost to quotas.
const targetQuotas = 0.90

const (
	withQuotas    = "quotas"
	withoutQuotas = "no quotas"
	quotaOrgs     = 10  // top-level groups
	quotaTeams    = 100 // of them together
	quotaEnv      = "TASKBUS_QUOTAS"
)

// quotaContenders are the service with and without quotas.
func quotaContenders() []contender {
	_, without := contenders()
	without.name, without.task = withoutQuotas, groupTask
	with := without
	with.name = withQuotas
	with.start = func(ctx context.Context, b *bench) (*subject, error) {
		path := filepath.Join(b.dir, "quotas-file.yaml")
		if err := os.WriteFile(path, quotasFile(), 0o600); err != nil {
			return nil, fmt.Errorf("write the quotas: %w", err)
		}
		return startTaskbus(ctx, b, fleetFile(100_000, skills), unlimited(0), quotaEnv+"="+path)
	}
	return []contender{without, with}
}

// quotasFile has three levels, a budget and a rate in each of four dimensions at all of
// them, and room for everything: no task waits.
func quotasFile() []byte {
	var s strings.Builder
	s.WriteString("pool:\n  limits:\n")
	for _, d := range []string{"requests", "input_tokens", "output_tokens"} {
		fmt.Fprintf(&s, "    %s: [{amount: 900000000000000, per: month}, {rate: 900000000000, per: second}]\n", d)
	}
	s.WriteString("    cost_usd: [{amount: 900000000, per: month}, {rate: 900000, per: second}]\n")
	s.WriteString("prices:\n  - {provider: lab, model: m, input_per_million_tokens: 2.5, output_per_million_tokens: 10}\ngroups:\n")
	for i := range quotaOrgs {
		fmt.Fprintf(&s, "  - {id: org-%d, weight: %d}\n", i, 1+i)
	}
	for i := range quotaTeams {
		fmt.Fprintf(&s, "  - {id: team-%d, parent: org-%d, weight: %d}\n", i, i%quotaOrgs, 1+i%7)
	}
	return []byte(s.String())
}

// groupTask is the n-th task, with a group and what it is expected to take.
func groupTask(n int) amqp.Publishing {
	p := task(n)
	more := fmt.Sprintf(`,"group":"team-%d","estimated_usage":{"requests":1,"input_tokens":%d,"output_tokens":%d,"provider":"lab","model":"m"}}`,
		n%quotaTeams, 500+n%1500, 50+n%300)
	p.Body = append(slices.Clip(p.Body[:len(p.Body)-1]), more...)
	return p
}

// collectQuotas measures all of it.
func (b *bench) collectQuotas(ctx context.Context, r *results) error {
	if err := b.collectQuotasRoom(ctx, r); err != nil {
		return err
	}
	if err := b.collectQuotasWaiting(ctx, r); err != nil {
		return err
	}
	return b.collectQuotasEngine(ctx, r)
}

// judgeAllQuotas makes the verdicts about quotas.
func (r *results) judgeAllQuotas() []verdict {
	return slices.Concat([]verdict{r.judgeQuotas()}, r.judgeQuotasWaiting(), r.quotasOfEngine(), []verdict{r.judgeCheck()})
}

// collectQuotasRoom measures the service in pairs where no task waits.
func (b *bench) collectQuotasRoom(ctx context.Context, r *results) error {
	all := quotaContenders()
	for i := range b.options.pairs {
		for _, c := range all {
			run, err := b.throughput(ctx, c, b.options.tasks)
			if err != nil {
				return err
			}
			b.say("quotas %d/%d %-9s %6.0f tasks/s %6.1f µs CPU per task", i+1, b.options.pairs, c.name, run.TasksPerSec, run.CPUMicros)
			r.Quotas = append(r.Quotas, run)
		}
		slices.Reverse(all) // whoever comes later meets a warmer broker
	}
	return nil
}

// judgeQuotas is how much of the rate is left with quotas.
func (r *results) judgeQuotas() verdict {
	v := verdict{What: "throughput with quotas, of that without", Target: fmt.Sprintf("≥ %.2f", targetQuotas), Word: notMeasured}
	rate := func(t throughputRun) float64 { return t.TasksPerSec }
	cpu := func(t throughputRun) float64 { return t.CPUMicros }
	without, with := throughputOf(r.Quotas, withoutQuotas, rate), throughputOf(r.Quotas, withQuotas, rate)
	if len(with) == 0 {
		return v
	}
	ratios := pairwise(without, with, func(a, b float64) float64 { return b / a })
	return v.measured(median(ratios) >= targetQuotas, fmt.Sprintf("%.2f", median(ratios)),
		fmt.Sprintf("pairs %.2f to %.2f; %.0f and %.0f tasks/s; CPU per task %.1f and %.1f µs; 3 levels, 4 dimensions with a budget and a rate each",
			slices.Min(ratios), slices.Max(ratios), median(with), median(without),
			median(throughputOf(r.Quotas, withQuotas, cpu)), median(throughputOf(r.Quotas, withoutQuotas, cpu))))
}
