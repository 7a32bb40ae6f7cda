package admission

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/llmcalls"
)

// Waiting is what is read of the tasks that wait.
type Waiting interface {
	// ByLeaf returns how many tasks wait in each of so many tenant queues, and how many of these are parked.
	ByLeaf(leaves int) (all, parked []int)
}

// Reader answers what readers want to know of quotas at a moment. Nothing changes but the time. It is good until
// quotas or what waits change; its answers share nothing with them.
type Reader struct {
	Quotas  *Quotas
	Calls   *llmcalls.Leases
	Now, At time.Time // the moment, and as of when limits are read
	Waiting Waiting
}

// Installed reports whether there are quotas.
func (r Reader) Installed() bool { return r.Quotas.Installed() }

// Missing reports whether there are no quotas although leaders before had some, of which something is still known.
func (r Reader) Missing() bool { return !r.Installed() && r.Quotas.Ledger.Remembers() }

// Snapshot returns a copy of the state of quotas: at most most of the nodes that are wanted (nil: all). It takes
// O(nodes + groups + leaves that wait in all classes), however many tasks wait there.
func (r Reader) Snapshot(most int, wanted func(n *coordinator.QuotaNode, provider string) bool) Snapshot {
	q := r.Quotas
	if !q.Installed() {
		return Snapshot{}
	}
	if wanted == nil {
		wanted = func(*coordinator.QuotaNode, string) bool { return true }
	}
	flow := q.Flow.At(r.Now)
	s := Snapshot{Installed: true, Rate: flow.Rate(r.Now), Groups: q.groups(&flow, r.Waiting), Refused: q.Refused}
	s.Reserved, s.Used = flow.Reported()
	s.Nodes, s.All = q.Ledger.ViewOf(r.At, most, wanted)
	return s
}

// Page is Snapshot with at most most of all nodes, from the one behind that of an ID on; only the first page, without
// one, has the rest. It takes O(most) else. more: there are nodes behind these; ok is false where there is no node of
// that ID.
func (r Reader) Page(after string, most int) (s Snapshot, more, ok bool) {
	if !r.Installed() {
		return s, false, true
	}
	if after == "" {
		s = r.Snapshot(0, func(*coordinator.QuotaNode, string) bool { return false })
	}
	s.Installed = true
	s.Nodes, s.All, more, ok = r.Quotas.Ledger.Page(r.At, after, most)
	return s, more, ok
}

// IDs names the nodes that are wanted, parents before children. It takes O(nodes), and copies none.
func (r Reader) IDs(wanted func(n *coordinator.QuotaNode, provider string) bool) []string {
	return r.Quotas.Ledger.IDs(wanted)
}

// Nodes copies the nodes of these IDs, as far as there are any. It takes O(IDs).
func (r Reader) Nodes(ids []string) []fairshare.NodeView { return r.Quotas.Ledger.Nodes(r.At, ids) }

// Explain returns whether there is quota for something, and what is left of every limit that it meets. Nothing is
// charged. ok is false where there are no quotas.
func (r Reader) Explain(question *Question) (a Answer, ok bool) {
	if !r.Installed() {
		return a, false
	}
	return r.Quotas.explain(r.At, r.Calls, question), true
}
