package service

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// controls are the standing changes to quotas.yaml as this process knows them, and what the
// configuration is with them. The engine has the list, which is in the journal; here it is merged
// with the files, because the engine reads none.
type controls struct {
	changing chan struct{} // capacity 1: one change at a time, from the check to the journal

	mu   sync.Mutex // never held while anything is waited for
	file *controlledFile
	controlledConfig
	workedOut atomic.Uint64 // how many times, for tests
}

// controlledFile is a configuration as it was read, for controls to be put into.
type controlledFile struct {
	config *config.Config
	quotas *config.ControlledFile
}

// controlledConfig is a configuration with controls.
type controlledConfig struct {
	standing  []coordinator.QuotaControl
	suspended []config.Suspended
	config    *config.Config
}

// withControls returns what a configuration becomes with standing controls.
func (s *Service) withControls(file *controlledFile, standing []coordinator.QuotaControl) controlledConfig {
	s.controls.workedOut.Add(1)
	fixed := s.options.Config
	q, suspended := file.quotas.With(standing, fixed.Journal && fixed.RecordInputs) // only recordings have their text
	c := controlledConfig{standing, suspended, file.config}
	if q != file.quotas.Base() {
		c.config = file.config.WithChangedQuotas(q)
	}
	return c
}

// underFile puts a configuration that was read in force, with what stands. It returns the one
// that was in force before, and the one that is now.
func (s *Service) underFile(file *config.Config) (before, now *config.Config) {
	return s.underTried(file, func(*config.Config) {})
}

// underTried is underFile for one that is tried first.
func (s *Service) underTried(file *config.Config, try func(*config.Config)) (before, now *config.Config) {
	c := &s.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	read := &controlledFile{file, config.NewControlledFile(file.Policy().Quotas)}
	next := s.withControls(read, c.standing)
	try(next.config)
	c.file = read
	return s.inForce(next)
}

// adopt is underFile for files that a running coordinator has read again. They are tried on an engine of
// their own first: what comes of them is a refusal at worst, and never the end of the one that decides.
func (s *Service) adopt(file *config.Config) (before, now *config.Config, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("putting the files in force has failed inside Taskbus (%v); please report it, with the files",
				cause)
		}
	}()
	before, now = s.underTried(file, func(c *config.Config) {
		engine.New().Apply(s.now(), coordinator.PolicyChanged{Policy: c.Policy()}, nil)
	})
	return before, now, nil
}

// underControls puts the files in force with other controls. prepared, if given, is what was
// worked out before; it counts if nothing has changed since.
func (s *Service) underControls(standing []coordinator.QuotaControl, prepared *preparedControls) *config.Config {
	c := &s.controls
	c.mu.Lock()
	defer c.mu.Unlock()
	var next controlledConfig
	if prepared != nil && prepared.file == c.file && sameControls(prepared.standing, standing) {
		next = prepared.controlledConfig
	} else {
		next = s.withControls(c.file, standing)
	}
	_, now := s.inForce(next)
	return now
}

// inForce notes what counts from now on. c.mu is held.
func (s *Service) inForce(next controlledConfig) (before, now *config.Config) {
	c := &s.controls
	for _, one := range next.suspended {
		if !slices.Contains(c.suspended, one) {
			s.observe.ControlSuspended(one)
		}
	}
	c.controlledConfig = next
	s.calls.Under(next.config.Policy().Quotas)
	s.metrics.ByAgent.Limit(next.config.MetricsAgents)
	s.observe.LogTasks(next.config.LogTasks)
	return s.config.Swap(next.config), next.config
}

// preparedControls is a configuration with controls that are to stand.
type preparedControls struct {
	file *controlledFile
	controlledConfig
}

// prepare works out what the configuration would be with other controls. Nothing changes.
func (s *Service) prepare(standing []coordinator.QuotaControl) *preparedControls {
	s.controls.mu.Lock()
	file := s.controls.file
	s.controls.mu.Unlock()
	return &preparedControls{file, s.withControls(file, standing)}
}

// controlled returns what is in force.
func (s *Service) controlled() controlledConfig {
	s.controls.mu.Lock()
	defer s.controls.mu.Unlock()
	return s.controls.controlledConfig
}

// sameControls reports whether two lists change the same in the same order.
func sameControls(a, b []coordinator.QuotaControl) bool {
	return slices.EqualFunc(a, b, func(x, y coordinator.QuotaControl) bool { return x.Same(&y) })
}

// forgetControls goes back to the files alone, for an engine that knows nothing yet: the journal
// says what stands.
func (s *Service) forgetControls() *coordinator.Policy { return s.underControls(nil, nil).Policy() }

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
		e.FoldPolicy(at, s.underControls(e.QuotaControls(), nil).Policy())
	}
}

// install lets the engine go on under the controls that it has. It runs on the loop's goroutine,
// in the turn in which they have changed.
func (s *Service) install(now time.Time, prepared *preparedControls) {
	l := s.loop
	l.apply(now, coordinator.PolicyChanged{Policy: s.underControls(l.engine.QuotaControls(), prepared).Policy()})
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
	prepared := s.prepare(standing)
	s.loop.within(r.number, func(now time.Time) { s.install(now, prepared) })
}
