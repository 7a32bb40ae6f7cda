package journal

import "taskbus/coordinator"

// Records about one task.

const (
	assignedTried = 1 << iota
	assignedFailed
	assignedUntouched
	assignedBlamed
	assignedTaught
	assignedGeneration
	assignedProbe // a flag, like the last two
	assignedBatch
	assignedMaybeDuplicate
	assignedOwnMessage
	assignedSuspected
	assignedService
	assignedTries
)

func (c *coder) assigned(r *coordinator.Assigned) {
	m := c.mask(on(len(r.Tried) > 0, assignedTried) |
		on(len(r.Failed) > 0, assignedFailed) |
		on(len(r.Untouched) > 0, assignedUntouched) |
		on(len(r.Blamed) > 0, assignedBlamed) |
		on(len(r.Taught) > 0, assignedTaught) |
		on(r.Generation != 0, assignedGeneration) |
		on(r.Probe, assignedProbe) |
		on(r.Batch != "", assignedBatch) |
		on(r.MaybeDuplicate, assignedMaybeDuplicate) |
		on(r.OwnMessage, assignedOwnMessage) |
		on(len(r.Suspected) > 0, assignedSuspected) |
		on(r.Service != coordinator.Service{}, assignedService) |
		on(r.Tries != 0, assignedTries))
	c.taskPart(&r.Task)
	name(c, &r.Agent)
	integer(c, &r.Attempt)
	name(c, &r.Strategy)
	integer(c, &r.Eligible)
	integer(c, &r.Fleet)
	c.time(&r.At)
	integer(c, &r.Timeout)
	if m&assignedTried != 0 {
		names(c, &r.Tried)
	}
	if m&assignedFailed != 0 {
		names(c, &r.Failed)
	}
	if m&assignedUntouched != 0 {
		names(c, &r.Untouched)
	}
	if m&assignedBlamed != 0 {
		names(c, &r.Blamed)
	}
	if m&assignedTaught != 0 {
		names(c, &r.Taught)
	}
	if m&assignedGeneration != 0 {
		c.uvarint(&r.Generation)
	}
	c.flag(&r.Probe, m&assignedProbe != 0)
	if m&assignedBatch != 0 {
		name(c, &r.Batch)
	}
	c.flag(&r.MaybeDuplicate, m&assignedMaybeDuplicate != 0)
	c.flag(&r.OwnMessage, m&assignedOwnMessage != 0)
	if m&assignedSuspected != 0 {
		names(c, &r.Suspected)
	}
	if m&assignedService != 0 {
		name(c, &r.Service.Provider)
		name(c, &r.Service.Model)
	}
	if m&assignedTries != 0 {
		integer(c, &r.Tries)
	}
}

// leastSettled is how many bytes a Settled takes up in a message at the very least:
// kind, length, mask, key, attempt, time.
const leastSettled = 1 + 1 + 1 + 16 + 1 + 1

const (
	settledNowhere = 1 << iota
	settledHeard
)

func (c *coder) settled(r *coordinator.Settled) {
	m := c.mask(on(r.Nowhere, settledNowhere) | on(r.Heard, settledHeard))
	c.key(&r.Key)
	integer(c, &r.Attempt)
	c.time(&r.At)
	c.flag(&r.Nowhere, m&settledNowhere != 0)
	c.flag(&r.Heard, m&settledHeard != 0)
}

const (
	leaseWithdrawn = 1 << iota
	leaseReason
	leaseReturning
	leaseBegun
	leaseFailed
	leaseBlamed
	leaseTaught
	leaseSaid
	leaseRetryAfter
)

func (c *coder) leaseChanged(r *coordinator.LeaseChanged) {
	m := c.mask(on(r.Withdrawn, leaseWithdrawn) |
		on(r.Reason != "", leaseReason) |
		on(r.Returning, leaseReturning) |
		on(r.Begun, leaseBegun) |
		on(len(r.Failed) > 0, leaseFailed) |
		on(len(r.Blamed) > 0, leaseBlamed) |
		on(len(r.Taught) > 0, leaseTaught) |
		on(r.Said != "", leaseSaid) |
		on(r.RetryAfter != 0, leaseRetryAfter))
	c.key(&r.Key)
	integer(c, &r.Attempt)
	c.flag(&r.Withdrawn, m&leaseWithdrawn != 0)
	if m&leaseReason != 0 {
		text(c, &r.Reason)
	}
	c.flag(&r.Returning, m&leaseReturning != 0)
	c.flag(&r.Begun, m&leaseBegun != 0)
	if m&leaseFailed != 0 {
		names(c, &r.Failed)
	}
	if m&leaseBlamed != 0 {
		names(c, &r.Blamed)
	}
	if m&leaseTaught != 0 {
		names(c, &r.Taught)
	}
	if m&leaseSaid != 0 {
		text(c, &r.Said)
	}
	if m&leaseRetryAfter != 0 {
		integer(c, &r.RetryAfter)
	}
}

// leastRemembered is how many bytes a Remembered takes up in a message at the very
// least: kind, length, mask, key, fate, time.
const leastRemembered = 1 + 1 + 1 + 16 + 1 + 1

const (
	rememberedID = 1 << iota
	rememberedContent
	rememberedAgent
	rememberedAttempt
	rememberedFlags
	rememberedReason
	rememberedWhy
	rememberedEnd
	rememberedSaid
	rememberedWork
	rememberedText
	rememberedTask
	rememberedLate
)

func (c *coder) remembered(r *coordinator.Remembered) {
	m := c.mask(on(r.ID != "", rememberedID) |
		on(r.Content != 0, rememberedContent) |
		on(r.Agent != "", rememberedAgent) |
		on(r.Attempt != 0, rememberedAttempt) |
		on(r.Flags != 0, rememberedFlags) |
		on(r.Reason != "", rememberedReason) |
		on(r.Why != coordinator.ReasonNone, rememberedWhy) |
		on(r.End != coordinator.EndUnknown, rememberedEnd) |
		on(r.Said != "", rememberedSaid) |
		on(r.Work != 0, rememberedWork) |
		on(r.Text != "", rememberedText) |
		on(r.Task != nil, rememberedTask) |
		on(r.Late != nil, rememberedLate))
	c.key(&r.Key)
	member(c, &r.Fate, coordinator.NumFates)
	c.time(&r.Seen)
	if m&rememberedID != 0 {
		text(c, &r.ID)
	}
	if m&rememberedContent != 0 {
		c.word(&r.Content)
	}
	if m&rememberedAgent != 0 {
		name(c, &r.Agent)
	}
	if m&rememberedAttempt != 0 {
		integer(c, &r.Attempt)
	}
	if m&rememberedFlags != 0 {
		member(c, &r.Flags, 256)
	}
	if m&rememberedReason != 0 {
		text(c, &r.Reason)
	}
	if m&rememberedWhy != 0 {
		c.reason(&r.Why)
	}
	if m&rememberedEnd != 0 {
		member(c, &r.End, coordinator.NumAttemptEnds)
	}
	if m&rememberedSaid != 0 {
		text(c, &r.Said)
	}
	if m&rememberedWork != 0 {
		integer(c, &r.Work)
	}
	if m&rememberedText != 0 {
		text(c, &r.Text)
	}
	if m&rememberedTask != 0 {
		c.taskPart(&r.Task)
	}
	if m&rememberedLate != 0 {
		if !c.writing {
			r.Late = new(coordinator.Outcome)
		}
		member(c, r.Late, coordinator.NumOutcomes)
	}
}

func (c *coder) taskBefore(r *coordinator.TaskBefore) {
	c.taskPart(&r.Task)
	name(c, &r.State)
	list(c, &r.Attempts, leastAttempt, attemptBefore)
	name(c, &r.Strategy)
	integer(c, &r.Eligible)
	integer(c, &r.Fleet)
	c.time(&r.DecidedAt)
	integer(c, &r.Waited)
	c.time(&r.WaitsFrom)
	c.time(&r.CompletedAt)
	integer(c, &r.Work)
	c.reason(&r.Failure.Reason)
	text(c, &r.Failure.Text)
	integer(c, &r.Failure.Attempts)
	c.time(&r.Failure.FailedAt)
	c.time(&r.Failure.RetryAt)
	name(c, &r.Failure.Agent)
	text(c, &r.Failure.Said)
}

// leastAttempt is how many bytes an attempt takes up at the very least: one for each field.
const leastAttempt = 5

func attemptBefore(c *coder, a *coordinator.AttemptBefore) {
	name(c, &a.Agent)
	integer(c, &a.Number)
	c.time(&a.At)
	name(c, &a.Outcome)
	text(c, &a.Detail)
}
