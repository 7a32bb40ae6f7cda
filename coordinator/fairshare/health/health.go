package health

import (
	"time"

	"taskbus/coordinator"
)

// How a pool is used less after its provider has refused a call (429), and more again: additive
// increase, multiplicative decrease. Where the provider does not say for how long, it is left alone
// for a second, twice as long with each refusal that follows, and no longer than a minute.
const (
	Whole        = 1000 // per mille: all of its rates
	cutPercent   = 70
	cutLeast     = 20 // per mille
	risePerMille = 50
	riseEvery    = time.Minute
	pauseLeast   = time.Second
	pauseMost    = time.Minute
	mostRefused  = 7 // are counted
	// longestBlock bounds for how long a provider's answer keeps a pool closed.
	longestBlock = 24 * time.Hour
)

// An agent that reports with its own token may be mistaken about a pool that others use, too, or lie: by
// its report alone a pool is closed for a minute at most, and open for as long before it is closed again;
// it is cut back to half of its rates at most, and less is left of them than was thought once a
// minute. What a second agent says as well, or a gateway, counts in full.
const (
	ownBlock    = time.Minute
	ownCutLeast = 500 // per mille
	ownTakes    = time.Minute
)

// State is the state of a pool, or model, by its provider's answers. The zero value: well. Instants are in ns since
// 1970; 0: none.
type State struct {
	blocked int64 // until then
	part    int64 // per mille of its rates; 0: all
	cutAt   int64
	rises   int64 // when it gets more; 0: it has all
	refused int64 // in a row, without a stated time
	// by is the agent that set this state by its own report alone; empty: a gateway did. Until rest its report
	// alone does not close it again, until takes it takes nothing off its rates.
	by          coordinator.AgentID
	rest, takes int64
	answers     answers
}

// View is a State for people.
type View struct {
	// BlockedUntil it is left alone; zero: it is not.
	BlockedUntil time.Time
	// PerMille of its rates that are used.
	PerMille int64
	// Calls is how many answers of calls were reported, up to a bound; Success is how many in a million of them went
	// well, and Latency what they took in the mean; 0: not known.
	Calls, Success int64
	Latency        time.Duration
}

// View returns how it stands.
func (h *State) View(now int64) View {
	v := View{PerMille: h.Share(), Calls: h.answers.calls, Success: h.answers.success,
		Latency: time.Duration(h.answers.latency)}
	if h.blocked > now {
		v.BlockedUntil = timeOf(h.blocked)
	}
	return v
}

// Well reports whether no trouble is known, and no call.
func (h *State) Well(now int64) bool { return h.over(now) && h.refused == 0 && h.answers.calls == 0 }

// over reports whether it stands no worse than one of which nothing was heard, however its calls have gone of late.
func (h *State) over(now int64) bool {
	return h.blocked <= now && h.rises == 0 && h.rest <= now && h.takes <= now
}

// Blocked returns until when it is left alone: maybe an instant that is over.
func (h *State) Blocked() int64 { return h.blocked }

// Share returns the part of its rates that is used, per mille.
func (h *State) Share() int64 {
	if h.part == 0 {
		return Whole
	}
	return h.part
}

// Answer takes over what a provider has answered to a call that began at begun. by is the agent that reported it
// itself; empty: a gateway did.
func (h *State) Answer(now, begun int64, w *coordinator.ProviderWord, by coordinator.AgentID) {
	switch {
	case w.Throttled():
		h.refuse(now, begun, w.RetryAfter, by)
	case w.Status >= 200 && w.Status < 300:
		h.refused = 0
	}
}

// refuse notes a refusal. Calls that were on their way already when the pool was cut back are no reason to cut it
// again: of a hundred calls that are refused together the first one counts.
func (h *State) refuse(now, begun int64, retryAfter time.Duration, by coordinator.AgentID) {
	pause, least := min(retryAfter, longestBlock), int64(cutLeast)
	if retryAfter <= 0 {
		pause = min(pauseLeast<<min(h.refused, 6), pauseMost)
	}
	if by != "" {
		pause = min(pause, ownBlock)
	}
	if by != "" && (h.by == "" || h.by == by) {
		least = min(ownCutLeast, h.Share())
	}
	again := h.blocked > now && retryAfter <= 0 // it is being left alone already
	if until := now + int64(pause); !again && until > h.blocked && (!h.alone(by) || h.rest <= now) {
		h.blocked, h.by, h.rest = until, by, 0
		if by != "" {
			h.rest = until + int64(pause)
		}
	}
	if begun <= h.cutAt {
		return
	}
	if retryAfter <= 0 {
		h.refused = min(h.refused+1, mostRefused)
	}
	h.part = max(least, h.Share()*cutPercent/100)
	h.cutAt, h.rises = now, now+int64(riseEvery)
	if h.by == "" {
		h.by = by
	}
}

// alone reports whether the reporting agent is the one that set the present state by its own report.
func (h *State) alone(by coordinator.AgentID) bool { return by != "" && h.by == by }

// MayTake reports whether a report that less is left of its rates than was counted is accepted.
func (h *State) MayTake(now int64, by coordinator.AgentID) bool {
	return !h.alone(by) || h.takes <= now
}

// Took notes that such a report was accepted.
func (h *State) Took(now int64, by coordinator.AgentID) {
	if by != "" {
		h.by, h.takes = by, now+int64(ownTakes)
	}
}

// Rises returns when it gets more of its rates; 0: it has all.
func (h *State) Rises() int64 { return h.rises }

// Rise gives back what it gets with time, until now.
func (h *State) Rise(now int64) {
	for h.rises != 0 && h.rises <= now {
		if h.part = min(Whole, h.Share()+risePerMille); h.part == Whole {
			h.rises, h.cutAt = 0, 0
		} else {
			h.rises += int64(riseEvery)
		}
	}
}

// Shift has every instant be what shift makes of it: the clock by which it was set was ahead.
func (h *State) Shift(shift func(int64) int64) {
	for _, at := range [...]*int64{&h.blocked, &h.cutAt, &h.rises, &h.rest, &h.takes} {
		*at = shift(*at)
	}
}

// Heard returns the record of what was heard of a node.
func (h *State) Heard(node string, now int64) *coordinator.PoolHeard {
	r := &coordinator.PoolHeard{Node: node, At: time.Unix(0, now).UTC(), PerMille: h.Share(), Refusals: h.refused,
		By: h.by, RestUntil: timeOf(h.rest), TakesAfter: timeOf(h.takes)}
	if h.blocked > now {
		r.BlockedUntil = timeOf(h.blocked)
	}
	if h.rises != 0 {
		r.CutAt = timeOf(h.cutAt)
	}
	return r
}

// Before returns the record of a node in a snapshot.
func (h *State) Before(node string, now int64) *coordinator.PoolHeard {
	r, a := h.Heard(node, now), &h.answers
	r.Before, r.Calls, r.Success, r.Latency = true, a.calls, a.success, time.Duration(a.latency)
	r.Teller, r.BeganSuccess, r.BeganLatency = a.teller, a.beganSuccess, time.Duration(a.beganLatency)
	return r
}

// Fold sets it to what a record says, within its bounds.
func (h *State) Fold(now int64, r *coordinator.PoolHeard) {
	h.part, h.refused = min(max(r.PerMille, 0), Whole), min(max(r.Refusals, 0), mostRefused)
	h.blocked, h.cutAt, h.rises = nsOf(r.BlockedUntil), nsOf(r.CutAt), 0
	h.by, h.rest, h.takes = r.By, nsOf(r.RestUntil), nsOf(r.TakesAfter)
	if !r.CutAt.IsZero() && h.Share() < Whole {
		h.rises = h.cutAt + ((now-h.cutAt)/int64(riseEvery)+1)*int64(riseEvery)
	}
	if r.Before {
		h.answers.fold(r)
	}
}

// timeOf turns an instant into one of a record, nsOf one of a record into an instant.
func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func nsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
