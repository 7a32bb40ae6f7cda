package engine

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/agentset"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
)

// What readers see of quotas: it shares nothing with the engine.
type (
	QuotaSnapshot = admission.Snapshot
	QuotaGroup    = admission.Group
	QuotaQuestion = admission.Question
	QuotaAnswer   = admission.Answer
)

// QuotasMissing reports whether there are no quotas although leaders before had some, of which something
// is still known.
func (e *Engine) QuotasMissing() bool {
	return !e.quotas.Installed() && e.quotas.Ledger.Remembers()
}

// Quotas returns a copy of the state of quotas for readers: at most most of the nodes that are wanted (nil: all).
// Nothing changes but the time. It takes O(nodes + groups + leaves that wait in all classes), however many tasks
// wait there. A standby engine returns the state at the time of the latest record.
func (e *Engine) Quotas(now time.Time, most int,
	wanted func(n *coordinator.QuotaNode, provider string) bool) QuotaSnapshot {
	if !e.quotas.Installed() {
		return QuotaSnapshot{}
	}
	if wanted == nil {
		wanted = func(*coordinator.QuotaNode, string) bool { return true }
	}
	leaves := e.quotas.Shares.Leaves()
	waiting := admission.Waiting{All: make([]int, leaves), Parked: make([]int, leaves)}
	for _, c := range e.pending.Active() {
		c.Waiting.Leaves(func(leaf, _, n int, parked bool) {
			waiting.All[leaf] += n
			if parked || c.Parked(-1) {
				waiting.Parked[leaf] += n
			}
		})
	}
	return e.quotas.View(now, e.quotaTime(now), most, wanted, waiting)
}

// QuotaPage is Quotas for at most most of all nodes, from the one behind that of an ID on; only the first
// page, without one, has the rest. It takes O(most) else. more: there are nodes behind these; ok is
// false where there is no node of that ID.
func (e *Engine) QuotaPage(now time.Time, after string, most int) (s QuotaSnapshot, more, ok bool) {
	if !e.quotas.Installed() {
		return s, false, true
	}
	if after == "" {
		s = e.Quotas(now, 0, func(*coordinator.QuotaNode, string) bool { return false })
	}
	s.Installed = true
	s.Nodes, s.All, more, ok = e.quotas.Ledger.Page(e.quotaTime(now), after, most)
	return s, more, ok
}

// HasQuotas reports whether there are any.
func (e *Engine) HasQuotas() bool { return e.quotas.Installed() }

// QuotaIDs names the nodes that are wanted, parents before children. It takes O(nodes), and copies none.
func (e *Engine) QuotaIDs(wanted func(n *coordinator.QuotaNode, provider string) bool) []string {
	return e.quotas.Ledger.IDs(wanted)
}

// QuotaNodes copies the nodes of these IDs, as far as there are any. It takes O(IDs).
func (e *Engine) QuotaNodes(now time.Time, ids []string) (nodes []fairshare.NodeView) {
	at := e.quotaTime(now)
	for _, id := range ids {
		if n, ok := e.quotas.Ledger.Node(at, id); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// ExplainQuota is whether there is quota for something now, and what is left of every
// limit that it meets. Nothing is charged. ok is false where there are no quotas.
func (e *Engine) ExplainQuota(now time.Time, question *QuotaQuestion) (a QuotaAnswer, ok bool) {
	e.quotas.Ledger.Looking(true)
	defer e.quotas.Ledger.Looking(false)
	if !e.quotas.Installed() {
		return a, false
	}
	return e.quotas.Explain(e.quotaTime(now), &e.calls, question), true
}

// explainLack adds to how a task would be decided, or why it waits, what quota it lacks, with the reason for which
// it waits or fails then. open is the task if it is open, else nil; chosen the agent that it would go to but for
// quota.
func (e *Engine) explainLack(now time.Time, t, open *openTask, chosen *agent,
	d *coordinator.Decision) (coordinator.Reason, string) {
	lacks, able := e.lackOf(e.quotaTime(now), t, open)
	switch {
	case lacks == nil && able != nil && !able.Has(chosen.Number) && !t.asks(): // it has none of its own, and others have
		if a, choice := e.chooseAmong(t, able); a != nil {
			d.Agent, d.Preferred, d.Explored = choice.Agent, choice.Preferred, choice.Explored
		}
		return coordinator.ReasonNone, ""
	case lacks == nil:
		return coordinator.ReasonNone, ""
	case lacks.Permanent:
		d.Agent = ""
		return coordinator.ReasonExceedsQuota, lacks.Describe()
	}
	d.Lacks = lacks.Lack()
	return coordinator.ReasonQuotaExhausted, d.Lacks.Text
}

// lackOf returns what quota keeps the task waiting, or would; nil: none does. able are then the agents that have
// enough of their own, nil: it makes no difference.
func (e *Engine) lackOf(now time.Time, t, open *openTask) (lacks *fairshare.Verdict, able agentset.Set) {
	if e.quotaDemand(t) == nil || open != nil && open.quota != nil && open.quota.Open { // it has what it needs
		return nil, nil
	}
	if w := e.waitOf(open); w != nil {
		return &w.Lacks, nil
	}
	able, lacks, _ = e.quotaMissing(now, t)
	switch behind := open == nil && e.waitsForQuota(t); {
	case behind && (able != nil || lacks == nil || !lacks.Permanent):
		return &e.waitAt(t.needs.class, e.leafOf(t)).Lacks, nil
	case able != nil:
		return nil, able
	}
	return lacks, nil
}

// explainModels adds to how a task would be decided how each of its models stands now. If it would wait behind
// another task, it adds how they stand for that task instead; they are the same models: the explanation says what
// each must have again first.
func (e *Engine) explainModels(now time.Time, t *openTask, d *coordinator.Decision) {
	routes := e.quotas.Routes(t.task)
	if routes == nil || e.quotaDemand(t) == nil {
		return
	}
	if w := e.waitAt(t.needs.class, e.leafOf(t)); d.Lacks != nil && w != nil {
		t = w.Task.(*openTask)
	}
	d.Models = e.quotas.Choose(now, t.task, d.Agent, routes).Models
}
