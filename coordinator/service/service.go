package service

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/service/internal/agentqueues"
	"taskbus/coordinator/service/internal/alerts"
	"taskbus/coordinator/service/internal/callers"
	"taskbus/coordinator/service/internal/callgate"
	"taskbus/coordinator/service/internal/clock"
	"taskbus/coordinator/service/internal/controls"
	"taskbus/coordinator/service/internal/dead"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/observer"
	"taskbus/coordinator/service/internal/outputs"
	"taskbus/coordinator/service/internal/reading"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/service/internal/relay"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/messages"
	"taskbus/schemas"
)

// Options are what a coordinator is made of. All but History, Alerted, PeerAuthorities and Now are required.
type Options struct {
	Config *config.Config
	// ConfigPath is where it was read from, for /status.
	ConfigPath string
	Bus        bus.Bus
	Logger     zerolog.Logger
	Registry   *prometheus.Registry
	// Instance names this process in /status, e.g. "taskbus@host#4711".
	Instance string
	// BrokerURL for /status: without user name and password.
	BrokerURL string
	Version   string
	// Address of the HTTP server, under which other coordinators find the leader.
	Address string
	// PeerToken is what coordinators show each other; empty: nothing is forwarded to the leader.
	PeerToken string
	// PeerAuthorities sign the certificates of the other coordinators; nil: those of the system do.
	PeerAuthorities *x509.CertPool
	// SkipCorrupt: what is damaged in the journal is passed over, on an operator's request.
	SkipCorrupt bool
	// History of usage, by which budgets are forecast; nil: none is kept.
	History httpapi.History
	// Alerted gets every event about quotas that this coordinator publishes; nil: they are not passed on.
	// It must not block, keeps what it is given, and may be called by several goroutines at once.
	Alerted func(Alert)
	// Now is the clock; nil means the time of day, steadied (see clock.Steady).
	Now func() time.Time
}

// Service is one coordinator process.
type Service struct {
	options Options
	log     zerolog.Logger
	now     func() time.Time
	started time.Time
	decoder *messages.Decoder

	config   atomic.Pointer[config.Config] // in force: the files with the standing controls
	controls *controls.Controls
	reloads  reloadState
	// saidOther is what was last said of files that differ from the leader's.
	saidOther atomic.Pointer[string]
	loop      *loop
	shared    shared
	sessions  atomic.Uint64
	current   atomic.Pointer[session]
	callers   *callers.Callers
	calls     *callgate.Gate
	loss      atomic.Pointer[journal.Loss] // that the journal says and that is not acknowledged; nil: none
	// forwarding asks the leader for one that stands by.
	forwarding *http.Client
	relays     *relay.Relay
	queues     agentqueues.Names // of agents, whether agents.yaml lists them or not
	// resultsNext is where in task.result reading goes on where no journal says so; -1:
	// not known. It belongs to the goroutine of Run.
	resultsNext int64
	lostAt      time.Time       // when the latest session ended; likewise
	overruns    alerts.Overruns // of the goroutine of watchOverruns, of which there is one at a time

	state   lifecycle
	depths  reading.Depths
	history *recent.Tasks
	outputs *outputs.Kept
	reading *reading.Reader
	metrics *metrics.Metrics
	// seriesDropped says that at the last scrape the fleet was too large for series of single agents.
	seriesDropped atomic.Bool
	// standing returns how far the history of usage is; nil: none is kept.
	standing atomic.Pointer[func(context.Context) (HistoryStanding, error)]
	observe  *observer.Observer
	dead     *dead.Queue
}

// keptOutputs is the part of window_bytes that outputs may take which were passed on: for producers that ask again.
const keptOutputs = 4

// New makes a service; it does nothing until Run.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = clock.Steady()
	}
	set, err := schemas.Compile()
	if err != nil {
		return nil, fmt.Errorf("compile the embedded schemas: %w", err)
	}
	s := &Service{
		options: o, log: o.Logger, now: o.Now, started: o.Now(),
		decoder: messages.NewDecoder(set,
			messages.Limits{MaxBytes: o.Config.MaxMessageBytes, MaxOutput: o.Config.MaxOutputBytes}),
		history:     recent.New(recent.Size),
		outputs:     outputs.New(o.Config.WindowBytes / keptOutputs),
		resultsNext: -1, overruns: make(alerts.Overruns),
		forwarding: httpapi.NewPeers(o.PeerAuthorities, callgate.ForwardTimeout),
	}
	s.dead = dead.New(s.decoder)
	s.loop = newLoop(o.Now, writeDown{s})
	s.reading = s.newReader()
	s.callers = callers.New(s.loop.stopped, callgate.ErrStopped, errSessionEnded)
	s.relays = relay.New(o.Now, s.snapshot)
	lines := telemetry.New(o.Logger, o.Now)
	s.calls = callgate.New(callgate.Engine{Post: s.loop.post, Stopped: s.loop.stopped}, s.forwarding, lines, o.Now)
	s.metrics = metrics.New(o.Now)
	s.observe = observer.New(lines, o.Now, s.metrics, s.decoder)
	if err := s.register(o.Registry); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	s.state.set(stateConnecting, "")
	s.controls = s.newControls()
	s.controls.Under(o.Config)
	s.reloads.loaded(o.Now(), o.Config)
	s.observe.ConfigWarnings(s.reloads.warnings(), o.ConfigPath)
	s.loop.post(0, coordinator.PolicyChanged{Policy: o.Config.Policy()})
	return s, nil
}

// Back-off between sessions: full jitter under a bound that doubles from
// backoffFirst to backoffMax. Only a session that lasted resets it, as leader or as
// standby: the end of each counts against every task it held (the queue's delivery limit), so that a
// fault which comes back at once must not come back often.
const (
	backoffFirst = 250 * time.Millisecond
	backoffMax   = 15 * time.Second
	backoffReset = 30 * time.Second
)

// Run takes tasks until ctx ends, then drains within the configured grace and
// returns nil. A broker that is away or refuses is tried again for ever. An error says
// that the journal cannot be used as it is, which no other try would change.
func (s *Service) Run(ctx context.Context) error {
	loopCtx, stopLoop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.loop.run(loopCtx) })
	wg.Go(func() { s.reportCalls(loopCtx) })
	defer wg.Wait()
	defer stopLoop()

	var broken error
	bound := backoffFirst
	for ctx.Err() == nil {
		begun := s.now()
		ready, err := s.runSession(ctx)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				s.log.Warn().Err(err).Msg("the broker session did not end cleanly")
			}
			break
		}
		if u := (*journaling.Unusable)(nil); errors.As(err, &u) {
			broken = u.Unwrap()
			s.log.Error().Err(err).Msg("the journal cannot be used as it is; stopping")
			break
		}
		if s.now().Sub(begun) >= backoffReset { // one that stood by held nothing
			bound = backoffFirst
		}
		pause := time.Duration(rand.Int64N(int64(bound)) + 1)
		s.state.failed(err)
		s.observe.SessionEnded(err, ready, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		bound = min(2*bound, backoffMax)
	}
	s.state.set(stateStopped, "")
	s.log.Info().Msg("stopped")
	return broken
}

// profile returns the queue profile, fixed from the start.
func (s *Service) profile() bus.Profile { return bus.Profile(s.options.Config.Queues) }

// Reload puts a new configuration in force, or notes why the file cannot be
// used (err non-nil): the configuration at hand then stays. What the process was
// started with (topology, queues, http, journal, window, window_bytes,
// max_message_bytes) stays until the next start, and the log says so.
func (s *Service) Reload(c *config.Config, err error) {
	now, old := s.now(), (*config.Config)(nil)
	if err == nil {
		failpoint.Hit(failpoint.DuringReload)
		old, c, err = s.controls.Adopt(c)
	}
	if err != nil {
		text := config.Brief(err)
		s.reloads.failed(text)
		s.metrics.ReloadOK.Set(0)
		s.log.Error().Str("error", text).Str("version", s.config.Load().FileVersion()).
			Msg("the configuration file is broken; the configuration before it stays in force")
		return
	}
	s.reloads.loaded(now, c)
	s.metrics.ReloadOK.Set(1)
	if old.Policy().Version == c.Policy().Version {
		s.log.Info().Str("version", c.FileVersion()).Msg("configuration read again: nothing has changed")
		return
	}
	if keys := fromNextStart(s.options.Config, c); len(keys) > 0 {
		s.log.Warn().Strs("keys", keys).
			Msg("the file has other values of these keys than the coordinator was started with; they count from the next start")
	}
	if agents, routes := vanished(old.Policy(), c.Policy()); agents+routes > 0 {
		s.log.Warn().Int("agents_removed", agents).Int("routes_removed", routes).
			Msg("the new configuration lacks what the one before had; was the file complete? (write it beside and rename it)")
	}
	s.filesChanged()
	s.declareNewQueues(old, c)
	other := !reflect.DeepEqual(old.Policy().Quotas, c.Policy().Quotas)
	s.loop.enqueue(envelope{call: func(now time.Time) { // of then: the quotas may be changed meanwhile
		s.loop.apply(now, coordinator.PolicyChanged{Policy: s.config.Load().Policy()})
		if other {
			s.quotasChanged(now)
		}
	}})
	s.log.Info().Str("version", c.FileVersion()).Int("agents", len(c.Policy().Agents)).
		Str("strategy", c.Policy().Strategy).Msg("new configuration in force")
	s.observe.ConfigWarnings(s.reloads.warnings(), s.options.ConfigPath)
}

// fromNextStart names the keys that a process takes from the configuration that it was started with, as
// far as they are others in the one at hand.
func fromNextStart(started, c *config.Config) (keys []string) {
	for _, k := range []struct {
		name  string
		other bool
	}{
		{"topology", started.Topology != c.Topology},
		{"queues", started.Queues != c.Queues},
		{"http", started.HTTPBind != c.HTTPBind || started.AdvertiseURL != c.AdvertiseURL ||
			started.LegacyRateLimitHeaders != c.LegacyRateLimitHeaders},
		{"journal", started.Journal != c.Journal || started.RecordInputs != c.RecordInputs ||
			started.RecordInputsBytes != c.RecordInputsBytes},
		{"window", started.Window != c.Window},
		{"window_bytes", started.WindowBytes != c.WindowBytes},
		{"max_message_bytes", started.MaxMessageBytes != c.MaxMessageBytes},
		{"max_output_bytes", started.MaxOutputBytes != c.MaxOutputBytes},
	} {
		if k.other {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// vanished counts the agents and routes that a new policy no longer has.
func vanished(old, p *coordinator.Policy) (agents, routes int) {
	have := make(map[coordinator.AgentID]bool, len(p.Agents))
	for _, a := range p.Agents {
		have[a.ID] = true
	}
	for _, a := range old.Agents {
		if !have[a.ID] {
			agents++
		}
	}
	for name := range old.Routes {
		if _, ok := p.Routes[name]; !ok {
			routes++
		}
	}
	return agents, routes
}
