package quotacontrol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
	"taskbus/coordinator/fairshare/calendar"
)

// What a rule changes becomes controls, like those of people: in the list, in the journal, and taken
// back by hand where an operator does not agree.

// NextDay returns when EndDay must be called: at the end of the day or, to begin the count, or to take back
// what a rule has changed that is off now, at once; zero: never.
func (c *Controls) NextDay(now time.Time, q *coordinator.Quotas) time.Time {
	on := q != nil && q.Adjustment.On()
	switch {
	case on && !c.day.start.IsZero():
		_, next := calendar.QuotaDay(c.day.start, q)
		return next
	case on, !c.day.start.IsZero(), slices.ContainsFunc(c.standing, ofRule):
		return now
	}
	return time.Time{}
}

func ofRule(one coordinator.QuotaControl) bool { return one.Rule != "" }

// DayEnd is what the end of a day changes.
type DayEnd struct {
	Set    []coordinator.QuotaControl
	Remove []string
	// Stopped: days are counted no more. The next leader must learn that, or it would go on with a day of
	// which it has seen a part, and take that for the whole.
	Stopped bool
}

// EndDay begins the count, ends a day, or stops counting, and returns what rules change, for its caller
// to Put and Remove. due is what NextDay said. A day that was not counted from its beginning says
// nothing; neither does one that ended while there was no leader for more than a day after it: then the
// days in a row begin anew.
func (c *Controls) EndDay(now, due time.Time, l *fairshare.Ledger) (end DayEnd) {
	d, q := &c.day, l.Quotas()
	if q == nil || !q.Adjustment.On() {
		end.Remove, end.Stopped = c.byRules(func(string) bool { return true }), !d.start.IsZero()
		d.start, d.uses = time.Time{}, nil
		return end
	}
	today, _ := calendar.QuotaDay(now, q)
	begins, next := calendar.QuotaDay(d.start, q)
	_, after := calendar.QuotaDay(next, q)
	switch {
	case d.start.IsZero():
		d.begin(due, nil)
		end.Remove = c.byRules(func(rule string) bool { return !ruleOn(q, rule) })
	case now.Before(next): // the days of another time zone
	case !d.start.Equal(begins) || !now.Before(after):
		d.begin(today, nil)
	default:
		var runs map[string]int
		end.Set, end.Remove, runs = c.judge(next, l)
		d.begin(today, runs)
	}
	return end
}

// byRules returns the IDs of the controls that are of such rules.
func (c *Controls) byRules(is func(rule string) bool) []string {
	return c.idsOf(func(one *coordinator.QuotaControl) bool { return ofRule(*one) && is(one.Rule) })
}

// ruleOn reports whether a rule is in the file.
func ruleOn(q *coordinator.Quotas, rule string) bool {
	return rule == coordinator.RuleIdle && q.Adjustment.Idle != nil ||
		rule == coordinator.RuleSlow && q.Adjustment.Slow != nil
}

// judgement is a day that is over, while the rules are asked about it.
type judgement struct {
	end    time.Time
	quotas *coordinator.Quotas
	day    time.Duration
	views  []fairshare.NodeView // of the quotas' nodes, by their indexes
	// used and weights are those of all that are below a node, by its index.
	used, weights []int64
	// before is what rules have changed, and no rule has confirmed yet.
	before map[string]coordinator.QuotaControl
	set    []coordinator.QuotaControl
	remove []string
	runs   map[string]int
	room   int // for more controls
}

// judge asks the rules about every group and agent of the pool, at the end of the day.
func (c *Controls) judge(end time.Time, l *fairshare.Ledger) (
	set []coordinator.QuotaControl, remove []string, runs map[string]int,
) {
	q := l.Quotas()
	nodes := pooled(q)
	x := &judgement{
		end: end, quotas: q, day: end.Sub(c.day.start), views: l.View(end),
		used: make([]int64, len(nodes)), weights: make([]int64, len(nodes)),
		before: make(map[string]coordinator.QuotaControl), runs: make(map[string]int),
		room: coordinator.MaxQuotaControls - len(c.standing),
	}
	registered := make(map[string]bool) // today: its day was not a whole one
	for _, one := range c.standing {
		switch {
		case ofRule(one):
			x.before[one.ID] = one
		case one.Kind >= coordinator.ControlGroup && one.At.After(c.day.start):
			registered[one.Target] = true
		}
	}
	for i := range nodes {
		if up := nodes[i].Parent; up >= 0 {
			x.weights[up] += nodes[i].Weight
			if u := c.day.uses[nodes[i].ID]; u != nil {
				x.used[up] += billing.Weigh(&u.Used)
			}
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Kind != coordinator.QuotaGroup && n.Kind != coordinator.QuotaAgent {
			continue
		}
		u := c.day.uses[n.ID]
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
	for _, one := range c.standing { // of what there is no more, or by a rule that is off
		if _, left := x.before[one.ID]; left {
			x.remove = append(x.remove, one.ID)
		}
	}
	return x.set, x.remove, x.runs
}

// idle asks the rule about use.
func (x *judgement) idle(i int, u *coordinator.QuotaUse, registered bool) {
	n := &x.quotas.Nodes[i]
	c, lost := x.standing(n.ID, "weight", coordinator.RuleIdle)
	one := idle{Weight: n.Weight, Lost: -lost, Run: u.Run}
	if one.Used, one.Due = x.own(i, u); registered {
		one.Due = 0
	}
	v := judgeIdle(x.quotas.Adjustment.Idle, one)
	if v.Run > 0 {
		x.runs[n.ID] = v.Run
	}
	x.change(c, one.Lost, v, fmt.Sprintf("-%d", v.Taken))
}

// slow asks the rule about answers, if the node has a limit of its own to raise.
func (x *judgement) slow(i int, u *coordinator.QuotaUse) {
	n := &x.quotas.Nodes[i]
	c, raised := x.standing(n.ID, "limits", coordinator.RuleSlow)
	if raised == 0 && !hasOwn(n) {
		return
	}
	v := judgeSlow(x.quotas.Adjustment.Slow, slow{Answers: u.Answers, Took: u.Took, Raised: raised})
	x.change(c, raised, v, fmt.Sprintf("+%d%%", v.Taken))
}

// standing returns the control of a rule about one node, and by how much it changes that now: a number with
// its sign.
func (x *judgement) standing(node, key, rule string) (c coordinator.QuotaControl, by int64) {
	c = coordinator.QuotaControl{Kind: coordinator.ControlBoost, Target: node, Key: key, Rule: rule}.Named()
	if stands, is := x.before[c.ID]; is {
		delete(x.before, c.ID)
		written := strings.TrimSuffix(strings.TrimPrefix(stands.Value, "+"), "%") // by judgement.change
		by, _ = strconv.ParseInt(written, 10, 64)
	}
	return c, by
}

// change notes what a rule says.
func (x *judgement) change(c coordinator.QuotaControl, before int64, v verdict, value string) {
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

// own returns what a node has used on the day, and what was its own for it: of its budget of total
// tokens, else of its first budget; without any the part by weight of what it and its siblings
// have used.
func (x *judgement) own(i int, u *coordinator.QuotaUse) (used, due int64) {
	var budget *fairshare.BudgetView
	for k := range x.views[i].Budgets {
		b := &x.views[i].Budgets[k]
		if budget == nil || b.Dimension == coordinator.DimTotalTokens {
			budget = b
		}
	}
	if budget != nil {
		return u.Used[budget.Dimension], share(budget.Nominal, int64(x.day), int64(budget.End.Sub(budget.Start)))
	}
	n := &x.quotas.Nodes[i]
	return billing.Weigh(&u.Used), share(x.used[n.Parent], n.Weight, x.weights[n.Parent])
}

// hasOwn reports whether a node has any limit that is no part by weight.
func hasOwn(n *coordinator.QuotaNode) bool {
	own := func(l *coordinator.QuotaLimit) bool { return l != nil && l.Nominal != coordinator.ByWeight }
	return own(n.Seats) || slices.ContainsFunc(n.Budgets[:], own) || slices.ContainsFunc(n.Rates[:], own)
}
