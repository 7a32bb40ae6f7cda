package service

import (
	"context"
	"fmt"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/controls"
	"taskbus/coordinator/view"
)

// Operators change quotas (see httpapi.Source). Only a coordinator that leads does so, and only with the journal: a
// change that is not journalled would be gone with the next session.

// leadsWithJournal returns the session that may change quotas, or says why there is none.
func (s *Service) leadsWithJournal() (controls.Leader, error) {
	r, err := s.leading()
	if err == nil && r.ledger == nil {
		err = controls.ErrNoJournal
	}
	return controlling{r}, err
}

// controlling is a session that changes quotas.
type controlling struct{ *session }

// Change has the engine make a change.
func (r controlling) Change(set []coordinator.QuotaControl, remove []string,
	prepared *controls.Prepared) ([]coordinator.QuotaControl, error) {
	return r.s.order(r.session, func(now time.Time, token uint64) {
		r.s.loop.apply(now, coordinator.QuotaControlsRequested{Set: set, Remove: remove, Token: token})
		if prepared != nil {
			r.s.install(now, prepared)
		}
	})
}

// ControlQuota sets, boosts or corrects settings of a node.
func (s *Service) ControlQuota(ctx context.Context, q view.QuotaChange) (view.QuotaChanged, error) {
	answer, of, err := s.controls.Control(ctx, q)
	return s.withNodes(ctx, answer, of, err)
}

// RegisterQuota registers a group or agent that quotas.yaml does not list.
func (s *Service) RegisterQuota(ctx context.Context, q view.QuotaEntry) (view.QuotaChanged, error) {
	answer, of, err := s.controls.Register(ctx, q)
	return s.withNodes(ctx, answer, of, err)
}

// UnregisterQuota ends that.
func (s *Service) UnregisterQuota(ctx context.Context, agent bool, id string) (view.QuotaChanged, error) {
	return s.controls.Unregister(ctx, agent, id)
}

// UncontrolQuota ends a control.
func (s *Service) UncontrolQuota(ctx context.Context, id string) (view.QuotaChanged, error) {
	answer, of, err := s.controls.Uncontrol(ctx, id)
	return s.withNodes(ctx, answer, of, err)
}

// QuotaControls lists what stands.
func (s *Service) QuotaControls(context.Context) (view.QuotaControls, error) {
	return s.controls.List(), nil
}

// withNodes adds to an answer the nodes that it is about. The change stands, whatever becomes of ctx.
func (s *Service) withNodes(ctx context.Context, answer view.QuotaChanged, of view.QuotaSelection,
	err error) (view.QuotaChanged, error) {
	if err != nil || of == (view.QuotaSelection{}) {
		return answer, err
	}
	of.Limit = httpapi.MaxQuotaLimit
	q, err := s.Quotas(context.WithoutCancel(ctx), of)
	if err != nil {
		return answer, fmt.Errorf("the change stands; %w", err)
	}
	answer.Nodes = q.Nodes
	return answer, nil
}
