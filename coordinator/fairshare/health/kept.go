package health

import (
	"slices"

	"taskbus/coordinator"
)

// mostKept is how many states are kept: beyond that the first are forgotten.
const mostKept = 100_000

// Kept are the states of pools and models that quotas do not list: those that they listed before, and those of
// others' records. A provider that wants no call for an hour is not asked sooner because it was out of the file for a
// moment. They are forgotten when they would stand no worse than one of which nothing was heard; how they have
// answered of late is no reason to keep them. The zero value keeps none.
type Kept struct{ all []kept }

type kept struct {
	node  string
	state State
}

// Keep keeps the state of a node that is not listed any more.
func (k *Kept) Keep(now int64, node string, s State) {
	k.Forget(now)
	k.all = slices.DeleteFunc(k.all, func(x kept) bool { return x.node == node })
	if s.Rise(now); s.over(now) {
		return
	}
	if k.all = append(k.all, kept{node, s}); len(k.all) > mostKept {
		k.all[0] = kept{} // its place goes when more room is made
		k.all = k.all[1:]
	}
}

// Fold keeps what a record says of a node that is not listed.
func (k *Kept) Fold(now int64, r *coordinator.PoolHeard) {
	var s State
	s.Fold(max(nsOf(r.At), nsOf(r.CutAt)), r)
	k.Keep(now, r.Node, s)
}

// Forget drops what makes no difference any more, and gives the others back what they get with time.
func (k *Kept) Forget(now int64) {
	for i := range k.all {
		k.all[i].state.Rise(now)
	}
	k.all = slices.DeleteFunc(k.all, func(x kept) bool { return x.state.over(now) })
}

// Resume has listed take over the states of those that are listed again; it reports whether a node is.
func (k *Kept) Resume(now int64, listed func(node string, s State) bool) {
	k.Forget(now)
	k.all = slices.DeleteFunc(k.all, func(x kept) bool { return listed(x.node, x.state) })
}

// Records returns those of a snapshot, in the order in which they went.
func (k *Kept) Records(now int64) (all []coordinator.Record) {
	k.Forget(now)
	for i := range k.all {
		all = append(all, k.all[i].state.Before(k.all[i].node, now))
	}
	return all
}

// Len returns of how many nodes a state is kept.
func (k *Kept) Len() int { return len(k.all) }
