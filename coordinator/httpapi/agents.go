package httpapi

import (
	"context"
	"net/http"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
)

// asking answers with what the service is asked for. complete makes empty lists of none.
func asking[T any](ask func(context.Context) (T, error), title, doing string, complete func(*T)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
		defer cancel()
		x, err := ask(ctx)
		if err != nil {
			web.NotAvailable(w, title, doing, err)
			return
		}
		complete(&x)
		web.Answer(w, http.StatusOK, x)
	}
}

func (a *api) agentStats() http.HandlerFunc {
	return asking(a.src.AgentStats, "Statistics not available", "Collecting the statistics", func(s *view.AgentStats) {
		s.Agents, s.Swarm.Bottlenecks = present(s.Agents), present(s.Swarm.Bottlenecks)
		for i := range s.Agents {
			s.Agents[i].Capabilities = present(s.Agents[i].Capabilities)
		}
	})
}

func (a *api) capabilities() http.HandlerFunc {
	return asking(func(ctx context.Context) (l view.CapabilityList, err error) {
		l.Capabilities, err = a.src.Capabilities(ctx)
		return l, err
	}, "Capabilities not available", "Collecting the capabilities", func(l *view.CapabilityList) {
		l.Capabilities = present(l.Capabilities)
	})
}

func (a *api) status() http.HandlerFunc {
	return asking(a.src.Status, "Status not available", "Collecting the status", func(s *view.Status) {
		s.Agents, s.Queues = present(s.Agents), present(s.Queues)
	})
}
