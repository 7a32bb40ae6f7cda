package journal

import "taskbus/coordinator"

// What changes quotas.yaml while it is in force.

const (
	controlKey = 1 << iota
	controlUntil
	controlBy
	controlReason
	controlRule
)

// leastControl is how many bytes a control takes up at the very least: its length and one for
// each field that is always there.
const leastControl = 8

func (c *coder) quotaControl(q *coordinator.QuotaControl) {
	c.part(func(c *coder) {
		m := c.mask(on(q.Key != "", controlKey) |
			on(!q.Until.IsZero(), controlUntil) |
			on(q.By != "", controlBy) |
			on(q.Reason != "", controlReason) |
			on(q.Rule != "", controlRule))
		text(c, &q.ID)
		member(c, &q.Kind, coordinator.NumQuotaControlKinds)
		name(c, &q.Target)
		text(c, &q.Value)
		c.time(&q.At)
		if m&controlKey != 0 {
			name(c, &q.Key)
		}
		if m&controlUntil != 0 {
			c.time(&q.Until)
		}
		if m&controlBy != 0 {
			name(c, &q.By)
		}
		if m&controlReason != 0 {
			text(c, &q.Reason)
		}
		if m&controlRule != 0 {
			name(c, &q.Rule)
		}
	})
}

const (
	controlledFirst = 1 << iota
	controlledDay
)

func (c *coder) quotaControlled(r *coordinator.QuotaControlled) {
	m := c.mask(on(r.First, controlledFirst) | on(!r.Day.IsZero() || len(r.Uses) > 0, controlledDay))
	c.flag(&r.First, m&controlledFirst != 0)
	list(c, &r.Set, leastControl, (*coder).quotaControl)
	texts(c, &r.Removed)
	if m&controlledDay != 0 {
		c.time(&r.Day)
		list(c, &r.Uses, leastUse, (*coder).quotaUse)
	}
}

// leastUse is how many bytes a use takes up at the very least: its length and one for each field.
const leastUse = 6

func (c *coder) quotaUse(u *coordinator.QuotaUse) {
	c.part(func(c *coder) {
		name(c, &u.Node)
		c.amounts(&u.Used)
		integer(c, &u.Answers)
		integer(c, &u.Took)
		integer(c, &u.Run)
	})
}

func (c *coder) quotaControlsRequested(ev *coordinator.QuotaControlsRequested) {
	list(c, &ev.Set, leastControl, (*coder).quotaControl)
	texts(c, &ev.Remove)
	c.uvarint(&ev.Token)
}
