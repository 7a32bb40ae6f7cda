package service

import (
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/controls"
)

// newControls returns the standing changes to quotas.yaml, none yet.
func (s *Service) newControls() *controls.Controls {
	fixed := s.options.Config
	return controls.New(controls.Options{
		Texts:   fixed.Journal && fixed.RecordInputs, // only recordings have their text
		InForce: s.inForce, Lead: s.leadsWithJournal, Now: s.now,
	})
}

// inForce hears of the configuration that counts from now on, and of the controls that do not fit it.
func (s *Service) inForce(c *config.Config, news []quotas.Suspended) {
	for _, one := range news {
		s.observe.ControlSuspended(one)
	}
	s.calls.Under(c.Policy().Quotas)
	s.metrics.ByAgent.Limit(c.MetricsAgents)
	s.observe.LogTasks(c.LogTasks)
	s.config.Store(c)
}

// forgetControls goes back to the files alone, for an engine that knows nothing yet: the journal
// says what stands.
func (s *Service) forgetControls() *coordinator.Policy { return s.controls.Stand(nil, nil).Policy() }

// foldRecord lets an engine that follows take over a record, under what the journal has said before.
// It runs on the loop's goroutine, as what follows.
func (s *Service) foldRecord(at time.Time, r coordinator.Record) {
	e := s.loop.engine
	if e.PolicyDue(at, r) {
		s.foldControls()
	}
	e.Fold(at, r)
	if e.PolicyDue(at, nil) {
		s.foldControls()
	}
}

// foldControls lets an engine that follows go on under the controls that it has folded, if there are
// any that it does not go by yet.
func (s *Service) foldControls() {
	e := s.loop.engine
	if at, behind := e.PolicyBehind(); behind {
		e.FoldPolicy(at, s.controls.Stand(e.QuotaControls(), nil).Policy())
	}
}

// install lets the engine go on under the controls that it has. It runs on the loop's goroutine,
// in the turn in which they have changed.
func (s *Service) install(now time.Time, prepared *controls.Prepared) {
	l := s.loop
	l.apply(now, coordinator.PolicyChanged{Policy: s.controls.Stand(l.engine.QuotaControls(), prepared).Policy()})
}

// controlsStand hears that controls have changed and that the journal has it.
func (r *session) controlsStand(f coordinator.QuotaControlsStand) {
	if f.Token != 0 {
		r.s.callers.Changed(&f)
		return
	}
	r.controls.Add(struct{}{}) // some have ended: what the quotas are now is not worked out here
}

// renewQuotas puts in force what the quotas are after the engine has changed controls by itself.
func (r *session) renewQuotas(struct{}) {
	s := r.s
	var standing []coordinator.QuotaControl
	got := make(chan struct{})
	s.loop.enqueue(envelope{call: func(time.Time) {
		standing = s.loop.engine.QuotaControls()
		close(got)
	}})
	select {
	case <-got:
	case <-s.loop.stopped:
		return
	}
	prepared := s.controls.Prepare(standing)
	s.loop.within(r.number, func(now time.Time) { s.install(now, prepared) })
}
