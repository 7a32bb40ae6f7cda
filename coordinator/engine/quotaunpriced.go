package engine

import (
	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
)

// unpriced tells the world of a call or task, charged so, of a model without a price, where money is
// limited: it would get past that limit.
func (e *Engine) unpriced(c *fairshare.Charge, refused bool) {
	p := e.quotas.ledger.PathOf(c)
	if n, is := e.quotas.ledger.Unpriced(&p, c); is {
		e.emit(coordinator.ModelUnpriced{
			Group: c.Group, Agent: c.Agent, Service: coordinator.Service{Provider: c.Provider, Model: c.Model},
			Node: e.quotas.ledger.NodeID(n), Refused: refused,
		})
	}
}
