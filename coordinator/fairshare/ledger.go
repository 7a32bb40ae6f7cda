package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/health"
	"taskbus/coordinator/fairshare/rates"
	"taskbus/coordinator/fairshare/seats"
	"taskbus/coordinator/heap"
)

// Ledger is the quota trees and what is used of them. A call of an LLM, or a task, is
// charged to one chain of nodes in each tree that it concerns, from the leaf to the root;
// it is admitted if every node has room for it in every dimension, and then all of them
// are charged, or none. It belongs to one goroutine; the zero value is not usable, see
// NewLedger.
//
// Times are given by the caller and never go back: one before the latest counts as the
// latest.
type Ledger struct {
	*billing.Directory // where something is charged
	nodes              []node
	byID               map[string]int32
	roots              []*budget // of every family of budgets
	slab               []budget  // where they are made, all at once
	now                int64
	repay              int64   // percent
	alertAt            []int64 // percent, ascending

	nextPeriod int64 // when a budget begins anew
	walks      uint64
	fresh      bool // nothing has been charged yet: its time may still be any
	former     former
	closed     map[closedKey][]*coordinator.QuotaBefore // see clock.go
	unlisted   health.Kept                              // of pools and models

	open   map[coordinator.TaskKey]*reservation
	ending heap.Heap[*reservation] // those that end by themselves, the first first
	told   heap.Heap[*reservation] // calls that have ended and are remembered, likewise
	lapsed heap.Heap[*reservation] // calls that have expired, likewise
	// Of calls how many are open, in all and of each agent's.
	openCalls int
	opened    map[coordinator.AgentID]int
	spare     []*reservation
	loans     []loan    // of the check at hand
	found     []finding // by the check at hand
	loansMost int       // how many there may be in the end of what is borrowed now
	ripens    int64     // when there may be more to borrow than the latest try has found
	uses      []rateUse // of one that leaves nothing behind
	freed     []int32   // nodes that have got something back, each once
	alerts    []Alert
	// ailing are the pools that were cut back and get more with time, the next one at rising.
	ailing []int32
	rising int64
	// tentative: what is reserved may be released at once, and raises no alert yet.
	tentative bool
	forced    bool // what is checked is charged in any case, and borrows what there is
}

// node is one node of a quota tree.
type node struct {
	spec    *coordinator.QuotaNode
	parent  int32
	budgets [coordinator.NumDimensions]*budget
	rates   [coordinator.NumDimensions]*rates.Shaper
	seats   *seats.Limit
	// limited has a bit for each dimension in which there is a budget or a rate.
	limited uint8
	inner   bool // there are groups below it
	freed   bool
	// member is the node itself; of one beside another (see Directory.besides) that one. beside are those
	// beside it.
	member int32
	beside []int32
	health health.State // of a provider's pool or model
}

// Charge and Path are what is charged, and where: those of package billing.
type (
	Charge = billing.Charge
	Path   = billing.Path
)

// NewLedger makes a ledger without quotas: everything is admitted.
func NewLedger() *Ledger {
	return &Ledger{open: make(map[coordinator.TaskKey]*reservation), Directory: billing.NewDirectory(nil),
		opened: make(map[coordinator.AgentID]int), closed: make(map[closedKey][]*coordinator.QuotaBefore),
		ending: newEnding(), told: newEnding(), lapsed: newEnding(), rising: rates.Forever, fresh: true}
}

// Installed reports whether there are any quotas.
func (l *Ledger) Installed() bool { return l.Quotas() != nil }

// build makes the nodes of the trees.
func (l *Ledger) build(q *coordinator.Quotas) {
	l.nodes, l.byID = make([]node, l.NumNodes()), make(map[string]int32, l.NumNodes())
	for i := range l.nodes {
		spec, n := l.Spec(int32(i)), int32(i)
		l.nodes[i] = node{spec: spec, parent: int32(spec.Parent), member: n, beside: l.Beside(n)}
		l.byID[spec.ID] = n
		if i < len(q.Nodes) && spec.Kind == coordinator.QuotaGroup { // parents come first
			l.nodes[spec.Parent].inner = true
		}
	}
	for i := range l.nodes {
		for _, n := range l.nodes[i].beside {
			l.nodes[n].member = int32(i)
		}
	}
	l.slab = make([]budget, 0, l.budgets()) // it must not grow: they are pointed at
	l.downwards(l.limit)
	l.slab = nil
	l.downwards(func(n int32) { l.nodes[n].divide() })
	begun := make(map[coordinator.Period]*budget)
	for _, f := range l.roots {
		f.bounds(0, 0)
		if other := begun[f.period]; other != nil { // all are of one place
			f.span, f.ended = other.span, other.ended
		} else {
			f.find(l.now)
			begun[f.period] = f
		}
		f.restart(false)
	}
}

// downwards visits all nodes, parents, and those beside them, before children.
func (l *Ledger) downwards(visit func(n int32)) {
	for i := range l.Quotas().Nodes {
		visit(int32(i))
		for _, n := range l.nodes[i].beside {
			visit(n)
		}
	}
}

// budgets returns how many budgets there are at the most.
func (l *Ledger) budgets() (n int) {
	for i := range l.nodes {
		for _, b := range l.nodes[i].spec.Budgets {
			if b != nil {
				n++
			}
		}
	}
	return n
}

// advance moves the ledger's clock, and begins the periods that have begun.
func (l *Ledger) advance(now int64) {
	if l.now = max(l.now, inTime(now)); l.rising <= l.now {
		l.rise()
	}
	if l.now < l.nextPeriod {
		return
	}
	l.nextPeriod = rates.Forever
	for _, f := range l.roots {
		if l.now >= f.span.End {
			l.close(f)
			f.begin(l.now, l.repay)
		}
		l.nextPeriod = min(l.nextPeriod, f.span.End)
	}
}

// inTime returns an instant between 1970 and 2116: with others the sums and periods of this package are not right,
// whatever clock, or journal, says them.
func inTime(ns int64) int64 { return min(max(ns, 0), 1<<62) }

// Now returns the ledger's time: the latest that it was given. What is journalled of its changes carries this
// time.
func (l *Ledger) Now() time.Time { return timeOf(l.now) }

// timeOf turns the ledger's time into one for people; zero: never.
func timeOf(ns int64) time.Time {
	if ns == rates.Forever {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
