package observer

import (
	"errors"

	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// LaneMissing writes down that a lane's queue cannot be made now: its tasks wait on in the
// window.
func (o *Observer) LaneMissing(lane string, err error) {
	if !errors.Is(err, bus.ErrClosed) {
		o.gated(noiseLane, zerolog.WarnLevel).Err(err).Str("queue", bus.LaneQueue(lane).Name).
			Msg("the queue of a lane is missing and cannot be made; its tasks wait in the window meanwhile")
	}
}

// LaneUnread writes down that a lane cannot be read now.
func (o *Observer) LaneUnread(lane string, err error) {
	if !errors.Is(err, bus.ErrClosed) {
		o.gated(noiseLane, zerolog.WarnLevel).Err(err).Str("queue", bus.LaneQueue(lane).Name).
			Msg("a lane cannot be read now; its tasks stay there until it can")
	}
}

// LaneDropped writes down that the queue of a lane is deleted. An error is that something was
// in it.
func (o *Observer) LaneDropped(lane string, err error) {
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

// QueueChecked writes down whether an agent's queue is there.
func (o *Observer) QueueChecked(q coordinator.EnsureQueue, exists bool, err error) {
	switch {
	case err != nil:
		o.gated(noiseQueue, zerolog.WarnLevel).Err(err).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue cannot be checked")
	case exists:
		o.gated(noiseQueueThere, zerolog.InfoLevel).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue is there (again)")
	default:
		o.gated(noiseQueue, zerolog.WarnLevel).Str("agent_id", string(q.Agent)).Str("queue", q.Queue).
			Msg("the agent's queue does not exist; it gets no work until it does")
	}
}

// Declared writes down what has become of the queues of new agents; err is the first error among those that are
// missing.
func (o *Observer) Declared(declared, unwanted, missing int, err error) {
	if declared+unwanted+missing == 0 {
		return
	}
	e := o.log.Info()
	if missing > 0 && !errors.Is(err, bus.ErrClosed) {
		e = o.log.Warn().Err(err).Int("missing", missing)
	}
	e.Int("declared", declared).Int("no_longer_wanted", unwanted).
		Msg(
			"the queues of new agents have been seen to; of those that are missing the agent gets no work until its queue " +
				"exists")
}

// TakeBack writes down that an agent's queue is consumed for others, or why not.
func (o *Observer) TakeBack(agent coordinator.AgentID, queue string, err error) {
	switch {
	case err == nil:
		o.log.Info().Str("agent_id", string(agent)).Str("queue", queue).
			Msg("taking back what waits in the agent's queue")
	case !errors.Is(err, bus.ErrClosed):
		o.gated(noiseTakeBack, zerolog.WarnLevel).Err(err).Str("agent_id", string(agent)).Str("queue", queue).
			Msg("what waits in the agent's queue cannot be taken back now")
	}
}

// Foreign writes down that the queue of an agent that joined by itself holds what is no dispatch.
func (o *Observer) Foreign(agent coordinator.AgentID, queue string) {
	o.gated(noiseTakeBack, zerolog.WarnLevel).Str("agent_id", string(agent)).Str("queue", queue).
		Msg(
			"the queue that this agent announced holds messages that are no dispatches; they stay there, and nothing is " +
				"taken back from it for a while: " +
				"see whose queue it is, and let discovery.queues admit only queues that are the agents' own (said once for " +
				"each queue and session)")
}
