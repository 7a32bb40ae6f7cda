package journal

import (
	"fmt"

	"taskbus/coordinator"
)

// The kinds of events. The numbers are part of the format and never change; 0 is
// defineString.
const (
	kindPolicyChanged   = 1
	kindSessionOpened   = 2
	kindSessionLost     = 3
	kindDrainBegan      = 4
	kindTaskReceived    = 5
	kindTaskReturned    = 6
	kindAgentReported   = 7
	kindDispatchSettled = 8
	kindQueueChecked    = 9
	kindResultReported  = 10
	kindCancelRequested = 11
	kindAgentOrdered    = 12
	kindQueueSeen       = 13
	kindTakeBackEnded   = 14
	kindFailureTold     = 15
	kindTick            = 16
	kindBidReceived     = 17
	kindOfferUnheard    = 18
	kindClaimReceived   = 19
	kindLaneMoved       = 20
	kindLaneSeen        = 21
	kindLaneEnded       = 22
	kindIntakeChanged   = 23
	kindCallAsked       = 24
	kindQuotaControls   = 25
	kindPublishingHeld  = 26
	lastEventKind       = kindPublishingHeld
)

// input writes the fields of an input, and gives the kind of its event.
func (c *coder) input(in *Input) byte {
	c.time(&in.At)
	switch ev := in.Event.(type) {
	case coordinator.PolicyChanged:
		c.policyChanged(&ev)
		return kindPolicyChanged
	case coordinator.SessionOpened:
		c.sessionOpened(&ev)
		return kindSessionOpened
	case coordinator.PublishingHeld:
		c.publishingHeld(&ev)
		return kindPublishingHeld
	case coordinator.SessionLost:
		return kindSessionLost
	case coordinator.DrainBegan:
		return kindDrainBegan
	case coordinator.TaskReceived:
		c.taskReceived(&ev)
		return kindTaskReceived
	case coordinator.TaskReturned:
		c.taskReturned(&ev)
		return kindTaskReturned
	case coordinator.AgentReported:
		c.agentReported(&ev)
		return kindAgentReported
	case coordinator.DispatchSettled:
		c.dispatchSettled(&ev)
		return kindDispatchSettled
	case coordinator.QueueChecked:
		c.queueChecked(&ev)
		return kindQueueChecked
	case coordinator.ResultReported:
		c.resultReported(&ev)
		return kindResultReported
	case coordinator.CancelRequested:
		c.cancelRequested(&ev)
		return kindCancelRequested
	case coordinator.AgentOrdered:
		c.agentOrdered(&ev)
		return kindAgentOrdered
	case coordinator.QueueSeen:
		c.queueSeen(&ev)
		return kindQueueSeen
	case coordinator.TakeBackEnded:
		name(c, &ev.Agent)
		return kindTakeBackEnded
	case coordinator.FailureTold:
		text(c, &ev.Task)
		return kindFailureTold
	case coordinator.Tick:
		return kindTick
	case coordinator.BidReceived:
		c.bidReceived(&ev)
		return kindBidReceived
	case coordinator.OfferUnheard:
		name(c, &ev.Agent)
		return kindOfferUnheard
	case coordinator.ClaimReceived:
		c.claimReceived(&ev)
		return kindClaimReceived
	case coordinator.LaneMoved:
		c.laneMoved(&ev)
		return kindLaneMoved
	case coordinator.LaneSeen:
		c.laneSeen(&ev)
		return kindLaneSeen
	case coordinator.LaneEnded:
		name(c, &ev.Lane)
		return kindLaneEnded
	case coordinator.IntakeChanged:
		integer(c, &ev.Window)
		return kindIntakeChanged
	case coordinator.CallAsked:
		c.callAsked(&ev)
		return kindCallAsked
	case coordinator.QuotaControlsRequested:
		c.quotaControlsRequested(&ev)
		return kindQuotaControls
	default:
		// The set is closed, and a test holds this list against it.
		panic(fmt.Sprintf("journal: %T has no place in the format", ev))
	}
}

// readEvent reads the event of this kind that is open; nil for a kind that is not
// known.
func (c *coder) readEvent(kind byte) coordinator.Event {
	switch kind {
	case kindPolicyChanged:
		return readEvent(c, (*coder).policyChanged)
	case kindSessionOpened:
		return readEvent(c, (*coder).sessionOpened)
	case kindPublishingHeld:
		return readEvent(c, (*coder).publishingHeld)
	case kindSessionLost:
		return coordinator.SessionLost{}
	case kindDrainBegan:
		return coordinator.DrainBegan{}
	case kindTaskReceived:
		return readEvent(c, (*coder).taskReceived)
	case kindTaskReturned:
		return readEvent(c, (*coder).taskReturned)
	case kindAgentReported:
		return readEvent(c, (*coder).agentReported)
	case kindDispatchSettled:
		return readEvent(c, (*coder).dispatchSettled)
	case kindQueueChecked:
		return readEvent(c, (*coder).queueChecked)
	case kindResultReported:
		return readEvent(c, (*coder).resultReported)
	case kindCancelRequested:
		return readEvent(c, (*coder).cancelRequested)
	case kindAgentOrdered:
		return readEvent(c, (*coder).agentOrdered)
	case kindQueueSeen:
		return readEvent(c, (*coder).queueSeen)
	case kindTakeBackEnded:
		return readEvent(c, func(c *coder, ev *coordinator.TakeBackEnded) { name(c, &ev.Agent) })
	case kindFailureTold:
		return readEvent(c, func(c *coder, ev *coordinator.FailureTold) { text(c, &ev.Task) })
	case kindTick:
		return coordinator.Tick{}
	case kindBidReceived:
		return readEvent(c, (*coder).bidReceived)
	case kindOfferUnheard:
		return readEvent(c, func(c *coder, ev *coordinator.OfferUnheard) { name(c, &ev.Agent) })
	case kindClaimReceived:
		return readEvent(c, (*coder).claimReceived)
	case kindLaneMoved:
		return readEvent(c, (*coder).laneMoved)
	case kindLaneSeen:
		return readEvent(c, (*coder).laneSeen)
	case kindLaneEnded:
		return readEvent(c, func(c *coder, ev *coordinator.LaneEnded) { name(c, &ev.Lane) })
	case kindIntakeChanged:
		return readEvent(c, func(c *coder, ev *coordinator.IntakeChanged) { integer(c, &ev.Window) })
	case kindCallAsked:
		return readEvent(c, (*coder).callAsked)
	case kindQuotaControls:
		return readEvent(c, (*coder).quotaControlsRequested)
	default:
		return nil
	}
}

func readEvent[E coordinator.Event](c *coder, fields func(*coder, *E)) E {
	var ev E
	fields(c, &ev)
	return ev
}

// policyChanged has of the policy what it can be read from again.
func (c *coder) policyChanged(ev *coordinator.PolicyChanged) {
	p := ev.Policy
	if !c.writing || p == nil {
		p = new(coordinator.Policy)
	}
	if !c.writing {
		ev.Policy = p
	}
	text(c, &p.Version)
	text(c, &p.Source)
}

func (c *coder) sessionOpened(ev *coordinator.SessionOpened) {
	m := c.mask(on(!ev.Lost.IsZero(), 1) | on(!ev.Connected.IsZero(), 2))
	if m&1 != 0 {
		c.time(&ev.Lost)
	}
	if m&2 != 0 {
		c.time(&ev.Connected)
	}
}

func (c *coder) publishingHeld(ev *coordinator.PublishingHeld) {
	m := c.mask(on(ev.Held, 1))
	c.flag(&ev.Held, m&1 != 0)
}

// handle is the shell's number of a delivery.
func (c *coder) handle(h *coordinator.Handle) {
	v := uint64(*h)
	c.uvarint(&v)
	if !c.writing {
		*h = coordinator.Handle(v)
	}
}

const (
	receivedRedelivered = 1 << iota
	receivedLane
	receivedMaybeDuplicate
)

func (c *coder) taskReceived(ev *coordinator.TaskReceived) {
	m := c.mask(on(ev.Redelivered, receivedRedelivered) | on(ev.Lane != "", receivedLane) | on(ev.MaybeDuplicate,
		receivedMaybeDuplicate))
	c.handle(&ev.Handle)
	c.taskPart(&ev.Task)
	c.flag(&ev.Redelivered, m&receivedRedelivered != 0)
	if m&receivedLane != 0 {
		name(c, &ev.Lane)
	}
	c.flag(&ev.MaybeDuplicate, m&receivedMaybeDuplicate != 0)
}

const (
	returnedTried = 1 << iota
	returnedFailed
	returnedRedelivered
	returnedMaybeDuplicate
	returnedSuspected
	returnedTries
)

func (c *coder) taskReturned(ev *coordinator.TaskReturned) {
	m := c.mask(on(len(ev.Tried) > 0, returnedTried) |
		on(len(ev.Failed) > 0, returnedFailed) |
		on(ev.Redelivered, returnedRedelivered) |
		on(ev.MaybeDuplicate, returnedMaybeDuplicate) |
		on(len(ev.Suspected) > 0, returnedSuspected) |
		on(ev.Tries != 0, returnedTries))
	c.handle(&ev.Handle)
	c.taskPart(&ev.Task)
	name(c, &ev.Agent)
	integer(c, &ev.Attempt)
	member(c, &ev.Cause, coordinator.NumReturnCauses)
	if m&returnedTried != 0 {
		names(c, &ev.Tried)
	}
	if m&returnedFailed != 0 {
		names(c, &ev.Failed)
	}
	c.flag(&ev.Redelivered, m&returnedRedelivered != 0)
	c.flag(&ev.MaybeDuplicate, m&returnedMaybeDuplicate != 0)
	if m&returnedSuspected != 0 {
		names(c, &ev.Suspected)
	}
	if m&returnedTries != 0 {
		integer(c, &ev.Tries)
	}
}

func (c *coder) dispatchSettled(ev *coordinator.DispatchSettled) {
	c.handle(&ev.Handle)
	member(c, &ev.Outcome, int(coordinator.PublishAbandoned)+1)
}

func (c *coder) queueChecked(ev *coordinator.QueueChecked) {
	m := c.mask(on(ev.Exists, 1))
	name(c, &ev.Agent)
	c.flag(&ev.Exists, m&1 != 0)
}

func (c *coder) cancelRequested(ev *coordinator.CancelRequested) {
	text(c, &ev.Task)
	text(c, &ev.Reason)
	c.uvarint(&ev.Token)
}

func (c *coder) agentOrdered(ev *coordinator.AgentOrdered) {
	name(c, &ev.Agent)
	member(c, &ev.Order, int(coordinator.OrderUncordon)+1)
	c.uvarint(&ev.Token)
}

func (c *coder) queueSeen(ev *coordinator.QueueSeen) {
	name(c, &ev.Agent)
	integer(c, &ev.Ready)
	integer(c, &ev.Consumers)
}

func (c *coder) laneMoved(ev *coordinator.LaneMoved) {
	c.handle(&ev.Handle)
	member(c, &ev.Outcome, int(coordinator.PublishAbandoned)+1)
}

func (c *coder) laneSeen(ev *coordinator.LaneSeen) {
	m := c.mask(on(ev.Missing, 1) | on(ev.Dropped, 2))
	name(c, &ev.Lane)
	integer(c, &ev.Ready)
	c.flag(&ev.Missing, m&1 != 0)
	c.flag(&ev.Dropped, m&2 != 0)
}
