package quotacontrol

import (
	"maps"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// day is what groups and agents have used on the day at hand, for the rules that change quotas by it.
// Nothing is counted while there is no rule.
type day struct {
	// start of the day that is counted: midnight, or when counting began; zero: nothing is.
	start time.Time
	uses  map[string]*coordinator.QuotaUse // by node; one that has not used anything is not there
	// chains are the nodes of the pool that a group's tasks are charged to, from the group up, by its
	// name; agents those of agents.
	chains map[string][]string
	agents map[string]bool
}

// Under has the day be counted by these quotas; nil: there are none.
func (c *Controls) Under(q *coordinator.Quotas) {
	d := &c.day
	d.chains, d.agents = nil, nil
	if q == nil || !q.Adjustment.On() {
		return
	}
	d.chains, d.agents = make(map[string][]string), make(map[string]bool)
	for i := range pooled(q) {
		switch n := &q.Nodes[i]; n.Kind {
		case coordinator.QuotaGroup:
			chain := []string{n.ID}
			if above := &q.Nodes[n.Parent]; above.Kind == coordinator.QuotaGroup {
				chain = append(chain, d.chains[above.Name]...)
			}
			d.chains[n.Name] = chain
		case coordinator.QuotaAgent:
			d.agents[n.ID] = true
		}
	}
}

// pooled returns the nodes of the pool without a provider, which comes first.
func pooled(q *coordinator.Quotas) []coordinator.QuotaNode {
	for i := range q.Nodes {
		if i > 0 && q.Nodes[i].Parent < 0 {
			return q.Nodes[:i]
		}
	}
	return q.Nodes
}

// Count counts what a task, or call, has used that has been settled: for the group that it names or, as
// it takes the quota of that, for its agent's.
func (c *Controls) Count(l *fairshare.Ledger, charge *fairshare.Charge, ended *coordinator.QuotaEnded) {
	d := &c.day
	if d.start.IsZero() || ended.How != coordinator.QuotaSettled {
		return
	}
	group := charge.Group
	if group == "" {
		group, _ = l.GroupOfAgent(charge.Agent)
	}
	chain := d.chains[group]
	if len(chain) == 0 {
		return
	}
	if own := chain[0] + "/" + string(charge.Agent); d.agents[own] {
		add(d.use(own), ended)
	}
	for _, id := range chain {
		add(d.use(id), ended)
	}
}

// use returns what a node has used.
func (d *day) use(node string) *coordinator.QuotaUse {
	u := d.uses[node]
	if u == nil {
		u = &coordinator.QuotaUse{Node: node}
		d.uses[node] = u
	}
	return u
}

// add counts what has ended. A day holds no more than its numbers can, whatever was reported: below 0 it
// would say the opposite.
func add(u *coordinator.QuotaUse, ended *coordinator.QuotaEnded) {
	for dim := range u.Used {
		u.Used[dim] = sumUpTo(u.Used[dim], ended.Used[dim])
	}
	if ended.Took > 0 {
		u.Answers, u.Took = u.Answers+1, sumUpTo(u.Took, ended.Took)
	}
}

// sumUpTo returns the sum of two numbers of at least 0, or the largest one there is.
func sumUpTo[T ~int64](a, b T) T {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// begin counts a new day. Of the one before only the runs of idle days go on.
func (d *day) begin(start time.Time, runs map[string]int) {
	d.start, d.uses = start, make(map[string]*coordinator.QuotaUse, len(runs))
	for node, run := range runs {
		d.use(node).Run = run
	}
}

// DayStart returns when the count of the day at hand began; zero: nothing is counted.
func (c *Controls) DayStart() time.Time { return c.day.start }

// DayNotAfter moves a day that a clock which was ahead has begun to now, from when on it is not a whole
// one; false: it has begun by now.
func (c *Controls) DayNotAfter(now time.Time) bool {
	if !c.day.start.After(now) {
		return false
	}
	c.day.start = now
	return true
}

// recordUses is how many nodes of a day one record has at most.
const recordUses = 256

// DayRecords returns the day at hand as it stands.
func (c *Controls) DayRecords() []coordinator.Record { return c.day.records() }

func (d *day) records() (list []coordinator.Record) {
	if d.start.IsZero() {
		return nil
	}
	var uses []coordinator.QuotaUse
	for _, node := range slices.Sorted(maps.Keys(d.uses)) {
		uses = append(uses, *d.uses[node])
	}
	list = append(list, &coordinator.QuotaControlled{Day: d.start}) // also one on which nothing was used
	for chunk := range slices.Chunk(uses, recordUses) {
		list = append(list, &coordinator.QuotaControlled{Day: d.start, Uses: chunk})
	}
	return list
}

// fold takes over what a record says of the day.
func (d *day) fold(r *coordinator.QuotaControlled) {
	if r.First {
		d.start, d.uses = time.Time{}, nil
	}
	if r.Day.IsZero() {
		return
	}
	if !r.Day.Equal(d.start) {
		d.begin(r.Day, nil)
	}
	for i := range r.Uses {
		one := r.Uses[i]
		d.uses[one.Node] = &one
	}
}
