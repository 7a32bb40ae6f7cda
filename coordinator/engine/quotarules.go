package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/adjust"
	"taskbus/coordinator/fairshare"
)

// The rules of quotas.yaml that change quotas day by day. What they say is package adjust's; here
// they are asked when a day is over, and what they say becomes controls, like anybody's: in the
// list, in the journal, and taken back by hand if somebody does not agree.

// scheduleDay sees that the end of the day is noticed, and that what a rule has changed is taken
// back when it is no longer in the file.
func (e *Engine) scheduleDay() {
	d, q := &e.days, e.quotas.ledger.Quotas()
	e.timers.cancel(&d.due)
	on := q != nil && q.Adjustment.On()
	switch {
	case e.following: // the leader does it
	case !on && d.start.IsZero() && !e.ruled():
	case !on, d.start.IsZero():
		e.timers.schedule(&d.due, e.now)
	default:
		e.timers.schedule(&d.due, nextMidnight(d.start, zoneOf(q)))
	}
}

// ruled tells whether a rule has changed anything that stands.
func (e *Engine) ruled() bool {
	return slices.ContainsFunc(e.controls.standing, func(c coordinator.QuotaControl) bool { return c.Rule != "" })
}

// dayDue begins the count, ends a day, or stops counting. A day that was not counted from its
// beginning says nothing; neither does one that ended while nobody led for more than a day after
// it: then the days in a row begin anew.
func (e *Engine) dayDue(now time.Time) {
	d, q := &e.days, e.quotas.ledger.Quotas()
	if e.following {
		return
	}
	if q == nil || !q.Adjustment.On() {
		e.takeBackRules(func(string) bool { return false })
		e.stopDays()
		return
	}
	zone := zoneOf(q)
	switch next := nextMidnight(d.start, zone); {
	case d.start.IsZero():
		d.begin(d.due.at, nil)
		e.takeBackRules(func(rule string) bool { return ruleOn(q, rule) })
	case now.Before(next): // the days of another time zone
	case !d.start.Equal(midnight(d.start, zone)) || !now.Before(nextMidnight(next, zone)):
		d.begin(midnight(now, zone), nil)
	default:
		set, remove, runs := e.judgeDay(next, q)
		d.begin(midnight(now, zone), runs)
		e.changeControls(set, remove, 0)
	}
	for _, r := range d.records() {
		e.record(r)
	}
	e.scheduleDay()
}

// stopDays stops counting. Whoever takes over is told: it would go on with a day of which it has seen
// a part, and take that for the whole.
func (e *Engine) stopDays() {
	d := &e.days
	if d.start.IsZero() {
		return
	}
	d.start, d.uses = time.Time{}, nil
	for _, r := range e.controls.records() {
		e.record(r)
	}
}

// ruleOn tells whether a rule is in the file.
func ruleOn(q *coordinator.Quotas, rule string) bool {
	return rule == coordinator.RuleIdle && q.Adjustment.Idle != nil || rule == coordinator.RuleSlow && q.Adjustment.Slow != nil
}

// takeBackRules ends what rules have changed, but for those that stay.
func (e *Engine) takeBackRules(stays func(rule string) bool) {
	var over []string
	for i := range e.controls.standing {
		if c := &e.controls.standing[i]; c.Rule != "" && !stays(c.Rule) {
			over = append(over, c.ID)
		}
	}
	e.changeControls(nil, over, 0)
}

// daysEnd is a day that is over, while the rules are asked about it.
type daysEnd struct {
	e      *Engine
	end    time.Time
	quotas *coordinator.Quotas
	day    time.Duration
	views  []fairshare.NodeView // of the quotas' nodes, by their indexes
	// used and weights are those of all that are below a node, by its index.
	used, weights []int64
	// by what rules have changed, those that nobody has spoken for yet.
	before map[string]coordinator.QuotaControl
	set    []coordinator.QuotaControl
	remove []string
	runs   map[string]int
	room   int // for more controls
}

// judgeDay asks the rules about every group and agent of the pool, at the end of the day.
func (e *Engine) judgeDay(end time.Time, q *coordinator.Quotas) (set []coordinator.QuotaControl, remove []string, runs map[string]int) {
	nodes := pooled(q)
	x := &daysEnd{
		e: e, end: end, quotas: q, day: end.Sub(e.days.start), views: e.quotas.ledger.View(end),
		used: make([]int64, len(nodes)), weights: make([]int64, len(nodes)), before: make(map[string]coordinator.QuotaControl),
		runs: make(map[string]int), room: coordinator.MaxQuotaControls - len(e.controls.standing),
	}
	registered := make(map[string]bool) // today: its day was not a whole one
	for _, c := range e.controls.standing {
		switch {
		case c.Rule != "":
			x.before[c.ID] = c
		case c.Kind >= coordinator.ControlGroup && c.At.After(e.days.start):
			registered[c.Target] = true
		}
	}
	for i := range nodes {
		if up := nodes[i].Parent; up >= 0 {
			x.weights[up] += nodes[i].Weight
			if u := e.days.uses[nodes[i].ID]; u != nil {
				x.used[up] += fairshare.Weigh(&u.Used)
			}
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Kind != coordinator.QuotaGroup && n.Kind != coordinator.QuotaAgent {
			continue
		}
		u := e.days.uses[n.ID]
		if u == nil {
			u = &coordinator.QuotaUse{Node: n.ID}
		}
		if q.Adjustment.Idle != nil {
			x.idle(i, u, registered[n.Name])
		}
		if q.Adjustment.Slow != nil {
			x.slow(i, u)
		}
	}
	for _, c := range e.controls.standing { // of what there is no more, or by a rule that is off
		if _, left := x.before[c.ID]; left {
			x.remove = append(x.remove, c.ID)
		}
	}
	return x.set, x.remove, x.runs
}

// idle asks the rule about use.
func (x *daysEnd) idle(i int, u *coordinator.QuotaUse, registered bool) {
	n := &x.quotas.Nodes[i]
	c, lost := x.standing(n.ID, "weight", coordinator.RuleIdle)
	one := adjust.Idle{Weight: n.Weight, Lost: -lost, Run: u.Run}
	if one.Used, one.Due = x.own(i, u); registered {
		one.Due = 0
	}
	v := adjust.JudgeIdle(x.quotas.Adjustment.Idle, one)
	if v.Run > 0 {
		x.runs[n.ID] = v.Run
	}
	x.change(c, one.Lost, v, fmt.Sprintf("-%d", v.Taken))
}

// slow asks the rule about answers: of who has a limit of its own to raise.
func (x *daysEnd) slow(i int, u *coordinator.QuotaUse) {
	n := &x.quotas.Nodes[i]
	c, raised := x.standing(n.ID, "limits", coordinator.RuleSlow)
	if raised == 0 && !hasOwn(n) {
		return
	}
	v := adjust.JudgeSlow(x.quotas.Adjustment.Slow, adjust.Slow{Answers: u.Answers, Took: u.Took, Raised: raised})
	x.change(c, raised, v, fmt.Sprintf("+%d%%", v.Taken))
}

// standing is the control of a rule about one node, and by how much it changes that now: as a
// number with its sign.
func (x *daysEnd) standing(node, key, rule string) (c coordinator.QuotaControl, by int64) {
	c = coordinator.QuotaControl{Kind: coordinator.ControlBoost, Target: node, Key: key, Rule: rule}.Named()
	if stands, is := x.before[c.ID]; is {
		delete(x.before, c.ID)
		by, _ = strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(stands.Value, "+"), "%"), 10, 64) // as it was written here
	}
	return c, by
}

// change notes what a rule says.
func (x *daysEnd) change(c coordinator.QuotaControl, before int64, v adjust.Verdict, value string) {
	switch {
	case v.Taken == before:
	case v.Taken == 0:
		x.remove = append(x.remove, c.ID)
		x.room++
	case before == 0 && x.room <= 0: // it is bounded, like what people change
	default:
		if before == 0 {
			x.room--
		}
		c.Value, c.At, c.By, c.Reason = value, x.end, "rule "+c.Rule, v.Why
		x.set = append(x.set, c)
	}
}

// own is what a node has used on the day, and what was its own for it: of its budget of total
// tokens, else of its first budget; without any the part by weight of what it and its siblings
// have used.
func (x *daysEnd) own(i int, u *coordinator.QuotaUse) (used, due int64) {
	var budget *fairshare.BudgetView
	for k := range x.views[i].Budgets {
		b := &x.views[i].Budgets[k]
		if budget == nil || b.Dimension == coordinator.DimTotalTokens {
			budget = b
		}
	}
	if budget != nil {
		return u.Used[budget.Dimension], adjust.Due(budget.Nominal, budget.End.Sub(budget.Start), x.day)
	}
	n := &x.quotas.Nodes[i]
	return fairshare.Weigh(&u.Used), adjust.Part(x.used[n.Parent], n.Weight, x.weights[n.Parent])
}

// hasOwn tells whether a node has any limit that is no part by weight.
func hasOwn(n *coordinator.QuotaNode) bool {
	own := func(l *coordinator.QuotaLimit) bool { return l != nil && l.Nominal != coordinator.ByWeight }
	return own(n.Seats) || slices.ContainsFunc(n.Budgets[:], own) || slices.ContainsFunc(n.Rates[:], own)
}
