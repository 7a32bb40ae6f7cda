package service

import (
	"context"
	"fmt"
	"strings"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/views"
	"taskbus/coordinator/view"
)

var _ httpapi.Source = (*Service)(nil)

// Health judges as COORDINATOR defines it: healthy when all agents are online
// and assignments succeed, degraded when some agents are offline or assignments
// are delayed, critical when no agent is eligible or assignments fail.
func (s *Service) Health(ctx context.Context) view.Health {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return view.Health{Status: view.Critical, Checks: map[string]view.Check{
			"engine": {Status: view.Critical, Detail: err.Error()},
		}}
	}
	return s.health(snap)
}

func (s *Service) health(snap coordinator.Snapshot) view.Health {
	h := view.Health{Status: view.Healthy, Checks: map[string]view.Check{
		"broker": s.checkBroker(),
		"config": s.checkConfig(),
	}}
	if s.state.read().state != stateStandby { // a standby knows no agents and assigns nothing
		away := s.knowsFleet() != nil
		recent, span := s.observe.LastMinute()
		invalid, by := s.observe.InvalidResults()
		h.Checks["agents"] = views.CheckAgents(snap, away, s.observe.Unlisted())
		for name, c := range map[string]view.Check{
			"assignments": views.CheckAssignments(snap, recent, span, s.depths.Unread(&snap)),
			"results":     views.CheckResults(recent, s.observe.Failing(), invalid, by),
		} {
			if !away || c.Status != view.Healthy { // without a session nothing goes wrong that is known
				h.Checks[name] = c
			}
		}
	}
	if c, said := s.calls.Check(); said {
		h.Checks["calls"] = c
	}
	if c, said := views.CheckJournal(s.loss.Load()); said {
		h.Checks["journal"] = c
	}
	for _, c := range h.Checks {
		if worse(c.Status, h.Status) {
			h.Status = c.Status
		}
	}
	return h
}

// worse orders the words of health.
func worse(a, b string) bool {
	rank := map[string]int{view.Healthy: 0, view.Degraded: 1, view.Critical: 2}
	return rank[a] > rank[b]
}

func (s *Service) checkBroker() view.Check {
	v := s.state.read()
	switch v.state {
	case stateActive, stateStandby:
		return view.Check{Status: view.Healthy, Detail: "connected, " + v.state}
	case stateBlocked, stateDraining:
		return view.Check{Status: view.Degraded, Detail: v.detail}
	case stateStalled:
		return view.Check{Status: view.Critical, Detail: v.detail}
	}
	detail := "no session with the broker"
	if reads := s.reads(); reads != "" {
		return view.Check{Status: view.Critical, Detail: "connected; " + reads}
	}
	if v.lastError != "" {
		detail += ": " + v.lastError
	}
	return view.Check{Status: view.Critical, Detail: detail}
}

func (s *Service) checkConfig() view.Check {
	_, problem := s.reloads.read()
	if problem != "" {
		return view.Check{Status: view.Degraded,
			Detail: "the file on disk is broken, the configuration before it, version " + s.config.Load().FileVersion() +
				", is in force: " + problem}
	}
	c := view.Check{Status: view.Healthy, Detail: "version " + s.config.Load().FileVersion()}
	failing := s.doubts()
	if len(failing) > 0 {
		c.Status = view.Degraded
		if more := len(failing) - warningsInHealth; more > 0 {
			failing = append(failing[:warningsInHealth],
				fmt.Sprintf("and %d more; taskbus check %s", more, s.options.ConfigPath))
		}
		c.Detail += "; " + strings.Join(failing, "; ")
	}
	return c
}

// doubts returns what is wrong with the files in force: that the leader has others, and the warnings by which
// tasks fail or agents are lost.
func (s *Service) doubts() (all []string) {
	if leader, standby := s.leader(); standby {
		if other := s.otherFiles(leader); other != "" {
			all = append(all, other)
		}
	}
	for _, w := range s.reloads.warnings() {
		if w.Fails {
			all = append(all, w.Text)
		}
	}
	return all
}

// warningsInHealth is how many warnings of the configuration /health has in words.
const warningsInHealth = 3

// Ready reports whether tasks are being taken.
func (s *Service) Ready(context.Context) view.Readiness {
	v := s.state.read()
	if reads := s.reads(); reads != "" {
		v.detail = reads
	}
	if c, said := s.calls.Check(); said {
		v.detail = strings.TrimPrefix(v.detail+"; "+c.Detail, "; ")
	}
	return view.Readiness{Ready: v.state == stateActive, State: v.state, Detail: v.detail}
}

// reads says how far the journal has been read by one that is only connecting; empty: nothing is to
// be said of that.
func (s *Service) reads() string {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateConnecting {
		return ""
	}
	return r.ledger.Reads()
}

// Status gathers everything an operator asks first.
func (s *Service) Status(ctx context.Context) (view.Status, error) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return view.Status{}, err
	}
	st := view.Status{
		Version: s.options.Version, Instance: s.options.Instance,
		StartedAt: s.started, Now: s.now(),
		Health: s.health(snap), Readiness: s.Ready(ctx),
		Broker: s.brokerStatus(), Config: s.configStatus(),
		Pending:  views.Pending(snap),
		Counters: s.observe.Counters(snap.Remembered, s.staleAcks()), Rates: s.observe.Rates(),
		Audit: s.observe.Audit(),

		UnknownFields: s.observe.UnknownFields(),
	}
	in, _ := views.Drain(&snap, s.depths.Unread(&snap), st.Rates.Assigned)
	st.Pending.DrainSeconds = in.Seconds()
	s.journalStatus(&st)
	away := s.knowsFleet() != nil
	for _, a := range snap.Agents {
		v := views.Agent(a)
		v.Recent = s.observe.AgentResults(a.Spec.ID)
		if away { // whatever it was a while ago
			v.Eligible, v.WhyNot = false, whyNoSession
		}
		st.Agents = append(st.Agents, v)
	}
	st.Lanes = views.Lanes(snap)
	st.Queues = s.depths.Queues()
	return st, nil
}

// whyNoSession is why no agent can get a task while there is no session with the broker.
const whyNoSession = "no_session"

func (s *Service) brokerStatus() view.Broker {
	v := s.state.read()
	b := view.Broker{
		URL: s.options.BrokerURL, Connected: !v.since.IsZero(), Since: v.since,
		Sessions: s.sessions.Load(), Blocked: v.blocked, BlockReason: v.blockReason,
		LastError: v.lastError, Topology: string(s.options.Config.Topology), Profile: string(s.profile()),
	}
	for _, note := range s.options.Config.Notes() {
		b.Findings = append(b.Findings, view.Finding{Object: "agents.yaml", Text: note})
	}
	if r := s.current.Load(); r != nil {
		for _, f := range r.bus.Findings() {
			b.Findings = append(b.Findings, view.Finding{Object: f.Object, Text: f.Text})
		}
	}
	return b
}

func (s *Service) configStatus() view.Config {
	loadedAt, problem := s.reloads.read()
	c := s.config.Load()
	return view.Config{
		Path: s.options.ConfigPath, Version: c.FileVersion(), Strategy: c.Policy().Strategy, LoadedAt: loadedAt,
		LastReloadOK: problem == "", LastReloadError: problem,
	}
}

// staleAcks counts the acknowledgements that came after their session, for the session at hand.
func (s *Service) staleAcks() uint64 {
	if r := s.current.Load(); r != nil {
		return r.bus.StaleAcks()
	}
	return 0
}
