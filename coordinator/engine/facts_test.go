package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/breaker"
	"taskbus/coordinator/engine/internal/dedupe"
)

// Facts are what an engine knows, in words, with the numbers apart that may differ a
// little: what a type's rate was at an outcome is read as of a second before, or less.
type Facts struct {
	tasks   map[coordinator.TaskKey]taskFacts
	words   map[string]string
	numbers map[string]float64
}

// taskFacts are what an engine knows of a task that is open (agents by name, in order), or has been.
// They are compared after every event: nothing is put into words that nobody reads.
type taskFacts struct {
	content                  uint64
	agent                    coordinator.AgentID
	fate                     coordinator.Fate
	flags                    dedupe.Flags
	reason                   string
	task                     coordinator.TaskID
	attempt                  int
	tried, failed, untouched string
	unanswered, withdrawn    bool
	returning, attempted     bool
	timeout                  time.Duration
	batch                    string
}

// named are agents, in their order.
func named(agents []coordinator.AgentID) (all string) {
	for _, id := range agents {
		all += string(id) + " "
	}
	return all
}

// Durable is what must survive of an engine's state, while leader leads. Tasks that wait are the
// broker's, and what an earlier dispatch of theirs has left may be known or not.
func Durable(e, leader *Engine, now time.Time) Facts {
	f := Facts{make(map[coordinator.TaskKey]taskFacts), make(map[string]string), make(map[string]float64)}
	for r := range e.dedupe.Latest() {
		if t := leader.taskOf(r.Key); t != nil && t.handle != 0 && t.state != stateDispatching {
			continue
		}
		open := e.tasks.of(r)
		if open == nil {
			if r.Attempt == 0 && (r.Fate == coordinator.FateForgotten || r.Fate == coordinator.FateFailed) {
				continue // as if it had never been seen
			}
			f.tasks[r.Key] = taskFacts{
				content: r.Content, agent: e.fleet.Named(r.Ref), fate: r.Fate, flags: r.Flags,
				reason: e.dedupe.Reason(r.Key), attempt: int(r.Attempt),
			}
			continue
		}
		f.tasks[r.Key] = taskFacts{
			content: r.Content, agent: open.agent.Spec.ID, task: open.task.ID, attempt: open.attempt,
			tried: named(open.tried), failed: named(open.failed), untouched: named(open.untouched),
			unanswered: open.state == stateDispatching || open.unanswered, withdrawn: open.withdrawn, returning: open.returning,
			attempted: open.attempted,
			timeout:   open.timeout, batch: open.batch,
		}
	}
	for _, a := range e.fleet.Agents {
		f.words["word of "+string(a.Spec.ID)] = fmt.Sprintf("%+v", a.bidding.Calibration)
	}
	for id, order := range e.fleet.Orders() {
		f.words["order "+string(id)] = order.String()
	}
	for i, o := range e.ends.Failures() {
		f.words[fmt.Sprint("owed ", i)] = fmt.Sprint(o.Task.ID, o.Failure)
	}
	for i, c := range e.QuotaControls() {
		f.words[fmt.Sprint("control ", i)] = fmt.Sprintf("%+v", c)
	}
	if start := e.controls.DayStart(); !start.IsZero() {
		f.words["day"] = fmt.Sprint(start.UTC())
	}
	for node, u := range e.DayUse() {
		f.words["day of "+node] = fmt.Sprintf("%+v", u)
	}
	s := e.learner.Export(func(i int) coordinator.AgentID { return e.fleet.Agents[i].Spec.ID })
	for _, a := range s.Agents { // shares do not depend on as of when they are read
		f.numbers[string(a.Agent)] = a.Successes / a.Expected
	}
	for _, t := range s.Types {
		for _, a := range t.Agents {
			f.numbers[t.Type+" "+string(a.Agent)] = a.Successes / a.Outcomes
		}
	}
	for _, r := range e.ejections.Records() {
		if breaker.State(r.State) != breaker.Open {
			r.Until = time.Time{}
		}
		f.words[fmt.Sprint("breaker ", r.Agent, r.Capability)] = fmt.Sprint(r.State, r.Until, r.Opened, len(r.Faults))
	}
	return f
}

// taskOf is the open task of a key; nil when there is none.
func (e *Engine) taskOf(key coordinator.TaskKey) *openTask {
	return e.tasks.of(e.dedupe.Peek(key))
}

// Alike reports whether two engines know the same.
func Alike(a, b Facts) bool {
	return maps.Equal(a.tasks, b.tasks) && maps.Equal(a.words, b.words) && maps.EqualFunc(a.numbers, b.numbers, near)
}

// near tells whether numbers differ by a ten-thousandth at most: of themselves, if they are above 1.
func near(x, y float64) bool { return math.Abs(x-y) < 1e-4*max(1, x, y) }

// Show is what of a is not in b.
func Show(a, b Facts) string {
	var lines []string
	for k, t := range a.tasks {
		if b.tasks[k] != t {
			lines = append(lines, fmt.Sprintf("%x: %+v", k, t))
		}
	}
	slices.Sort(lines)
	for _, k := range slices.Sorted(maps.Keys(a.words)) {
		if b.words[k] != a.words[k] {
			lines = append(lines, k+": "+a.words[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a.numbers)) {
		if !near(a.numbers[k], b.numbers[k]) {
			lines = append(lines, fmt.Sprint(k, ": ", a.numbers[k]))
		}
	}
	return strings.Join(lines, "\n")
}

// AddQuotas adds what is known of quotas; lags: also how far each group lags behind.
func (f Facts) AddQuotas(e *Engine, now time.Time, lags bool) {
	for _, r := range e.quotas.Ledger.Export(now) {
		switch r := r.(type) {
		case *coordinator.QuotaBefore:
			f.words[fmt.Sprint("used ", r.Node, r.Dimension, r.Rate)] = fmt.Sprint(r.Start, r.Values)
		case *coordinator.PoolHeard:
			f.words["heard of "+r.Node] = fmt.Sprint(r.BlockedUntil, r.PerMille, r.CutAt, r.Refusals, r.Calls, r.Success,
				r.Latency)
		case *coordinator.QuotaReserved:
			key := fmt.Sprint("reserved ", r.Key)
			f.words[key] += fmt.Sprintf("%+v %+v;", *r, r.Loans)
		}
	}
	for _, r := range e.quotas.Estimator.Export() {
		f.words[fmt.Sprint("estimate ", r.Tenant, r.Model, r.Level, r.Input, r.Bucket)] = fmt.Sprint(r.Sum, r.Counts)
	}
	shares := e.quotas.Shares.Export()
	if e.quotas.Installed() { // without nothing is written down of them
		f.words["turns of priorities"] = fmt.Sprint(shares.Credit)
	}
	if !lags {
		return
	}
	for _, g := range shares.Tags {
		if g.Lead > 0 {
			f.words[fmt.Sprint("share ", g.Name, g.Own)] = fmt.Sprint(g.Lead)
		}
	}
}
