package httpapi

import (
	"context"
	"net/http"
	"taskbus/coordinator/view"
)

func (a *api) agentStats(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	s, err := a.src.AgentStats(ctx)
	if err != nil {
		notAvailable(w, "Statistics not available", "Collecting the statistics", err)
		return
	}
	s.Agents, s.Swarm.Bottlenecks = present(s.Agents), present(s.Swarm.Bottlenecks)
	for i := range s.Agents {
		s.Agents[i].Capabilities = present(s.Agents[i].Capabilities)
	}
	answer(w, http.StatusOK, s)
}

func (a *api) capabilities(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	list, err := a.src.Capabilities(ctx)
	if err != nil {
		notAvailable(w, "Capabilities not available", "Collecting the capabilities", err)
		return
	}
	answer(w, http.StatusOK, view.CapabilityList{Capabilities: present(list)})
}
