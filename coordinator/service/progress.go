package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator/engine"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/stalls"
)

// endsWithin is how long after its first call that was refused a session has ended altogether.
const endsWithin = 15 * time.Second

// watchProgress looks until the session ends whether anything comes of what waits.
func (r *session) watchProgress() {
	var w stalls.Watch
	said := false
	background.Every(r.bus.Done(), stalls.Period, func() bool {
		p := r.progress()
		if r.draining.Load() || r.s.state.read().blocked { // the one has its own limit, the other its own log line
			w = stalls.Watch{}
		} else {
			w.Look(r.s.now(), p)
		}
		detail, err := w.Stalled()
		if err != nil {
			r.fault(err)
			return true
		}
		r.s.state.stall(detail)
		switch stalled := detail != ""; {
		case stalled && !said:
			r.s.log.Error().Int("commits", p.Open).Int("to_publish", p.Waiting).Msg(detail)
		case said && !stalled:
			r.s.log.Info().Msg("tasks are served again")
		}
		said = detail != ""
		return true
	})
}

// progress counts.
func (r *session) progress() (p stalls.Count) {
	ctx, cancel := context.WithTimeout(context.Background(), stalls.Period)
	defer cancel()
	var open int
	var confirmed uint64
	err := r.s.loop.query(ctx, func(time.Time, *engine.Engine) {
		if c := r.s.loop.commits; c != nil {
			open, confirmed = c.Open()
		}
	})
	p.Answers, p.Open, p.Confirmed = err == nil, open, confirmed
	p.Waiting, p.Written = r.outbox.Progress()
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
