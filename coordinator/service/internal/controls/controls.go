package controls

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// Options are what controls are given.
type Options struct {
	// Texts keeps the text of changed quotas, for recordings.
	Texts bool
	// InForce hears of each configuration that comes in force, one after the other, and of the controls that do not
	// fit it and did fit the one before. It must not block.
	InForce func(c *config.Config, news []quotas.Suspended)
	// Lead returns what makes changes, or why that cannot be done here and now.
	Lead func() (Leader, error)
	Now  func() time.Time
}

// Controls are the standing changes to quotas.yaml as this process knows them, and what the configuration is with them.
// They are safe for concurrent use.
type Controls struct {
	Options
	changing chan struct{} // capacity 1: one change at a time, from the check to the journal

	mu        sync.Mutex // never held while anything is waited for
	file      *file
	state     State
	workedOut atomic.Uint64 // how many times, for tests
}

// State is a configuration with controls.
type State struct {
	Standing  []coordinator.QuotaControl
	Suspended []quotas.Suspended
	Config    *config.Config
}

// quotas of the configuration; nil: there are none.
func (s *State) quotas() *coordinator.Quotas { return s.Config.Policy().Quotas }

// file is a configuration as it was read, for controls to be put into.
type file struct {
	config *config.Config
	quotas *quotas.ControlledFile
}

// Prepared is a configuration with controls that are to stand.
type Prepared struct {
	file  *file
	state State
}

// New returns controls without a file; [Controls.Under] comes next.
func New(o Options) *Controls { return &Controls{Options: o, changing: make(chan struct{}, 1)} }

// WorkedOut returns how many times a configuration was worked out.
func (c *Controls) WorkedOut() uint64 { return c.workedOut.Load() }

// State returns what is in force.
func (c *Controls) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// with returns what a file becomes with standing controls.
func (c *Controls) with(f *file, standing []coordinator.QuotaControl) State {
	c.workedOut.Add(1)
	q, suspended := f.quotas.With(standing, c.Texts)
	s := State{standing, suspended, f.config}
	if q != f.quotas.Base() {
		s.Config = f.config.WithChangedQuotas(q)
	}
	return s
}

// Under puts a configuration that was read in force, with what stands. It returns the one
// that was in force before, and the one that is now.
func (c *Controls) Under(read *config.Config) (before, now *config.Config) {
	return c.underTried(read, func(*config.Config) {})
}

// underTried is Under for one that is tried first.
func (c *Controls) underTried(read *config.Config, try func(*config.Config)) (before, now *config.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &file{read, quotas.NewControlledFile(read.Policy().Quotas)}
	next := c.with(f, c.state.Standing)
	try(next.Config)
	c.file = f
	return c.inForce(next)
}

// Adopt is Under for files that a running coordinator has read again. They are tried on an engine of
// their own first: what comes of them is a refusal at worst, and never the end of the one that decides.
func (c *Controls) Adopt(read *config.Config) (before, now *config.Config, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("putting the files in force has failed inside Taskbus (%v); please report it, with the files",
				cause)
		}
	}()
	before, now = c.underTried(read, func(tried *config.Config) {
		engine.New().Apply(c.Now(), coordinator.PolicyChanged{Policy: tried.Policy()}, nil)
	})
	return before, now, nil
}

// Stand puts the files in force with other controls. prepared, if given, is what was
// worked out before; it counts if nothing has changed since.
func (c *Controls) Stand(standing []coordinator.QuotaControl, prepared *Prepared) *config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next State
	if prepared != nil && prepared.file == c.file && same(prepared.state.Standing, standing) {
		next = prepared.state
	} else {
		next = c.with(c.file, standing)
	}
	_, now := c.inForce(next)
	return now
}

// inForce notes what counts from now on. c.mu is held.
func (c *Controls) inForce(next State) (before, now *config.Config) {
	var news []quotas.Suspended
	for _, one := range next.Suspended {
		if !slices.Contains(c.state.Suspended, one) {
			news = append(news, one)
		}
	}
	before, c.state = c.state.Config, next
	c.InForce(next.Config, news)
	return before, next.Config
}

// Prepare works out what the configuration would be with other controls. Nothing changes.
func (c *Controls) Prepare(standing []coordinator.QuotaControl) *Prepared {
	c.mu.Lock()
	f := c.file
	c.mu.Unlock()
	return &Prepared{f, c.with(f, standing)}
}

// same reports whether two lists change the same in the same order.
func same(a, b []coordinator.QuotaControl) bool {
	return slices.EqualFunc(a, b, func(x, y coordinator.QuotaControl) bool { return x.Same(&y) })
}
