package journal

import (
	"fmt"

	"taskbus/coordinator"
)

// The kinds of records. The numbers are part of the format and never change; 0 is
// defineString.
const (
	kindAssigned       = 1
	kindSettled        = 2
	kindLeaseChanged   = 3
	kindRemembered     = 4
	kindLearnt         = 5
	kindForgiven       = 6
	kindLearntBefore   = 7
	kindBreakerChanged = 8
	kindOrdered        = 9
	kindTracked        = 10
	kindJoined         = 11
	kindAgentBefore    = 12
	kindOwed           = 13
	kindPaid           = 14
	kindConsumed       = 15
	kindDoubted        = 16
	kindCalibrated     = 17
	kindQuotaReserved  = 18
	kindQuotaExtended  = 19
	kindQuotaEnded     = 20
	kindQuotaBefore    = 21
	kindEstimateBefore = 22
	kindShareBefore    = 23
	kindLaneKnown      = 24
	lastRecordKind     = kindLaneKnown
)

// record writes one record to out.
func (c *coder) record(r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.Assigned:
		c.assigned(r)
		c.finish(kindAssigned)
	case *coordinator.Settled:
		c.settled(r)
		c.finish(kindSettled)
	case *coordinator.LeaseChanged:
		c.leaseChanged(r)
		c.finish(kindLeaseChanged)
	case *coordinator.Remembered:
		c.remembered(r)
		c.finish(kindRemembered)
	case *coordinator.Learnt:
		c.learnt(r)
		c.finish(kindLearnt)
	case *coordinator.Forgiven:
		c.forgiven(r)
		c.finish(kindForgiven)
	case *coordinator.LearntBefore:
		c.learntBefore(r)
		c.finish(kindLearntBefore)
	case *coordinator.BreakerChanged:
		c.breakerChanged(r)
		c.finish(kindBreakerChanged)
	case *coordinator.Ordered:
		c.ordered(r)
		c.finish(kindOrdered)
	case *coordinator.Tracked:
		name(c, &r.Agent)
		c.finish(kindTracked)
	case *coordinator.Consumed:
		c.consumed(r)
		c.finish(kindConsumed)
	case *coordinator.Doubted:
		c.doubted(r)
		c.finish(kindDoubted)
	case *coordinator.Joined:
		list(c, &r.Agents, leastSpec, (*coder).spec)
		c.finish(kindJoined)
	case *coordinator.AgentBefore:
		c.agentBefore(r)
		c.finish(kindAgentBefore)
	case *coordinator.Calibrated:
		c.calibrated(r)
		c.finish(kindCalibrated)
	case *coordinator.QuotaReserved:
		c.quotaReserved(r)
		c.finish(kindQuotaReserved)
	case *coordinator.QuotaExtended:
		c.quotaExtended(r)
		c.finish(kindQuotaExtended)
	case *coordinator.QuotaEnded:
		c.quotaEnded(r)
		c.finish(kindQuotaEnded)
	case *coordinator.QuotaBefore:
		c.quotaBefore(r)
		c.finish(kindQuotaBefore)
	case *coordinator.EstimateBefore:
		c.estimateBefore(r)
		c.finish(kindEstimateBefore)
	case *coordinator.ShareBefore:
		c.shareBefore(r)
		c.finish(kindShareBefore)
	case *coordinator.Owed:
		c.owed(r)
		c.finish(kindOwed)
	case *coordinator.Paid:
		c.key(&r.Key)
		c.finish(kindPaid)
	case *coordinator.LaneKnown:
		c.laneKnown(r)
		c.finish(kindLaneKnown)
	default:
		// The set is closed, and a test holds this list against it.
		panic(fmt.Sprintf("journal: %T has no place in the format", r))
	}
}

// readRecord reads the record of this kind that is open; nil for a kind that is not
// known. rest is how many bytes of the message follow.
func (c *coder) readRecord(kind byte, slabs *slabs, rest int) coordinator.Record {
	switch kind {
	case kindAssigned:
		r := new(coordinator.Assigned)
		c.assigned(r)
		return r
	case kindSettled:
		r := slabs.settled.next(rest / leastSettled)
		c.settled(r)
		return r
	case kindLeaseChanged:
		r := new(coordinator.LeaseChanged)
		c.leaseChanged(r)
		return r
	case kindRemembered:
		r := slabs.remembered.next(rest / leastRemembered)
		c.remembered(r)
		return r
	case kindLearnt:
		r := new(coordinator.Learnt)
		c.learnt(r)
		return r
	case kindForgiven:
		r := new(coordinator.Forgiven)
		c.forgiven(r)
		return r
	case kindLearntBefore:
		r := new(coordinator.LearntBefore)
		c.learntBefore(r)
		return r
	case kindBreakerChanged:
		r := new(coordinator.BreakerChanged)
		c.breakerChanged(r)
		return r
	case kindOrdered:
		r := new(coordinator.Ordered)
		c.ordered(r)
		return r
	case kindTracked:
		r := new(coordinator.Tracked)
		name(c, &r.Agent)
		return r
	case kindConsumed:
		r := new(coordinator.Consumed)
		c.consumed(r)
		return r
	case kindDoubted:
		r := new(coordinator.Doubted)
		c.doubted(r)
		return r
	case kindJoined:
		r := new(coordinator.Joined)
		list(c, &r.Agents, leastSpec, (*coder).spec)
		return r
	case kindAgentBefore:
		r := new(coordinator.AgentBefore)
		c.agentBefore(r)
		return r
	case kindCalibrated:
		r := new(coordinator.Calibrated)
		c.calibrated(r)
		return r
	case kindQuotaReserved:
		r := new(coordinator.QuotaReserved)
		c.quotaReserved(r)
		return r
	case kindQuotaExtended:
		r := new(coordinator.QuotaExtended)
		c.quotaExtended(r)
		return r
	case kindQuotaEnded:
		r := new(coordinator.QuotaEnded)
		c.quotaEnded(r)
		return r
	case kindQuotaBefore:
		r := new(coordinator.QuotaBefore)
		c.quotaBefore(r)
		return r
	case kindEstimateBefore:
		r := new(coordinator.EstimateBefore)
		c.estimateBefore(r)
		return r
	case kindShareBefore:
		r := new(coordinator.ShareBefore)
		c.shareBefore(r)
		return r
	case kindOwed:
		r := new(coordinator.Owed)
		c.owed(r)
		return r
	case kindPaid:
		r := new(coordinator.Paid)
		c.key(&r.Key)
		return r
	case kindLaneKnown:
		r := new(coordinator.LaneKnown)
		c.laneKnown(r)
		return r
	default:
		return nil
	}
}

// slabs make the small and frequent records many at a time. They live as long as
// any of theirs does: nobody keeps one for long.
type slabs struct {
	settled    slab[coordinator.Settled]
	remembered slab[coordinator.Remembered]
}

type slab[T any] struct{ free []T }

// next gives the next one; at most so many more can follow.
func (s *slab[T]) next(most int) *T {
	const piece = 256
	if len(s.free) == 0 {
		s.free = make([]T, 1+min(most, piece-1))
	}
	r := &s.free[0]
	s.free = s.free[1:]
	return r
}

func (c *coder) key(k *coordinator.TaskKey) {
	c.word(&k[0])
	c.word(&k[1])
}

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
		on(r.OwnMessage, assignedOwnMessage))
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
)

func (c *coder) leaseChanged(r *coordinator.LeaseChanged) {
	m := c.mask(on(r.Withdrawn, leaseWithdrawn) |
		on(r.Reason != "", leaseReason) |
		on(r.Returning, leaseReturning) |
		on(r.Begun, leaseBegun) |
		on(len(r.Failed) > 0, leaseFailed) |
		on(len(r.Blamed) > 0, leaseBlamed) |
		on(len(r.Taught) > 0, leaseTaught))
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
)

func (c *coder) remembered(r *coordinator.Remembered) {
	m := c.mask(on(r.ID != "", rememberedID) |
		on(r.Content != 0, rememberedContent) |
		on(r.Agent != "", rememberedAgent) |
		on(r.Attempt != 0, rememberedAttempt) |
		on(r.Flags != 0, rememberedFlags) |
		on(r.Reason != "", rememberedReason) |
		on(r.Why != coordinator.ReasonNone, rememberedWhy))
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
}

// reason must be one that is known.
func (c *coder) reason(p *coordinator.Reason) { member(c, p, numReasons) }

// numReasons counts the reasons, with ReasonNone.
var numReasons = len(coordinator.Reasons()) + 1

func (c *coder) owed(r *coordinator.Owed) {
	c.taskPart(&r.Task)
	c.reason(&r.Failure.Reason)
	text(c, &r.Failure.Text)
	integer(c, &r.Failure.Attempts)
	c.time(&r.Failure.FailedAt)
	c.time(&r.Failure.RetryAt)
}

func (c *coder) laneKnown(r *coordinator.LaneKnown) {
	m := c.mask(on(r.Known, 1))
	name(c, &r.Lane)
	c.flag(&r.Known, m&1 != 0)
}
