package onloss

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/billing"
)

// ownWords judges agents' own reports about calls that are admitted without a leader, as a leader judges
// reports of calls without a reservation: no coordinator that knows what is left has granted it. It has the
// quotas of quotas.yaml, and counts in them what was reported here in this way, and nothing else: only the
// leader knows what a leader has granted.
type ownWords struct {
	quotas *coordinator.Quotas // that are in force
	ledger *fairshare.Ledger   // by them, from the first question on: it is seldom needed, and large
	// open is what agents have asked for by themselves and not reported the end of.
	open map[coordinator.AgentID]coordinator.Amounts
}

// spoken is the part of a call that counts as its agent's own report.
type spoken struct {
	own     bool
	open    bool                // it is in ownWords.open, else in the ledger
	amounts coordinator.Amounts // as much
}

func newOwnWords() ownWords {
	return ownWords{ledger: fairshare.NewLedger(), open: make(map[coordinator.AgentID]coordinator.Amounts)}
}

// under installs other quotas, nil for none. What was reported stays counted.
func (w *ownWords) under(q *coordinator.Quotas) { w.quotas = q }

// now moves the clock, and installs the quotas in force for a question.
func (w *ownWords) now(now time.Time) {
	if w.ledger.Quotas() != w.quotas {
		w.ledger.Install(now, w.quotas)
	}
	w.ledger.Due(now)
}

// asks judges what an agent asks for by itself: as much counts as its word. What of that is guessed is no
// more than its limits allow at one time, as a leader would guess.
func (w *ownWords) asks(now time.Time, charge fairshare.Charge, guessed billing.Guessed) (coordinator.Amounts,
	*fairshare.Doubt) {
	w.now(now)
	w.ledger.Bound(&charge, guessed)
	charge.Amounts[coordinator.DimConcurrency] = 0
	return charge.Amounts, w.doubt(&charge, &coordinator.Amounts{})
}

// says judges what an agent says that a call has used of which so much counts already.
func (w *ownWords) says(now time.Time, charge *fairshare.Charge, word *spoken) *fairshare.Doubt {
	w.now(now)
	return w.doubt(charge, &word.amounts)
}

// anyones judges what a gateway says that a call has used.
func (w *ownWords) anyones(now time.Time, charge *fairshare.Charge) *fairshare.Doubt {
	w.now(now)
	return w.ledger.DoubtedCall(charge, &coordinator.Amounts{})
}

// doubt judges what more than has counts already an agent says of a call, together with all else that
// it has open: else it would ask for as much again before it reports the first.
func (w *ownWords) doubt(charge *fairshare.Charge, has *coordinator.Amounts) *fairshare.Doubt {
	told, besides := *charge, w.open[charge.Agent]
	for d, x := range charge.Amounts {
		if besides[d] -= has[d]; x <= has[d] {
			told.Amounts[d] = 0
			continue
		}
		told.Amounts[d] = x + besides[d]
	}
	doubt := w.ledger.DoubtedUnasked(w.ledger.Now(), &told)
	if doubt != nil { // of this call
		doubt.Told -= besides[doubt.Dimension]
		doubt.Most = max(doubt.Most-besides[doubt.Dimension], has[doubt.Dimension], 0)
	}
	return doubt
}

// opens counts what an agent has asked for and is to report the end of.
func (w *ownWords) opens(agent coordinator.AgentID, word *spoken) {
	if word.own {
		word.open = true
		w.add(agent, &word.amounts, 1)
	}
}

// closes takes it out again.
func (w *ownWords) closes(agent coordinator.AgentID, word *spoken) {
	if word.open {
		word.open = false
		w.add(agent, &word.amounts, -1)
	}
}

func (w *ownWords) add(agent coordinator.AgentID, amounts *coordinator.Amounts, sign int64) {
	open := w.open[agent]
	for d := range open {
		open[d] += sign * amounts[d]
	}
	if w.open[agent] = open; open == (coordinator.Amounts{}) {
		delete(w.open, agent)
	}
}

// book takes into the books what a call has used by its agent's report, beyond what is there of it already;
// used is nil if it has reported nothing, and as much counts as it asked for.
func (w *ownWords) book(now time.Time, key coordinator.TaskKey, charge *fairshare.Charge, used *coordinator.Amounts,
	word *spoken) {
	told := word.amounts
	if used != nil {
		told = *used
	}
	there := word.amounts
	if word.open {
		there = coordinator.Amounts{}
	}
	w.closes(charge.Agent, word)
	if !word.own { // a gateway has reported it
		return
	}
	more := *charge
	more.NoBorrowing = true // else the report would raise its own trust limit
	for d := range more.Amounts {
		more.Amounts[d] = max(told[d]-there[d], 0)
		word.amounts[d] = max(told[d], there[d])
	}
	w.now(now)
	w.ledger.Charge(now, key, &more)
	w.ledger.SettleBy(now, key, more.Amounts, false, coordinator.WordUnasked)
}
