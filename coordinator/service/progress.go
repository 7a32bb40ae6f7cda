package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/background"
)

// A leader that cannot go on is worse than none: its lock keeps a standby away. What follows notices that
// work waits and nothing comes of it, whatever the reason is, and ends the session, so that another leads,
// or this one anew.

const (
	progressLook = 2 * time.Second
	// stalledSaid is for how long nothing may come of what waits before that is said, stalledEnds before
	// the session ends. Both are beyond what a broker takes that is merely busy, and an election of a
	// stream's leader.
	stalledSaid = 15 * time.Second
	stalledEnds = 45 * time.Second
	// endsWithin is how long after its first call that was refused a session has ended altogether.
	endsWithin = 15 * time.Second
)

// progress is what has come of what waits, as counted at one look.
type progress struct {
	answers            bool // the loop does
	open, waiting      int  // commits without an answer, and what is to be published
	confirmed, written uint64
}

// stalls says what has waited since an earlier look and has not gone on by one; empty: all is well.
func (p *progress) stalls(before *progress) string {
	switch {
	case !p.answers:
		return "the loop that decides has not answered"
	case !before.answers:
		return ""
	case p.open > 0 && before.open > 0 && p.confirmed == before.confirmed:
		return "the broker has confirmed nothing of what was written to the journal"
	case p.waiting > 0 && before.waiting > 0 && p.written == before.written:
		return "nothing of what is to be published has left"
	}
	return ""
}

// stall is for how long nothing has come of what waits. Only time between two looks counts: a process that
// was stopped for a while finds the answers when it goes on.
type stall struct {
	what   string
	latest progress
	looked time.Time
	lasted time.Duration
}

// look takes over a look.
func (s *stall) look(now time.Time, p progress) {
	what := p.stalls(&s.latest)
	switch {
	case s.looked.IsZero():
		what = ""
	case what != "":
		s.lasted += min(now.Sub(s.looked), 2*progressLook)
	}
	if what == "" || what != s.what && s.what != "" {
		s.lasted = 0
	}
	s.what, s.latest, s.looked = what, p, now
}

// watchProgress looks until the session ends.
func (r *session) watchProgress() {
	var s stall
	said := false
	background.Every(r.bus.Done(), progressLook, func() bool {
		p := r.progress()
		if r.draining.Load() || r.s.state.read().blocked { // the one has its own limit, the other its own log line
			s = stall{}
		} else {
			s.look(r.s.now(), p)
		}
		switch {
		case s.lasted >= stalledEnds:
			r.fault(fmt.Errorf("work waits, and %s for %s", s.what, s.lasted.Round(time.Second)))
		case s.lasted >= stalledSaid:
			detail := fmt.Sprintf("work waits, and %s for %s; the session ends when it is %s", s.what,
				s.lasted.Round(time.Second), stalledEnds)
			r.s.state.stall(detail)
			if !said {
				r.s.log.Error().Int("commits", p.open).Int("to_publish", p.waiting).Msg(detail)
			}
			said = true
		default:
			if said {
				r.s.log.Info().Msg("tasks are served again")
			}
			said = false
			r.s.state.stall("")
		}
		return true
	})
}

// progress counts.
func (r *session) progress() (p progress) {
	ctx, cancel := context.WithTimeout(context.Background(), progressLook)
	defer cancel()
	var open int
	var confirmed uint64
	err := r.s.loop.query(ctx, func(time.Time, *engine.Engine) {
		if c := r.s.loop.commits; c != nil {
			open, confirmed = c.Open()
		}
	})
	p.answers, p.open, p.confirmed = err == nil, open, confirmed
	p.waiting, p.written = r.outbox.Progress()
	return p
}

// lasting runs a goroutine that lives as long as the session. If it ends before, by a mistake about the
// session's end, nothing else would notice: then the session ends, too.
func (r *session) lasting(what string, f func()) {
	r.workers.Go(func() {
		f()
		timeout := time.NewTimer(endsWithin)
		defer timeout.Stop()
		select {
		case <-r.bus.Done():
		case <-timeout.C:
			if !r.draining.Load() { // some have nothing more to do then
				r.fault(fmt.Errorf("a fault of Taskbus, please report it: what %s has ended, and the session has not", what))
			}
		}
	})
}
