package journal

import "taskbus/coordinator"

// The fields of a task that need not be there, in the order in which they follow.
const (
	taskTraceID = 1 << iota // absent: it is the task's id
	taskTimeout
	taskDeadline
	taskRequired
	taskPreferred
	taskExcluded
	taskStrategy
	taskGroup
	taskLabels
	taskUsage
	taskReplyTo
	taskTraceParent
	taskTraceState
	taskDescription
	taskNoBorrowing // a flag
	taskAlternatives
	taskNoTokens // a flag
	taskWidenAfter
	taskMaxWait
)

// task writes or reads all of a task.
func (c *coder) task(t *coordinator.Task) {
	m := c.mask(on(t.TraceID != string(t.ID), taskTraceID) |
		on(t.Timeout != 0, taskTimeout) |
		on(!t.Deadline.IsZero(), taskDeadline) |
		on(len(t.Required) > 0, taskRequired) |
		on(len(t.Preferred) > 0, taskPreferred) |
		on(len(t.Excluded) > 0, taskExcluded) |
		on(t.Strategy != "", taskStrategy) |
		on(t.Group != "", taskGroup) |
		on(len(t.Labels) > 0, taskLabels) |
		on(t.EstimatedUsage != nil, taskUsage) |
		on(t.ReplyTo != "", taskReplyTo) |
		on(t.TraceParent != "", taskTraceParent) |
		on(t.TraceState != "", taskTraceState) |
		on(t.Description != "", taskDescription) |
		on(t.NoBorrowing, taskNoBorrowing) |
		on(len(t.Alternatives) > 0, taskAlternatives) |
		on(t.NoTokens, taskNoTokens) |
		on(t.WidenAfter != 0, taskWidenAfter) |
		on(t.MaxWait != 0, taskMaxWait))
	text(c, &t.ID)
	name(c, &t.Type)
	member(c, &t.Priority, int(coordinator.PriorityCritical)+1)
	c.time(&t.AcceptedAt)
	c.word(&t.ContentHash)
	if m&taskTraceID != 0 {
		text(c, &t.TraceID)
	} else if !c.writing {
		t.TraceID = string(t.ID)
	}
	if m&taskTimeout != 0 {
		integer(c, &t.Timeout)
	}
	if m&taskDeadline != 0 {
		c.time(&t.Deadline)
	}
	if m&taskRequired != 0 {
		names(c, &t.Required)
	}
	if m&taskPreferred != 0 {
		names(c, &t.Preferred)
	}
	if m&taskExcluded != 0 {
		names(c, &t.Excluded)
	}
	if m&taskStrategy != 0 {
		name(c, &t.Strategy)
	}
	if m&taskGroup != 0 {
		name(c, &t.Group)
	}
	if m&taskLabels != 0 {
		c.labels(&t.Labels)
	}
	if m&taskUsage != 0 {
		c.usage(&t.EstimatedUsage)
	}
	if m&taskReplyTo != 0 {
		name(c, &t.ReplyTo)
	}
	if m&taskTraceParent != 0 {
		text(c, &t.TraceParent)
	}
	if m&taskTraceState != 0 {
		text(c, &t.TraceState)
	}
	if m&taskDescription != 0 {
		text(c, &t.Description)
	}
	c.flag(&t.NoBorrowing, m&taskNoBorrowing != 0)
	if m&taskAlternatives != 0 {
		list(c, &t.Alternatives, 2, service)
	}
	c.flag(&t.NoTokens, m&taskNoTokens != 0)
	if m&taskWidenAfter != 0 {
		integer(c, &t.WidenAfter)
	}
	if m&taskMaxWait != 0 {
		integer(c, &t.MaxWait)
	}
}

// taskPart is a task within a record. Without one it is the empty task.
func (c *coder) taskPart(p **coordinator.Task) {
	t := *p
	if !c.writing || t == nil {
		t = new(coordinator.Task)
	}
	if !c.writing {
		*p = t
	}
	c.part(func(c *coder) { c.task(t) })
}

// usage writes or reads what work costs, which must be there.
func (c *coder) usage(p **coordinator.Usage) {
	if !c.writing {
		*p = new(coordinator.Usage)
	}
	c.part(func(c *coder) {
		u := *p
		c.float(&u.Requests)
		c.float(&u.InputTokens)
		c.float(&u.OutputTokens)
		c.float(&u.CostUSD)
		name(c, &u.Provider)
		name(c, &u.Model)
	})
}

// service writes or reads a model of a provider.
func service(c *coder, s *coordinator.Service) {
	name(c, &s.Provider)
	name(c, &s.Model)
}
