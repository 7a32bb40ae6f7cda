package callgate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"taskbus/coordinator/view"
)

// alone is the time in which this coordinator can ask no leader about calls. A takeover makes it some
// seconds; where it lasts something is set up wrongly, and as long as on_loss lets calls pass no caller
// notices it.
type alone struct {
	on       atomic.Bool // the rest counts: what is answered looks at this alone
	mu       sync.Mutex
	since    time.Time // of the first question that no leader has answered
	last     time.Time // and of the latest
	admitted int       // of those asked about
}

// aloneShown is for how long after the latest question without a leader's answer that is shown, if no call
// is still to be charged: there were no questions since, and it may be over.
const aloneShown = time.Minute

// unanswered notes that no leader has answered, and what was admitted by this coordinator itself. first:
// this was the first time that anything was.
func (a *alone) unanswered(now time.Time, admitted int) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on.Load() {
		a.since, a.admitted = now, 0
		a.on.Store(true)
	}
	first = a.admitted == 0 && admitted > 0
	a.last = now
	a.admitted += admitted
	return first
}

// answered notes that a leader has answered; ended: none had before, and so many calls were admitted
// since that moment.
func (a *alone) answered() (ended bool, since time.Time, admitted int) {
	if !a.on.Load() {
		return false, time.Time{}, 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on.Swap(false), a.since, a.admitted
}

// Check returns what is to be said in /health of the time without a leader; false: nothing.
func (g *Gate) Check() (c view.Check, said bool) {
	now, owed, a := g.now(), g.Owed(), &g.alone
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on.Load() || owed == 0 && now.Sub(a.last) > aloneShown {
		return c, false
	}
	return view.Check{Status: view.Degraded, Detail: fmt.Sprintf(
		"no leader can be asked about calls since %s: %d were admitted by on_loss, and %d are not charged yet; the log "+
			"says why",
		a.since.Format(time.RFC3339), a.admitted, owed)}, true
}

// admittedAlone logs that calls are admitted without a leader from now on, and why. address is the
// leader's; empty: there is no leader, or its address is not known.
func (l *lines) admittedAlone(err error, address string) {
	e := l.alone.At(zerolog.WarnLevel).Err(err)
	if address != "" {
		e = e.Str("address", address)
	}
	e.Msg("calls are admitted without the leader, as on_loss in quotas.yaml says, and charged when it can be asked; " +
		"if this lasts longer than a takeover see that http.advertise_url (TASKBUS_ADVERTISE_URL) of the leader is where " +
		"others reach it")
}

// aloneEnded writes down that a leader answers again.
func (l *lines) aloneEnded(since time.Time, admitted int) {
	l.alone.At(zerolog.InfoLevel).Time("since", since).Int("calls", admitted).
		Msg("the leader can be asked about calls again; so many were admitted without it, and it is told of them")
}
