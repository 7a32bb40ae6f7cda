package fairshare

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/arith"
	"taskbus/coordinator/fairshare/rates"
)

// rateLog is what has passed at the rate of one node, in order.
type rateLog struct {
	passed []passage
	judged int // so many of them have been looked at
}

// passage is a cost that was admitted below a rate, or, below 0, given back to it.
type passage struct {
	at, cost int64
	// charged: the node itself serves it, or one below. own: it is the node itself.
	charged, own bool
}

// pass notes what was admitted, or given back, at the rates that it was charged to.
func (w *world) pass(uses []rateUse, amounts *coordinator.Amounts, sign int64) {
	for _, u := range uses {
		cost := amounts[u.dim]
		if cost == 0 {
			continue
		}
		charged := false
		for x := u.leaf; x != nil; x = x.Up {
			charged = charged || x == u.by
			if w.rates[x] == nil {
				w.rates[x] = &rateLog{}
			}
			w.rates[x].passed = append(w.rates[x].passed, passage{w.l.now, sign * cost, charged, x == u.by})
		}
	}
}

// partsOf tells what every part of a reservation has reserved.
func (w *world) partsOf(key coordinator.TaskKey) map[*reservation]coordinator.Amounts {
	all := map[*reservation]coordinator.Amounts{}
	for part := w.l.open[key]; part != nil; part = part.later {
		all[part] = part.charge.Amounts
	}
	return all
}

// passMore notes what a reservation has been extended by: whichever part of it has more now.
func (w *world) passMore(key coordinator.TaskKey, before map[*reservation]coordinator.Amounts) {
	for part := w.l.open[key]; part != nil; part = part.later {
		more := part.charge.Amounts
		for d, had := range before[part] {
			more[d] -= had
		}
		w.pass(part.uses, &more, 1)
	}
}

// giveBack notes what the rates get back when a reservation ends at what was used: what was
// used is the oldest of what was reserved. Nothing is left of one that has expired.
func (w *world) giveBack(key coordinator.TaskKey, used coordinator.Amounts) {
	r := w.l.open[key]
	if r == nil || r.state != resOpen {
		return
	}
	for part := r; part != nil; part = part.later {
		back := part.charge.Amounts
		for d := range back {
			x := min(used[d], back[d])
			back[d], used[d] = back[d]-x, used[d]-x
		}
		w.pass(part.uses, &back, -1)
	}
}

// judgeRates looks at every window that ends with what has passed since it looked before.
func (w *world) judgeRates() {
	for i := range w.l.nodes {
		for d, s := range w.l.nodes[i].rates {
			log := w.rates[s]
			if s == nil || log == nil {
				continue
			}
			for ; log.judged < len(log.passed); log.judged++ {
				w.judgeWindows(s, log.passed[:log.judged+1], coordinator.Dimension(d))
			}
		}
	}
}

// judgeWindows looks at the windows that end with the last of what has passed at a rate: in each
// window w no more than burst + w·amount/per, and 1 for rounding, has passed but for what was
// given back in it. What is promised holds of
//
//	the ceiling       all that has passed at the node and below it
//	a hard rate       the same: nothing below it is served by one above it
//	any other rate    what is charged to it up to something that it serves itself, of which
//	                  no more counts than its burst. (What those below have of their own is
//	                  charged to it and not asked of it: that may be more.)
func (w *world) judgeWindows(s *rates.Shaper, passed []passage, d coordinator.Dimension) {
	all := func(passage) bool { return true }
	if s.Ceiling.Amount > 0 {
		w.judgeRate(s.ID+" ceiling", d, &s.Ceiling, passed, arith.NoBound, all)
	}
	switch last := passed[len(passed)-1]; {
	case s.Amount == 0 && s.Hard && last.cost > 0:
		w.t.Fatalf("%s %s: has nothing and may borrow nothing, and %+v has passed", s.ID, d, last)
	case s.Hard && s.Amount > 0:
		w.judgeRate(s.ID, d, &s.Assured, passed, arith.NoBound, all)
	case !s.Hard && last.own:
		w.judgeRate(s.ID+" assured", d, &s.Assured, passed, s.Burst, func(x passage) bool { return x.charged })
	}
}

// judgeRate looks at the windows of one rate that end with the last: of that, no more than most
// counts.
func (w *world) judgeRate(name string, d coordinator.Dimension, r *rates.Bucket, passed []passage, most int64,
	counts func(passage) bool) {
	end := passed[len(passed)-1]
	if end.cost < 0 {
		return
	}
	burst := r.Burst
	if r.Per%r.Amount != 0 { // else nothing is rounded
		burst++
	}
	sum, back := min(end.cost, most), int64(0)
	for i := len(passed) - 1; i >= 0; i-- {
		x := passed[i]
		switch {
		case !counts(x):
			continue
		case x.cost < 0:
			back++ // and is rounded by less than 1 ns
			sum += x.cost
		case i < len(passed)-1:
			sum += x.cost
		}
		if flows := arith.MulDiv(end.at-x.at+back, r.Amount, r.Per); sum > burst+flows {
			w.t.Fatalf("%s %s: %d have passed within %d ns, at %d in %d ns with a burst of %d: %+v", name, d, sum, end.at-x.at,
				r.Amount, r.Per, r.Burst, passed[i:])
		}
	}
}
