package journal

import (
	"taskbus/coordinator"
)

// callKeys are the keys under which the journal has the reservations of one id: it is kept with the
// agent's name in it, and no more than the key of both is journalled.
type callKeys struct {
	id   string
	keys map[string]bool // of the reservations that it is, as text
	// learning: of any agent, as their beginnings are read, which name the agent.
	learning bool
}

// newCallKeys is for the reservations of all agents, and those of a gateway that names none.
func newCallKeys(id string) *callKeys {
	c := callKeysOf(id, "")
	c.learning = true
	return c
}

// callKeysOf is for the reservation of one agent; empty: a gateway's that names none.
func callKeysOf(id string, agent coordinator.AgentID) *callKeys {
	return &callKeys{id: id, keys: map[string]bool{keyText(coordinator.CallKey(agent, id)): true}}
}

// is reports whether a line is about such a reservation. Lines must come in their order.
func (c *callKeys) is(l *entry) bool {
	if c == nil || l.TaskKey == "" {
		return false
	}
	agent := coordinator.AgentID("")
	switch r := l.record.(type) {
	case *coordinator.QuotaReserved:
		agent = r.Agent
	case *coordinator.QuotaEnded:
		if r.Late != nil {
			agent = r.Late.Agent
		}
	}
	if c.learning && agent != "" && keyText(coordinator.CallKey(agent, c.id)) == l.TaskKey {
		c.keys[l.TaskKey] = true
	}
	return c.keys[l.TaskKey]
}
