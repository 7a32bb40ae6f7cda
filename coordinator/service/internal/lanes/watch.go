package lanes

import (
	"context"
	"errors"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/background"
)

const (
	watchPeriod = 500 * time.Millisecond
	lookTimeout = 10 * time.Second
	// PerRound is how many lanes are looked at in one round.
	PerRound = 100
)

// Watch looks at the lanes that the engine names until the session ends. It runs on a goroutine of its own.
func (q *Queues) Watch() {
	background.Every(q.Bus.Done(), watchPeriod, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		defer cancel()
		all, err := q.Watched(ctx)
		if err != nil {
			return true // the loop is busy, or ends: the next round tries again
		}
		for _, lane := range all {
			if q.leaving() || !q.look(lane) {
				return false
			}
		}
		return true
	})
}

// look asks the broker about one lane and reports to the engine; false when the session
// has ended.
func (q *Queues) look(lane string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	d, err := q.Bus.Depth(ctx, bus.LaneQueue(lane).Name)
	missing := errors.Is(err, bus.ErrNoQueue)
	switch {
	case missing:
		q.Missing(lane)
	case err == nil && d == (bus.Depth{}):
		// So the broker also says when it does not know. A lane that is forgotten is not looked at any more.
		var some bool
		if some, err = q.Bus.Holds(ctx, bus.LaneQueue(lane).Name); some {
			d.Ready = 1
		}
	}
	if err != nil && !missing {
		return !errors.Is(err, bus.ErrClosed)
	}
	q.Post(coordinator.LaneSeen{Lane: lane, Ready: d.Ready, Missing: missing})
	return true
}
