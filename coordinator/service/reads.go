package service

import (
	"context"

	"taskbus/coordinator/service/internal/reading"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

// What is read through the HTTP interface (see httpapi.Source): all but the state of the process.

// newReader returns what answers questions about tasks, agents and quotas.
func (s *Service) newReader() *reading.Reader {
	return reading.New(reading.Options{
		Query: s.loop.query, Snapshot: s.snapshot, Recent: s.history, Decoder: s.decoder, Now: s.now,
	})
}

// Task returns what is remembered of one task.
func (s *Service) Task(ctx context.Context, id string) (view.Task, bool) {
	return s.reading.Task(ctx, id, s.knowsFleet())
}

// Tasks lists recent tasks, the newest first.
func (s *Service) Tasks(ctx context.Context, f view.TaskFilter) []view.Task {
	return s.reading.Tasks(ctx, f, s.knowsFleet())
}

// Explain says why a task was decided as it was, and how it would be decided now.
func (s *Service) Explain(ctx context.Context, id string) (view.TaskExplanation, bool) {
	return s.reading.Explain(ctx, id, s.knowsFleet())
}

// WhatIf says how a task would be decided now.
func (s *Service) WhatIf(ctx context.Context, body []byte) (view.Prospect, error) {
	return s.reading.WhatIf(ctx, body, s.knowsFleet())
}

// AgentStats returns the fleet in figures.
func (s *Service) AgentStats(ctx context.Context) (view.AgentStats, error) {
	if err := s.knowsFleet(); err != nil {
		return view.AgentStats{}, err
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return view.AgentStats{}, err
	}
	return views.AgentStats(&snap, s.depths.Unread(&snap)), nil
}

// Capabilities is demand and supply of every capability.
func (s *Service) Capabilities(ctx context.Context) ([]view.Capability, error) {
	if err := s.knowsFleet(); err != nil {
		return nil, err
	}
	return s.reading.Capabilities(ctx)
}

// Quotas returns what is used of the LLM quotas. One that stands by reports what the journal has said so far.
func (s *Service) Quotas(ctx context.Context, of view.QuotaSelection) (view.Quotas, error) {
	q, err := s.reading.Quotas(ctx, of)
	if err == nil && of == (view.QuotaSelection{Limit: of.Limit}) {
		q.Unpriced = s.observe.Unpriced()
	}
	return q, err
}

// ExplainQuota says whether there is quota for something now.
func (s *Service) ExplainQuota(ctx context.Context, q view.QuotaQuestion) (view.QuotaAnswer, error) {
	return s.reading.ExplainQuota(ctx, q)
}
