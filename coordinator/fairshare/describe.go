package fairshare

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
)

// The texts and effects that other parts make of the ledger's answers.

// Lack returns a refusal for people.
func (v *Verdict) Lack() *coordinator.QuotaLack {
	return &coordinator.QuotaLack{
		Node: v.Node, Dimension: v.Dimension, Limit: v.Limit.String(), RetryAt: v.RetryAt, Text: v.Describe(),
	}
}

// Describe says for people what quota a task waits for, or a call was refused for want of.
func (v *Verdict) Describe() string {
	var b strings.Builder
	used := v.Limit != LimitBudget
	switch is := "is"; v.Limit {
	case LimitProvider:
		fmt.Fprintf(&b, "%s is left alone, because its provider has refused calls", v.Node)
	case LimitBudget:
		used = describeBudget(&b, v)
	case LimitSeats:
		is = "are"
		fallthrough
	default:
		fmt.Fprintf(&b, "the %s of %s in %s %s used up", v.Limit, v.Node, v.Dimension, is)
	}
	switch {
	case v.Ends && used:
		b.WriteString(" or set aside; back when something of it ends")
	case v.Limit == LimitPrice:
		b.Reset()
		fmt.Fprintf(&b, "%s has no price, and %s of %s is limited; give it one under prices in quotas.yaml, "+
			"or say there what becomes of such calls (unpriced)", v.Of, v.Dimension, v.Node)
	case v.Permanent:
		b.Reset()
		fmt.Fprintf(&b, "it needs more %s at once than the %s of %s ever allows", v.Dimension, v.Limit, v.Node)
	case !v.RetryAt.IsZero() && !v.Ends:
		fmt.Fprintf(&b, "; back at %s", v.RetryAt.UTC().Format(time.RFC3339))
	default:
		b.WriteString("; back when something of it ends")
	}
	return b.String()
}

// describeBudget says what a budget lacks, and whether it is that it is used up.
func describeBudget(b *strings.Builder, v *Verdict) (used bool) {
	in := func(x int64) string {
		text := strconv.FormatFloat(v.Dimension.Shown(x), 'f', -1, 64)
		if v.Dimension == coordinator.DimCost {
			text = "$" + text
		}
		return text
	}
	budget := fmt.Sprintf("the budget of %s in %s", v.Node, v.Dimension)
	switch {
	case v.By != "":
		fmt.Fprintf(b, "%s may not borrow so much %s: %s left, %s asked", v.By, v.Dimension, in(v.Left), in(v.Asked))
	case v.Left > 0 && v.Left < v.Asked:
		fmt.Fprintf(b, "too little is left of %s: %s left, %s asked", budget, in(v.Left), in(v.Asked))
	case v.Left > 0:
		fmt.Fprintf(b, "others leave too little of %s so far: %s to be borrowed", budget, in(v.Asked))
	default:
		b.WriteString(budget + " is used up")
		used = true
	}
	if v.Lent > 0 {
		fmt.Fprintf(b, " (%s lent to others)", in(v.Lent))
	}
	return used
}

// Effect returns the event about usage in excess, of a task or, without an id, of a call.
func (x Excess) Effect(id coordinator.TaskID, c *Charge, ended *coordinator.QuotaEnded) coordinator.UsageExcessive {
	return coordinator.UsageExcessive{
		Task: id, Agent: c.Agent, Group: c.Group, Dimension: x.Dimension, Estimated: x.Reserved, Reported: x.Used,
		Charged: ended.Used[x.Dimension],
	}
}

// LateOwner returns the owner of quota that is settled after it has expired; nil: it had not.
func (s Ended) LateOwner(c *Charge) *coordinator.QuotaOwner {
	if !s.Late {
		return nil
	}
	return &coordinator.QuotaOwner{
		Group: cmp.Or(c.Group, c.Payer), Agent: c.Agent, Provider: c.Provider, Model: c.Model, Call: c.Call,
		At: s.Begun, Known: c.Known,
	}
}

// UsageUnpriced is ModelUnpriced for what a task, or call, that was charged so has taken by a report. false as well
// where the charge was of an unpriced model: that was reported when it began.
func (l *Ledger) UsageUnpriced(c *Charge, taskType string, u *coordinator.Usage,
	word coordinator.QuotaWord) (coordinator.ModelUnpriced, bool) {
	s, lacks := l.LacksPrice(c, taskType, u, word)
	if !lacks || c.Unpriced {
		return coordinator.ModelUnpriced{}, false
	}
	of := *c
	of.Provider, of.Model, of.Unpriced = s.Provider, s.Model, true
	return l.ModelUnpriced(&of, false)
}

// ModelUnpriced returns the event about a charge for a model without a price; false: it has one, or needs none.
func (l *Ledger) ModelUnpriced(c *Charge, refused bool) (coordinator.ModelUnpriced, bool) {
	p := l.PathOf(c)
	n, is := l.unpriced(&p, c)
	if !is {
		return coordinator.ModelUnpriced{}, false
	}
	return coordinator.ModelUnpriced{
		Group: c.Group, Agent: c.Agent, Service: coordinator.Service{Provider: c.Provider, Model: c.Model},
		Node: l.NodeID(n), Refused: refused,
	}, true
}
