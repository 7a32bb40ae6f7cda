package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

var _ httpapi.Source = (*Service)(nil)

// Health judges as COORDINATOR defines it: healthy when all agents are online
// and assignments succeed, degraded when some agents are offline or assignments
// are delayed, critical when no agent is eligible or assignments fail.
func (s *Service) Health(ctx context.Context) httpapi.Health {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return httpapi.Health{Status: httpapi.Critical, Checks: map[string]httpapi.Check{
			"engine": {Status: httpapi.Critical, Detail: err.Error()},
		}}
	}
	return s.health(snap)
}

func (s *Service) health(snap coordinator.Snapshot) httpapi.Health {
	h := httpapi.Health{Status: httpapi.Healthy, Checks: map[string]httpapi.Check{
		"broker": s.checkBroker(),
		"config": s.checkConfig(),
	}}
	if s.state.read().state != stateStandby { // a standby knows no agents and assigns nothing
		_, unlisted := s.count.unlisted.lastMinute(s.now())
		away, recent := s.knowsFleet() != nil, s.count.recent.lastMinute()
		invalid, by := s.count.brokenResults.lastMinute(s.now())
		h.Checks["agents"] = checkAgents(snap, away, unlisted)
		for name, c := range map[string]httpapi.Check{
			"assignments": checkAssignments(snap, recent, s.count.recent.span(s.started), s.unread(&snap)),
			"results":     checkResults(recent, s.count.ofAgents.failing(s.now()), invalid, by),
		} {
			if !away || c.Status != httpapi.Healthy { // without a session nothing goes wrong that is known
				h.Checks[name] = c
			}
		}
	}
	if c, said := s.alone.check(s.now(), s.lost.waiting()); said {
		h.Checks["calls"] = c
	}
	if c, said := s.checkJournal(); said {
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
	rank := map[string]int{httpapi.Healthy: 0, httpapi.Degraded: 1, httpapi.Critical: 2}
	return rank[a] > rank[b]
}

func (s *Service) checkBroker() httpapi.Check {
	v := s.state.read()
	switch v.state {
	case stateActive, stateStandby:
		return httpapi.Check{Status: httpapi.Healthy, Detail: "connected, " + v.state}
	case stateBlocked, stateDraining:
		return httpapi.Check{Status: httpapi.Degraded, Detail: v.detail}
	case stateStalled:
		return httpapi.Check{Status: httpapi.Critical, Detail: v.detail}
	}
	detail := "no session with the broker"
	if reads := s.reads(); reads != "" {
		return httpapi.Check{Status: httpapi.Critical, Detail: "connected; " + reads}
	}
	if v.lastError != "" {
		detail += ": " + v.lastError
	}
	return httpapi.Check{Status: httpapi.Critical, Detail: detail}
}

func (s *Service) checkConfig() httpapi.Check {
	_, problem := s.reloads.read()
	if problem != "" {
		return httpapi.Check{Status: httpapi.Degraded,
			Detail: "the file on disk is broken, the configuration before it, version " + s.config.Load().FileVersion() +
				", is in force: " + problem}
	}
	c := httpapi.Check{Status: httpapi.Healthy, Detail: "version " + s.config.Load().FileVersion()}
	failing := s.doubts()
	if len(failing) > 0 {
		c.Status = httpapi.Degraded
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

// warningsInHealth is how many warnings of the configuration /health has in words, warningsLogged how
// many are logged when it comes in force.
const (
	warningsInHealth = 3
	warningsLogged   = 20
)

// Ready reports whether tasks are being taken.
func (s *Service) Ready(context.Context) httpapi.Readiness {
	v := s.state.read()
	if reads := s.reads(); reads != "" {
		v.detail = reads
	}
	if c, said := s.alone.check(s.now(), s.lost.waiting()); said {
		v.detail = strings.TrimPrefix(v.detail+"; "+c.Detail, "; ")
	}
	return httpapi.Readiness{Ready: v.state == stateActive, State: v.state, Detail: v.detail}
}

// reads says how far the journal has been read by one that is only connecting; empty: nothing is to
// be said of that.
func (s *Service) reads() string {
	r := s.current.Load()
	if r == nil || r.ledger == nil || s.state.read().state != stateConnecting {
		return ""
	}
	return r.ledger.progress.String()
}

// Status gathers everything an operator asks first.
func (s *Service) Status(ctx context.Context) (httpapi.Status, error) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return httpapi.Status{}, err
	}
	st := httpapi.Status{
		Version: s.options.Version, Instance: s.options.Instance,
		StartedAt: s.started, Now: s.now(),
		Health: s.health(snap), Readiness: s.Ready(ctx),
		Broker: s.brokerStatus(), Config: s.configStatus(),
		Pending:  pendingStatus(snap),
		Counters: s.counterStatus(snap), Rates: s.rates(),
		Audit: s.audited.status(),

		UnknownFields: s.observe.unknownFields(),
	}
	in, _ := drain(&snap, s.unread(&snap), st.Rates.Assigned)
	st.Pending.DrainSeconds = in.Seconds()
	s.journalStatus(&st)
	away := s.knowsFleet() != nil
	for _, a := range snap.Agents {
		v := agentStatus(a)
		v.Recent = s.count.ofAgents.recent(st.Now, a.Spec.ID)
		if away { // whatever it was a while ago
			v.Eligible, v.WhyNot = false, whyNoSession
		}
		st.Agents = append(st.Agents, v)
	}
	st.Lanes = laneStatus(snap)
	for _, name := range depthQueues {
		d, ok := s.depths.get(name)
		q := httpapi.Queue{Name: name, Ready: d.Ready, Consumers: d.Consumers}
		switch {
		case !ok:
			q.Error = "not read yet"
		case d.err != nil:
			q.Error = d.err.Error()
		}
		st.Queues = append(st.Queues, q)
	}
	return st, nil
}

// whyNoSession is why no agent can get a task while there is no session with the broker.
const whyNoSession = "no_session"

func (s *Service) brokerStatus() httpapi.Broker {
	v := s.state.read()
	b := httpapi.Broker{
		URL: s.options.BrokerURL, Connected: !v.since.IsZero(), Since: v.since,
		Sessions: s.sessions.Load(), Blocked: v.blocked, BlockReason: v.blockReason,
		LastError: v.lastError, Topology: string(s.options.Config.Topology), Profile: string(s.profile()),
	}
	for _, note := range s.options.Config.Notes() {
		b.Findings = append(b.Findings, httpapi.Finding{Object: "agents.yaml", Text: note})
	}
	if r := s.current.Load(); r != nil {
		for _, f := range r.bus.Findings() {
			b.Findings = append(b.Findings, httpapi.Finding{Object: f.Object, Text: f.Text})
		}
	}
	return b
}

func (s *Service) configStatus() httpapi.Config {
	loadedAt, problem := s.reloads.read()
	c := s.config.Load()
	return httpapi.Config{
		Path: s.options.ConfigPath, Version: c.FileVersion(), Strategy: c.Policy().Strategy, LoadedAt: loadedAt,
		LastReloadOK: problem == "", LastReloadError: problem,
	}
}

func agentStatus(a coordinator.AgentSnapshot) httpapi.Agent {
	v := httpapi.Agent{
		ID: string(a.Spec.ID), Queue: a.Spec.Queue, Capabilities: a.Spec.Capabilities, Rank: a.Spec.Rank,
		State: a.State.String(), Status: a.Status.String(), Load: a.Load, ReportedLoad: a.ReportedLoad,
		InFlight: a.InFlight, Uncovered: a.Uncovered, FreeSlots: a.Free, Slots: a.Slots, MaxConcurrent: a.Spec.MaxConcurrent,
		Assigned: a.Assigned, LastHeartbeat: a.LastHeartbeat,
		HealthCheck: a.Spec.HealthCheckInterval.Seconds(),
		Eligible:    a.Eligibility == coordinator.Eligible,
		Leased:      a.Leased, Strays: a.Strays, Cordoned: a.Cordoned, Draining: a.Draining, Drained: a.Drained,
		Discovered: a.Discovered,
	}
	if a.Instances > 1 {
		v.Instances = a.Instances
	}
	if !v.Eligible {
		v.WhyNot = a.Eligibility.String()
	}
	for i, c := range a.EjectedFrom {
		v.Ejected = append(v.Ejected, httpapi.Ejection{Capability: c, Until: a.EjectedUntil[i]})
	}
	return v
}

func pendingStatus(snap coordinator.Snapshot) httpapi.Pending {
	p := httpapi.Pending{
		ByPriority: make(map[string]int), ByReason: make(map[string]int),
		Gathering: snap.Gathering, Bidding: snap.Bidding, Moving: snap.Moving, Dispatching: snap.Dispatching,
		Leased: snap.Leased, OldestSeconds: snap.OldestPending.Seconds(),
	}
	for i, n := range snap.Pending {
		p.Total += n
		p.ByPriority[coordinator.Priority(i).String()] = n
	}
	if snap.Delayed > 0 {
		p.ByReason["waits_for_retry"] = snap.Delayed
	}
	for _, w := range snap.Waits {
		p.Waits = append(p.Waits, httpapi.Wait{
			Required: append([]string{}, w.Required...), Tasks: w.Tasks, OldestSeconds: w.Oldest.Seconds(),
			ReasonCode: w.Reason.String(), Reason: w.Text,
		})
	}
	for r, n := range snap.PendingReasons {
		code := r.String()
		if r == coordinator.ReasonNone {
			code = "other"
		}
		p.ByReason[code] = n
	}
	return p
}

// rates returns those of the last minute.
func (s *Service) rates() httpapi.Rates {
	recent, span := s.count.recent.lastMinute(), s.count.recent.span(s.started)
	return httpapi.Rates{
		Received: float64(recent[recentReceived]) / span, Assigned: float64(recent[recentAssigned]) / span,
		Succeeded: float64(recent[recentSucceeded]) / span,
		Failed:    float64(recent[recentRefused]+recent[recentBroken]) / span,
	}
}

// staleAcks counts the acknowledgements that came after their session.
func (s *Service) staleAcks() uint64 {
	n := s.count.staleAcks.Load()
	if r := s.current.Load(); r != nil {
		n += r.bus.StaleAcks()
	}
	return n
}

func (s *Service) counterStatus(snap coordinator.Snapshot) httpapi.Counters {
	books := s.count.books.read()
	c := httpapi.Counters{
		Received: books.received, Returned: books.returned, Held: books.held,
		Dispatched: books.outcomes[outcomeDispatched], Failed: books.outcomes[outcomeFailed],
		Parked: books.outcomes[outcomeParked], Dropped: books.outcomes[outcomeDropped], Moved: books.outcomes[outcomeMoved],
		Abandoned:      books.outcomes[outcomeAbandoned],
		FailedByReason: s.count.failed.read(),
		Invalid:        s.count.invalid.Load(), Duplicates: s.count.duplicates.Load(),
		StatusReceived: s.count.statuses.Load(),
		StatusRefused: map[string]uint64{
			refusedInvalid: s.count.invalidStatus.Load(),
			refusedForged:  s.count.authRejections.Load(),
		},
		RememberedIDs: snap.Remembered, StaleAcksIgnored: s.staleAcks(),
		Results: make(map[string]uint64, coordinator.NumOutcomes),
		ResultsRefused: map[string]uint64{
			refusedInvalid: s.count.invalidResults.Load(),
			refusedForged:  s.count.forgedResults.Load(),
		},
		LateResults: s.count.lateResults.Load(), TimedOut: s.count.timedOut.Load(),
		TakenBack: s.count.takenBack.Load(), CancelRequests: s.count.cancels.Load(),
	}
	for r := range s.count.statusRefused {
		c.StatusRefused[coordinator.StatusRefusal(r).String()] = s.count.statusRefused[r].Load()
	}
	for o := range s.count.results {
		c.Results[coordinator.Outcome(o).String()] = s.count.results[o].Load()
	}
	for r := range s.count.resultsRefused {
		c.ResultsRefused[coordinator.ResultRefusal(r).String()] = s.count.resultsRefused[r].Load()
	}
	if c.Dispatched > 0 {
		c.AverageAssignMS = float64(s.count.assignNanos.Load()) / float64(c.Dispatched) / 1e6
	}
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
