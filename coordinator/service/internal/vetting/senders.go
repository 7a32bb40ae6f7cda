package vetting

import (
	"slices"
	"strings"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// Authentic reports whether a message of an agent may count. A key that ends in an id must end in
// the agent's, whatever agents.auth says; with it the user that the broker has validated must be
// the agent.
func (j *Judge) Authentic(messageType string, agent coordinator.AgentID, d *bus.Delivery) bool {
	if key, keyed := keyOf(d); keyed && key != agent {
		j.Log.WrongKey(messageType, agent, key)
		return false
	}
	mode := j.Config().Auth
	if mode == config.AuthOff || d.UserID == string(agent) {
		return true
	}
	j.Log.WrongSender(messageType, agent, d.UserID, mode)
	return mode != config.AuthStrict
}

// proven reports whether the broker vouches that this agent has sent the message, by its key or its user,
// and neither says otherwise.
func (j *Judge) proven(d *bus.Delivery, agent coordinator.AgentID) bool {
	key, keyed := keyOf(d)
	if keyed && key != agent || d.UserID != "" && d.UserID != string(agent) {
		return false
	}
	if j.Config().Auth == config.AuthStrict {
		return d.UserID != ""
	}
	return keyed || d.UserID != ""
}

// keyOf returns the id at the end of the key by which a message came: <queue>.<id>, which the broker lets
// only that user publish by, where users have the permissions of deploy/; false for one that came
// otherwise.
func keyOf(d *bus.Delivery) (id coordinator.AgentID, keyed bool) {
	name, keyed := strings.CutPrefix(d.RoutingKey, d.Queue+".")
	return coordinator.AgentID(name), keyed && bus.Inwards(d.Exchange)
}

// agentsKey is keyOf for the key of an agent of the fleet; false for any other.
func (j *Judge) agentsKey(d *bus.Delivery) (id coordinator.AgentID, is bool, err error) {
	id, keyed := keyOf(d)
	if !keyed {
		return "", false, nil
	}
	is, err = j.isAgent(id)
	return id, is, err
}

// isAgent reports whether this is an agent of the fleet, listed or joined.
func (j *Judge) isAgent(id coordinator.AgentID) (is bool, err error) {
	p := j.Config().Policy()
	if slices.ContainsFunc(p.Agents, func(a coordinator.AgentSpec) bool { return a.ID == id }) {
		return true, nil
	}
	if p.Discovery == nil {
		return false, nil
	}
	return j.Joined(id)
}
