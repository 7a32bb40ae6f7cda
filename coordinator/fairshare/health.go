package fairshare

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/rates"
)

// How a pool is used less after its provider has refused a call (429), and more again: additive
// increase, multiplicative decrease. Where the provider does not say for how long, it is left alone
// for a second, twice as long with each refusal that follows, and no longer than a minute.
const (
	wholeRate    = 1000 // per mille
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

// health is the state of a pool, or model, by its provider's answers. The zero value: well.
type health struct {
	blocked int64 // until then
	part    int64 // per mille of its rates; 0: all
	cutAt   int64
	rises   int64 // when it gets more; 0: it has all
	refused int64 // in a row, without a stated time
	// by is the agent that set this state by its own report alone; empty: a gateway did. Until rest its report
	// alone does not close it again, until takes it takes nothing off its rates.
	by          coordinator.AgentID
	rest, takes int64
	// Of its answers of late: how many there were, up to manyCalls, how many in a million succeeded,
	// and their mean latency in ns, of timed of them.
	calls, success, timed, latency int64
	// teller reported the latest of them with its own token, empty: a gateway did; and what success and
	// latency were when its reports in a row began; of latency 0: it was not known, aloneSaid: by one agent
	// alone, so that the second one is not bounded.
	teller                     coordinator.AgentID
	beganSuccess, beganLatency int64
}

// well reports whether no trouble is known.
func (h *health) well(now int64) bool {
	return h.blocked <= now && h.rises == 0 && h.refused == 0 && h.calls == 0 && h.rest <= now && h.takes <= now
}

// healthBefore returns the record of it in a snapshot.
func (nd *node) healthBefore(now int64) *coordinator.PoolHeard {
	r, h := nd.heard(now, coordinator.Amounts{}), &nd.health
	r.Before, r.Calls, r.Success, r.Latency = true, h.calls, h.success, time.Duration(h.latency)
	r.Teller, r.BeganSuccess, r.BeganLatency = h.teller, h.beganSuccess, time.Duration(h.beganLatency)
	return r
}

// Hear takes over what a provider has said in answer to a call that was charged so and began at
// begun. It gives the record of what that has changed; nil: nothing.
//
// Calls that were on their way already when the pool was cut back are no reason to cut it again: of
// a hundred calls that are refused together the first one counts. by is the agent that reported it itself;
// empty: a gateway did.
func (l *Ledger) Hear(now, begun time.Time, c *Charge, w *coordinator.ProviderWord,
	by coordinator.AgentID) *coordinator.PoolHeard {
	l.advance(now.UnixNano())
	n, ok := l.serviceNode(c.Provider, c.Model)
	if !ok {
		return nil
	}
	nd := &l.nodes[n]
	before, taken := nd.health, coordinator.Amounts{}
	switch h := &nd.health; {
	case w.Throttled():
		l.refusedBy(h, begun.UnixNano(), w.RetryAfter, by)
	case w.Status >= 200 && w.Status < 300:
		h.refused = 0
	}
	if h := &nd.health; !h.alone(by) || h.takes <= l.now {
		for d, s := range nd.rates {
			if s != nil && w.Told&(1<<d) != 0 {
				taken[d] = excessOver(s, l.now, w.Remains[d])
			}
		}
	}
	if h := &nd.health; taken != (coordinator.Amounts{}) && by != "" {
		h.by, h.takes = by, l.now+int64(ownTakes)
	}
	if nd.health == before && taken == (coordinator.Amounts{}) {
		return nil
	}
	r := nd.heard(l.now, taken)
	l.takeHeard(n, r)
	return r
}

// refusedBy notes a refusal.
func (l *Ledger) refusedBy(h *health, begun int64, retryAfter time.Duration, by coordinator.AgentID) {
	pause, least := min(retryAfter, longestBlock), int64(cutLeast)
	if retryAfter <= 0 {
		pause = min(pauseLeast<<min(h.refused, 6), pauseMost)
	}
	if by != "" {
		pause = min(pause, ownBlock)
	}
	if by != "" && (h.by == "" || h.by == by) {
		least = min(ownCutLeast, h.share())
	}
	again := h.blocked > l.now && retryAfter <= 0 // it is being left alone already
	if until := l.now + int64(pause); !again && until > h.blocked && (!h.alone(by) || h.rest <= l.now) {
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
	h.part = max(least, h.share()*cutPercent/100)
	h.cutAt, h.rises = l.now, l.now+int64(riseEvery)
	if h.by == "" {
		h.by = by
	}
}

// alone reports whether the reporting agent is the one that set the present state by its own report.
func (h *health) alone(by coordinator.AgentID) bool { return by != "" && h.by == by }

// share returns the part of its rates that is used, per mille.
func (h *health) share() int64 {
	if h.part == 0 {
		return wholeRate
	}
	return h.part
}

// excessOver returns how much more there seems to be of a rate than its provider says. A twentieth of
// the rate is no difference: what is on its way the provider has counted, or has not.
func excessOver(s *rates.Shaper, now, remains int64) int64 {
	if more := s.Level(now) - max(0, remains); more > max(1, s.Amount/20) {
		return more
	}
	return 0
}

func (nd *node) heard(now int64, taken coordinator.Amounts) *coordinator.PoolHeard {
	h := &nd.health
	r := &coordinator.PoolHeard{Node: nd.spec.ID, At: timeOf(now), PerMille: h.share(), Refusals: h.refused, Taken: taken}
	if h.blocked > now {
		r.BlockedUntil = timeOf(h.blocked)
	}
	if h.rises != 0 {
		r.CutAt = timeOf(h.cutAt)
	}
	if r.By = h.by; h.rest != 0 {
		r.RestUntil = timeOf(h.rest)
	}
	if h.takes != 0 {
		r.TakesAfter = timeOf(h.takes)
	}
	return r
}

// takeHeard sets a node to what a record says of it, within its bounds.
func (l *Ledger) takeHeard(n int32, r *coordinator.PoolHeard) {
	nd := &l.nodes[n]
	h := &nd.health
	h.part, h.refused, h.blocked, h.cutAt, h.rises = min(max(r.PerMille, 0), wholeRate),
		min(max(r.Refusals, 0), mostRefused), 0, 0, 0
	if h.by, h.rest, h.takes = r.By, 0, 0; !r.RestUntil.IsZero() {
		h.rest = r.RestUntil.UnixNano()
	}
	if !r.TakesAfter.IsZero() {
		h.takes = r.TakesAfter.UnixNano()
	}
	if r.Before {
		h.calls, h.success, h.latency = min(max(r.Calls, 0), manyCalls), min(max(r.Success, 0), 1_000_000),
			max(int64(r.Latency), 0)
		h.teller, h.beganSuccess, h.beganLatency = r.Teller, r.BeganSuccess, int64(r.BeganLatency)
		if h.latency > 0 {
			h.timed = h.calls
		}
	}
	if !r.BlockedUntil.IsZero() {
		nd.health.blocked = r.BlockedUntil.UnixNano()
	}
	if !r.CutAt.IsZero() {
		cut := r.CutAt.UnixNano()
		nd.health.cutAt = cut
		if nd.health.share() < wholeRate {
			nd.health.rises = cut + ((l.now-cut)/int64(riseEvery)+1)*int64(riseEvery)
		}
	}
	nd.scale(l.now)
	for d, s := range nd.rates {
		if s != nil && r.Taken[d] > 0 {
			s.Assured.Correct(l.now, 0, r.Taken[d], s.Burst) // no more than it had, but under other quotas
		}
	}
	l.ail(n)
}

// ail notes that a node's part of its rates rises again with time.
func (l *Ledger) ail(n int32) {
	for _, x := range l.ailing {
		if x == n {
			return
		}
	}
	if l.nodes[n].health.rises != 0 {
		l.ailing = append(l.ailing, n)
		l.nextRise()
	}
}

// scale has a node's rates flow at its part. Their bursts stay: what no burst holds would never
// pass.
func (nd *node) scale(now int64) {
	for _, s := range nd.rates {
		if s != nil && s.Amount > 0 {
			s.Assured.Resize(now, max(1, arith.MulDiv(s.Amount, nd.health.share(), wholeRate)), s.Per, s.Burst)
		}
	}
}

// rise gives back to those that were cut what they get with time, each at its moment, whenever
// it is asked for.
func (l *Ledger) rise() {
	for l.rising <= l.now {
		at := l.rising
		left := l.ailing[:0]
		for _, n := range l.ailing {
			nd := &l.nodes[n]
			if h := &nd.health; h.rises <= at {
				if h.part = min(wholeRate, h.share()+risePerMille); h.part == wholeRate {
					h.rises, h.cutAt = 0, 0
				} else {
					h.rises += int64(riseEvery)
				}
				nd.scale(at)
				l.freeNode(n)
			}
			if nd.health.rises != 0 {
				left = append(left, n)
			}
		}
		l.ailing = left
		l.nextRise()
	}
}

// nextRise notes when the next one gets more.
func (l *Ledger) nextRise() {
	l.rising = rates.Forever
	for _, n := range l.ailing {
		l.rising = min(l.rising, l.nodes[n].health.rises)
	}
}

// Health is the state of a pool or model by its provider's answers, for people.
type Health struct {
	// BlockedUntil it is left alone; zero: it is not.
	BlockedUntil time.Time
	// PerMille of its rates that are used.
	PerMille int64
	// Calls is how many answers of calls were reported, up to a bound; Success is how many in a million of them went
	// well, and Latency what they took in the mean; 0: not known.
	Calls, Success int64
	Latency        time.Duration
}

// HealthOf returns that of what something is charged to.
func (l *Ledger) HealthOf(c *Charge) Health {
	n, ok := l.serviceNode(c.Provider, c.Model)
	if !ok {
		return Health{PerMille: wholeRate}
	}
	return l.nodes[n].healthView(l.now)
}

func (nd *node) healthView(now int64) Health {
	h := &nd.health
	v := Health{PerMille: h.share(), Calls: h.calls, Success: h.success, Latency: time.Duration(h.latency)}
	if nd.health.blocked > now {
		v.BlockedUntil = timeOf(nd.health.blocked)
	}
	return v
}
