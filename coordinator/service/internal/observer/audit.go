package observer

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/invariant"
	"taskbus/coordinator/view"
)

// maxToldCases bounds the memory of what was logged; beyond it violations are counted, and not logged.
const maxToldCases = 1000

// auditor keeps the results of the audits of this process. A violation is a fault of the program: no
// message can cause one.
type auditor struct {
	mu         sync.Mutex
	runs       uint64
	last       time.Time
	violations [invariant.Count]uint64 // cases, each counted with every run that finds it
	found      []view.Violation        // by the latest run that found any
	told       map[toldCase]bool
}

// toldCase is an invariant and a task or agent for which it was logged that it does not
// hold; an empty id: the invariant as such.
type toldCase struct {
	invariant invariant.Name
	id        string
}

// note takes over what a run has found, and returns what has not been logged yet.
func (a *auditor) note(now time.Time, found []invariant.Violation) (news []invariant.Violation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs++
	a.last = now
	if len(found) > 0 {
		a.found = make([]view.Violation, 0, len(found))
	}
	for _, v := range found {
		a.violations[v.Invariant] += uint64(v.Count)
		a.found = append(a.found, view.Violation{Invariant: v.Invariant.String(), Text: v.Text, IDs: v.IDs, Count: v.Count,
			At: now})
		if a.isNews(v) {
			news = append(news, v)
		}
	}
	return news
}

// isNews reports whether a violation, or that it concerns one of these ids, has not been
// logged yet.
func (a *auditor) isNews(v invariant.Violation) (news bool) {
	ids := v.IDs
	if len(ids) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		if c := (toldCase{v.Invariant, id}); !a.told[c] && len(a.told) < maxToldCases {
			if a.told == nil {
				a.told = make(map[toldCase]bool)
			}
			a.told[c], news = true, true
		}
	}
	return news
}

// status returns the auditor's part of /status.
func (a *auditor) status() view.Audit {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := view.Audit{Runs: a.runs, LastRun: a.last, Found: slices.Clone(a.found)}
	for _, n := range a.violations {
		s.Violations += n
	}
	return s
}

// metrics counts runs and violations. Every invariant has its series from the
// beginning, so that an increase from nothing is one.
func (a *auditor) metrics() []prometheus.Collector {
	count := func(opts prometheus.CounterOpts, of *uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(opts, func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			return float64(*of)
		})
	}
	all := []prometheus.Collector{count(prometheus.CounterOpts{
		Name: "taskbus_audit_runs_total", Help: "Audits of the books.",
	}, &a.runs)}
	for i := range a.violations {
		all = append(all, count(prometheus.CounterOpts{
			Name:        "taskbus_audit_violations_total",
			Help:        "Cases in which the books do not balance, by audit: a fault of Taskbus.",
			ConstLabels: prometheus.Labels{"invariant": invariant.Name(i).String()},
		}, &a.violations[i]))
	}
	return all
}

// Audited writes down what an audit has found.
func (o *Observer) Audited(found []invariant.Violation) {
	for _, v := range o.audited.note(o.now(), found) {
		o.log.Error().Stringer("invariant", v.Invariant).Str("violation", v.Text).Strs("ids", v.IDs).Int("cases", v.Count).
			Msg(
				"the coordinator's books do not balance: a fault of Taskbus, please report it with this line; tasks may be " +
					"stuck until it is started again (said once for each invariant and id)")
	}
}

// Audit returns what the audits of this process have found.
func (o *Observer) Audit() view.Audit { return o.audited.status() }
