package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// What groups and agents have used on the day at hand, for the rules of quotas.yaml that change
// quotas day by day (see quotarules.go). Nothing is counted while there is no rule.
type quotaDays struct {
	// start of the day that is counted: midnight, or when counting began; zero: nothing is.
	start time.Time
	uses  map[string]*coordinator.QuotaUse // by node; one that has not used anything is not there
	// chains are the nodes of the pool that a group's tasks are charged to, from the group up,
	// by its name; agents those of agents.
	chains map[string][]string
	agents map[string]bool
	due    timer
}

func newQuotaDays() quotaDays { return quotaDays{due: newTimer(dutyDay, nil, nil)} }

// daysUnder takes over the quotas of a policy.
func (e *Engine) daysUnder() {
	d, q := &e.days, e.quotas.ledger.Quotas()
	d.chains, d.agents = nil, nil
	if q != nil && q.Adjustment.On() {
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
	e.scheduleDay()
}

// pooled are the nodes of the pool without a provider, which comes first.
func pooled(q *coordinator.Quotas) []coordinator.QuotaNode {
	for i := range q.Nodes {
		if i > 0 && q.Nodes[i].Parent < 0 {
			return q.Nodes[:i]
		}
	}
	return q.Nodes
}

// countDay counts what a task, or call, has used that has been settled and recorded: for the group that
// it names, or, as it takes the quota of that, for its agent's.
func (e *Engine) countDay(c *fairshare.Charge, ended *coordinator.QuotaEnded) {
	d := &e.days
	if d.start.IsZero() || ended.How != coordinator.QuotaSettled {
		return
	}
	group := c.Group
	if group == "" {
		group, _ = e.quotas.ledger.GroupOfAgent(c.Agent)
	}
	chain := d.chains[group]
	if len(chain) == 0 {
		return
	}
	if own := chain[0] + "/" + string(c.Agent); d.agents[own] {
		d.use(own).add(ended)
	}
	for _, id := range chain {
		d.use(id).add(ended)
	}
}

// dayUse is what a node has used.
type dayUse struct{ *coordinator.QuotaUse }

func (d *quotaDays) use(node string) dayUse {
	u := d.uses[node]
	if u == nil {
		u = &coordinator.QuotaUse{Node: node}
		d.uses[node] = u
	}
	return dayUse{u}
}

// add counts what has ended. A day holds no more than its numbers can, whatever was told: below 0 it
// would say the opposite.
func (u dayUse) add(ended *coordinator.QuotaEnded) {
	for dim := range u.Used {
		u.Used[dim] = sumUpTo(u.Used[dim], ended.Used[dim])
	}
	if ended.Took > 0 {
		u.Answers, u.Took = u.Answers+1, sumUpTo(u.Took, ended.Took)
	}
}

// sumUpTo is the sum of two numbers of at least 0, or the largest one there is.
func sumUpTo[T ~int64](a, b T) T {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// begin counts a new day. Of the one before only the runs of idle days go on.
func (d *quotaDays) begin(start time.Time, runs map[string]int) {
	d.start, d.uses = start, make(map[string]*coordinator.QuotaUse, len(runs))
	for node, run := range runs {
		d.use(node).Run = run
	}
}

// daysRows is how many rows of a day one record has at most.
const daysRows = 256

// records are the day as it stands.
func (d *quotaDays) records() (list []coordinator.Record) {
	if d.start.IsZero() {
		return nil
	}
	var rows []coordinator.QuotaUse
	for _, node := range slices.Sorted(maps.Keys(d.uses)) {
		rows = append(rows, *d.uses[node])
	}
	list = append(list, &coordinator.QuotaControlled{Day: d.start}) // also one on which nothing was used
	for chunk := range slices.Chunk(rows, daysRows) {
		list = append(list, &coordinator.QuotaControlled{Day: d.start, Uses: chunk})
	}
	return list
}

// fold takes over what a record says of the day.
func (d *quotaDays) fold(r *coordinator.QuotaControlled) {
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

// midnight is when the day of t begins, nextMidnight when the next one does, which is always after t:
// there are places where clocks skip midnight on some days.
func midnight(t time.Time, zone *time.Location) time.Time {
	start, _ := fairshare.DayOf(t, zone)
	return start
}

func nextMidnight(t time.Time, zone *time.Location) time.Time {
	_, next := fairshare.DayOf(t, zone)
	return next
}

// zoneOf is where the days of quotas begin.
func zoneOf(q *coordinator.Quotas) *time.Location {
	if q == nil || q.Location == nil {
		return time.UTC
	}
	return q.Location
}
