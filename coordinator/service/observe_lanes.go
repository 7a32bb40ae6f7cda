package service

import (
	"errors"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// laneMissing writes down that a lane's queue cannot be made now: its tasks wait on in the
// window.
func (o *observer) laneMissing(lane string, err error) {
	if !errors.Is(err, bus.ErrClosed) {
		o.gated(noiseLane, zerolog.WarnLevel).Err(err).Str("queue", bus.LaneQueue(lane).Name).
			Msg("the queue of a lane is missing and cannot be made; its tasks wait in the window meanwhile")
	}
}

// laneUnread writes down that a lane cannot be read now.
func (o *observer) laneUnread(lane string, err error) {
	if !errors.Is(err, bus.ErrClosed) {
		o.gated(noiseLane, zerolog.WarnLevel).Err(err).Str("queue", bus.LaneQueue(lane).Name).
			Msg("a lane cannot be read now; its tasks stay there until it can")
	}
}

// laneDropped writes down that the queue of a lane is deleted. An error is that something was
// in it.
func (o *observer) laneDropped(lane string, err error) {
	if err != nil {
		o.log.Error().Err(err).Str("queue", bus.LaneQueue(lane).Name).
			Msg(
				"the queue of a lane that was empty is deleted, and something came into it that did not come from this " +
					"coordinator: it is lost")
		return
	}
	why := "a lane that the configuration no longer has is empty; its queue is deleted"
	if coordinator.LaneBase(lane) != lane {
		why = "a lane beside another is empty; its queue is deleted"
	}
	o.log.Info().Str("queue", bus.LaneQueue(lane).Name).Msg(why)
}
