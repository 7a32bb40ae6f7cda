package journal

import (
	"fmt"

	"taskbus/coordinator"
)

// The kinds of records. The numbers are part of the format and never change; 0 is
// defineString.
const (
	kindAssigned        = 1
	kindSettled         = 2
	kindLeaseChanged    = 3
	kindRemembered      = 4
	kindLearnt          = 5
	kindForgiven        = 6
	kindLearntBefore    = 7
	kindBreakerChanged  = 8
	kindOrdered         = 9
	kindTracked         = 10
	kindJoined          = 11
	kindAgentBefore     = 12
	kindOwed            = 13
	kindPaid            = 14
	kindConsumed        = 15
	kindDoubted         = 16
	kindCalibrated      = 17
	kindQuotaReserved   = 18
	kindQuotaExtended   = 19
	kindQuotaEnded      = 20
	kindQuotaBefore     = 21
	kindEstimateBefore  = 22
	kindShareBefore     = 23
	kindLaneKnown       = 24
	kindPoolHeard       = 25
	kindQuotaControlled = 26
	kindQuotaTold       = 27
	kindEndedBefore     = 28
	kindTaskBefore      = 29
	lastRecordKind      = kindTaskBefore
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
		c.joined(r)
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
	case *coordinator.QuotaTold:
		c.quotaTold(r)
		c.finish(kindQuotaTold)
	case *coordinator.EstimateBefore:
		c.estimateBefore(r)
		c.finish(kindEstimateBefore)
	case *coordinator.ShareBefore:
		c.shareBefore(r)
		c.finish(kindShareBefore)
	case *coordinator.PoolHeard:
		c.poolHeard(r)
		c.finish(kindPoolHeard)
	case *coordinator.Owed:
		c.owed(r)
		c.finish(kindOwed)
	case *coordinator.EndedBefore:
		c.taskPart(&r.Task)
		c.finish(kindEndedBefore)
	case *coordinator.TaskBefore:
		c.taskBefore(r)
		c.finish(kindTaskBefore)
	case *coordinator.Paid:
		c.key(&r.Key)
		c.finish(kindPaid)
	case *coordinator.LaneKnown:
		c.laneKnown(r)
		c.finish(kindLaneKnown)
	case *coordinator.QuotaControlled:
		c.quotaControlled(r)
		c.finish(kindQuotaControlled)
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
		c.joined(r)
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
	case kindEndedBefore:
		r := new(coordinator.EndedBefore)
		c.taskPart(&r.Task)
		return r
	case kindTaskBefore:
		r := new(coordinator.TaskBefore)
		c.taskBefore(r)
		return r
	case kindPaid:
		r := new(coordinator.Paid)
		c.key(&r.Key)
		return r
	case kindPoolHeard:
		r := new(coordinator.PoolHeard)
		c.poolHeard(r)
		return r
	case kindQuotaTold:
		r := new(coordinator.QuotaTold)
		c.quotaTold(r)
		return r
	case kindLaneKnown:
		r := new(coordinator.LaneKnown)
		c.laneKnown(r)
		return r
	case kindQuotaControlled:
		r := new(coordinator.QuotaControlled)
		c.quotaControlled(r)
		return r
	default:
		return nil
	}
}

// slabs make the small and frequent records many at a time. They live as long as any of theirs does: none
// is kept for long.
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
	if c.writing && r.Failure.Said != "" { // which follows it
		text(c, &r.Failure.Agent)
	} else {
		last(c, &r.Failure.Agent)
	}
	last(c, &r.Failure.Said)
}

func (c *coder) laneKnown(r *coordinator.LaneKnown) {
	m := c.mask(on(r.Known, 1))
	name(c, &r.Lane)
	c.flag(&r.Known, m&1 != 0)
}
