package observer

import (
	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/messages"
	"taskbus/schemas"
)

func (o *Observer) agentChanged(c coordinator.AgentChanged) {
	if c.State == coordinator.AgentOnline {
		o.metrics.ByAgent.Came(c.Agent)
	}
	e := o.log.Warn()
	if c.State == coordinator.AgentOnline || c.State == coordinator.AgentOffline { // it says so itself
		e = o.log.Info()
	}
	e.Str("agent_id", string(c.Agent)).Stringer("state", c.State).
		Time("last_heartbeat", c.LastHeartbeat).Msg("agent is " + c.State.String())
}

func (o *Observer) agentTrusted(f coordinator.AgentTrusted) {
	capability := f.Capability
	if capability == "" {
		capability = "(tasks that require none)"
	}
	if f.Trusted {
		o.log.Info().Str("agent_id", string(f.Agent)).Str("capability", capability).
			Msg("agent gets work for this capability again")
		return
	}
	o.metrics.ByAgent.Ejected(f.Agent)
	o.log.Warn().Str("agent_id", string(f.Agent)).Str("capability", capability).Time("until", f.Until).
		Int("times", f.Times).
		Msg(
			"agent gets no work for this capability: it failed or refused too often; it is tried again then (see " +
				"circuit_breaker)")
}

func (o *Observer) statusRefused(f coordinator.StatusRefused) {
	o.count.statusRefused[f.Refusal].Add(1)
	o.metrics.StatusRefused.WithLabelValues(f.Refusal.String()).Inc()
	if f.Refusal == coordinator.StatusUnknownAgent {
		o.count.unlisted.add(o.now(), string(f.Agent))
	}
	if f.First {
		o.log.Warn().Str("agent_id", string(f.Agent)).Stringer("refusal", f.Refusal).
			Msg("a heartbeat changes nothing (said once for each agent and cause)")
	}
}

func (o *Observer) otherQueue(f coordinator.OtherQueue) {
	o.gated(noiseQueue, zerolog.WarnLevel).Str("agent_id", string(f.Agent)).Str("queue", f.Listed).
		Str("announced", messages.Clean(f.Announced, 255)).
		Msg(
			"the agent says that it consumes another queue than agents.yaml names for it; what it is given lies where it " +
				"does not look")
}

func (o *Observer) agentShared(f coordinator.AgentShared) {
	o.log.Warn().Str("agent_id", string(f.Agent)).Int("instances", f.Instances).
		Msg(
			"several processes report under one agent_id: the slots and tasks of one count for all; give each its own " +
				"agent_id (see docs/howto/write-an-agent.md, replicas)")
}

// InvalidStatus writes down a heartbeat that is ignored.
func (o *Observer) InvalidStatus(r *messages.Refusal) {
	o.count.invalidStatus.Add(1)
	o.metrics.Invalid.WithLabelValues(schemas.AgentStatus, r.Keyword).Inc()
	sender(o.gated(noiseInvalidStatus, zerolog.WarnLevel), r, "invalid heartbeat ignored")
}
