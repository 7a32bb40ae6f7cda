package journal

import (
	"time"

	"taskbus/coordinator"
)

// What agents send: reports, results, bids and claims.

const (
	reportedLive = 1 << iota
	reportedListing
	reportedRelayed
	reportedMaxConcurrent
	reportedCapabilities
	reportedQueue
	reportedCapacity
	reportedPending
	reportedUserID
	reportedLabels
	reportedInstance
)

// agentReported keeps apart an agent that lists nothing and one that lists not: the
// former says that it runs nothing.
func (c *coder) agentReported(ev *coordinator.AgentReported) {
	r := &ev.Report
	m := c.mask(on(ev.Live, reportedLive) |
		on(r.ActiveTasks != nil, reportedListing) |
		on(r.Relayed, reportedRelayed) |
		on(r.MaxConcurrent != 0, reportedMaxConcurrent) |
		on(len(r.Capabilities) > 0, reportedCapabilities) |
		on(r.Queue != "", reportedQueue) |
		on(r.HasCapacity, reportedCapacity) |
		on(r.HasPending, reportedPending) |
		on(r.UserID != "", reportedUserID) |
		on(len(r.Labels) > 0, reportedLabels) |
		on(r.Instance != "", reportedInstance))
	name(c, &r.Agent)
	member(c, &r.Status, int(coordinator.StatusOffline)+1)
	c.float(&r.Load)
	integer(c, &r.Active)
	integer(c, &r.Available)
	c.time(&r.Timestamp)
	c.flag(&ev.Live, m&reportedLive != 0)
	c.flag(&r.Relayed, m&reportedRelayed != 0)
	c.flag(&r.HasCapacity, m&reportedCapacity != 0)
	c.flag(&r.HasPending, m&reportedPending != 0)
	if m&reportedListing != 0 {
		names(c, &r.ActiveTasks) // as a rule the heartbeat before has listed them, too
		if r.ActiveTasks == nil {
			r.ActiveTasks = []coordinator.TaskID{}
		}
	}
	if m&reportedMaxConcurrent != 0 {
		integer(c, &r.MaxConcurrent)
	}
	if m&reportedCapabilities != 0 {
		names(c, &r.Capabilities)
	}
	if m&reportedQueue != 0 {
		name(c, &r.Queue)
	}
	if m&reportedCapacity != 0 {
		c.float(&r.Capacity)
	}
	if m&reportedPending != 0 {
		integer(c, &r.Pending)
	}
	if m&reportedUserID != 0 {
		name(c, &r.UserID)
	}
	if m&reportedLabels != 0 {
		c.labels(&r.Labels)
	}
	if m&reportedInstance != 0 {
		name(c, &r.Instance)
	}
}

const (
	resultLive = 1 << iota
	resultUntold
	resultAttempted
	resultDispatchID
	resultTraceID // absent: it is the task's id
	resultTimestamp
	resultDuration
	resultUsage
	resultRetryAfter
	resultSaid
)

// resultReported leaves the text of the error out, but of a task that is given back, of which records
// have it, and the place in the stream.
func (c *coder) resultReported(ev *coordinator.ResultReported) {
	r := &ev.Result
	if !c.writing {
		r.Offset = -1
	}
	m := c.mask(on(ev.Live, resultLive) |
		on(ev.Untold, resultUntold) |
		on(r.Attempted, resultAttempted) |
		on(r.DispatchID != "", resultDispatchID) |
		on(r.TraceID != string(r.Task), resultTraceID) |
		on(!r.Timestamp.IsZero(), resultTimestamp) |
		on(r.Duration != 0, resultDuration) |
		on(r.Usage != nil, resultUsage) |
		on(r.RetryAfter != 0, resultRetryAfter) |
		on(r.Outcome == coordinator.OutcomeRejected && r.Error != "", resultSaid))
	text(c, &r.Task)
	name(c, &r.Agent)
	member(c, &r.Outcome, coordinator.NumOutcomes)
	c.flag(&ev.Live, m&resultLive != 0)
	c.flag(&ev.Untold, m&resultUntold != 0)
	c.flag(&r.Attempted, m&resultAttempted != 0)
	if m&resultDispatchID != 0 {
		c.dispatchID(r)
	}
	if m&resultTraceID != 0 {
		text(c, &r.TraceID)
	} else if !c.writing {
		r.TraceID = string(r.Task)
	}
	if m&resultTimestamp != 0 {
		c.time(&r.Timestamp)
	}
	if m&resultDuration != 0 {
		integer(c, &r.Duration)
	}
	if m&resultUsage != 0 {
		c.usage(&r.Usage)
	}
	if m&resultRetryAfter != 0 {
		integer(c, &r.RetryAfter)
	}
	if m&resultSaid != 0 {
		text(c, &r.Error)
	}
}

// dispatchID is, as a rule, the task's id, a life of it and an attempt: then the latter two
// alone are written.
func (c *coder) dispatchID(r *coordinator.Result) {
	life, attempt := int64(0), 0
	if c.writing {
		life, attempt, _ = coordinator.ParseDispatchID(r.Task, r.DispatchID)
	}
	integer(c, &attempt)
	if attempt == 0 {
		text(c, &r.DispatchID)
		return
	}
	integer(c, &life)
	if !c.writing {
		var accepted time.Time
		if life > 0 {
			accepted = time.UnixMilli(life)
		}
		r.DispatchID = coordinator.DispatchID(&coordinator.Task{ID: r.Task, AcceptedAt: accepted}, attempt)
	}
}

func (c *coder) bidReceived(ev *coordinator.BidReceived) {
	name(c, &ev.Agent)
	text(c, &ev.Task)
	text(c, &ev.AuctionID)
	c.float(&ev.Fitness)
	integer(c, &ev.Active)
	integer(c, &ev.Duration)
	c.float(&ev.Relevance)
	text(c, &ev.TraceID)
}

func (c *coder) claimReceived(ev *coordinator.ClaimReceived) {
	name(c, &ev.Agent)
	text(c, &ev.ClaimID)
	integer(c, &ev.MaxItems)
	integer(c, &ev.Pending)
	c.float(&ev.Capacity)
	integer(c, &ev.Wait)
	c.uvarint(&ev.Token)
}
