package stalls

import (
	"fmt"
	"time"
)

const (
	// Period is between two looks.
	Period = 2 * time.Second
	// Said is for how long nothing may come of what waits before that is said, Ends before
	// the session ends. Both are beyond what a broker takes that is merely busy, and an election of a
	// stream's leader.
	Said = 15 * time.Second
	Ends = 45 * time.Second
)

// Count is what has come of what waits, as counted at one look.
type Count struct {
	Answers            bool // the loop does
	Open, Waiting      int  // commits without an answer, and what is to be published
	Confirmed, Written uint64
}

// stalls says what has waited since an earlier look and has not gone on by one; empty: all is well.
func (c *Count) stalls(before *Count) string {
	switch {
	case !c.Answers:
		return "the loop that decides has not answered"
	case !before.Answers:
		return ""
	case c.Open > 0 && before.Open > 0 && c.Confirmed == before.Confirmed:
		return "the broker has confirmed nothing of what was written to the journal"
	case c.Waiting > 0 && before.Waiting > 0 && c.Written == before.Written:
		return "nothing of what is to be published has left"
	}
	return ""
}

// Watch is for how long nothing has come of what waits. Only time between two looks counts: a process that
// was stopped for a while finds the answers when it goes on.
type Watch struct {
	what   string
	latest Count
	looked time.Time
	lasted time.Duration
}

// Look takes over a look.
func (w *Watch) Look(now time.Time, c Count) {
	what := c.stalls(&w.latest)
	switch {
	case w.looked.IsZero():
		what = ""
	case what != "":
		w.lasted += min(now.Sub(w.looked), 2*Period)
	}
	if what == "" || what != w.what && w.what != "" {
		w.lasted = 0
	}
	w.what, w.latest, w.looked = what, c, now
}

// Stalled says for how long what has not gone on; empty: it is not to be said yet. An error is why the session is to
// end.
func (w *Watch) Stalled() (detail string, err error) {
	lasted := w.lasted.Round(time.Second)
	switch {
	case w.lasted >= Ends:
		return "", fmt.Errorf("work waits, and %s for %s", w.what, lasted)
	case w.lasted >= Said:
		return fmt.Sprintf("work waits, and %s for %s; the session ends when it is %s", w.what, lasted, Ends), nil
	default:
		return "", nil
	}
}
