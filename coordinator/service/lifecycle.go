package service

import (
	"sync"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
)

// The states of the process, as /readyz shows them.
const (
	stateConnecting = "connecting"
	stateStandby    = "standby"
	stateActive     = "active"
	stateBlocked    = "blocked"
	stateStalled    = "stalled"
	stateDraining   = "draining"
	stateStopped    = "stopped"
)

// lifecycle is where the process stands with its broker.
type lifecycle struct {
	mu          sync.Mutex
	state       string
	detail      string
	blockReason string
	blocked     bool
	stalled     string    // what does not go on; empty: nothing
	since       time.Time // of the session at hand; zero: none
	lastError   string
}

func (l *lifecycle) set(state, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.detail = state, detail
}

func (l *lifecycle) opened(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.lastError = now, ""
}

func (l *lifecycle) block(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked, l.blockReason = true, reason
}

func (l *lifecycle) unblock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked, l.blockReason = false, ""
}

// stall notes that nothing comes of what waits, or with an empty detail that it does again.
func (l *lifecycle) stall(detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = detail
}

// failed notes that there is no session.
func (l *lifecycle) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.detail, l.since = stateConnecting, "", time.Time{}
	l.blocked, l.blockReason, l.stalled = false, "", ""
	if err != nil {
		l.lastError = err.Error()
		l.detail = l.lastError
	}
}

// lifecycleView is a copy for readers.
type lifecycleView struct {
	state, detail, blockReason, lastError string
	blocked                               bool
	since                                 time.Time
}

func (l *lifecycle) read() lifecycleView {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := lifecycleView{l.state, l.detail, l.blockReason, l.lastError, l.blocked, l.since}
	switch {
	case v.state != stateActive:
	case v.blocked:
		v.state = stateBlocked
		v.detail = "the broker holds up publishers: " + v.blockReason
	case l.stalled != "":
		v.state, v.detail = stateStalled, l.stalled
	}
	return v
}

// reloadState returns which configuration is in force.
type reloadState struct {
	mu       sync.Mutex
	loadedAt time.Time
	err      string
	warned   []config.Warning // of the configuration in force
}

func (r *reloadState) loaded(now time.Time, c *config.Config) {
	warned := append(c.Warnings(), quotas.Warnings(c.Policy().Quotas)...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loadedAt, r.err, r.warned = now, "", warned
}

func (r *reloadState) failed(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = text
}

// warnings returns what is allowed in the files in force and probably not meant. The caller only reads them.
func (r *reloadState) warnings() []config.Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.warned
}

func (r *reloadState) read() (loadedAt time.Time, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loadedAt, r.err
}
