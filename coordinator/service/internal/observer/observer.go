package observer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/metrics"
	"taskbus/coordinator/service/internal/telemetry"
	"taskbus/coordinator/view"
)

// Observer writes down what happens. It may be called from any goroutine.
//
// The level says what a line asks of an operator. ERROR: act now. WARN: have a look. INFO: a fact. What one
// sender can provoke at will is WARN at most, and passes a gate.
type Observer struct {
	// Books are the deliveries, and what became of them.
	Books intake.Books

	log      *telemetry.Log
	now      func() time.Time
	started  time.Time
	metrics  *metrics.Metrics
	schemas  Schemas
	logTasks atomic.Pointer[config.LogTasks]

	count    counters
	audited  auditor
	unpriced unpriced

	noise     [numNoises]*telemetry.Kind
	strangers sync.Map // wrong senders that were logged: stranger → true
	known     atomic.Int64

	misspellings sync.Map // unknown fields that were logged: misspelling → true
	misspelt     atomic.Int64
	firstUnknown struct { // of them, for /status
		sync.Mutex
		list []view.UnknownField
	}
}

// Schemas know the fields of messages.
type Schemas interface {
	// Nearest returns a hint at the field of a schema that was probably meant; empty: none comes near.
	Nearest(schema, field string) string
}

// New returns one that counts from now on.
func New(log *telemetry.Log, now func() time.Time, m *metrics.Metrics, s Schemas) *Observer {
	o := &Observer{log: log, now: now, started: now(), metrics: m, schemas: s}
	o.LogTasks(config.LogTasksAll)
	for kind, name := range noiseNames {
		o.noise[kind] = log.Kind(name)
	}
	return o
}

// LogTasks sets which lines about single tasks are written.
func (o *Observer) LogTasks(which config.LogTasks) { o.logTasks.Store(&which) }

// Collectors show Prometheus what is counted here alone.
func (o *Observer) Collectors() []prometheus.Collector { return o.audited.metrics() }

// AfterFloods logs how many lines were held back (see telemetry.Log).
func (o *Observer) AfterFloods() { o.log.AfterFloods() }

// Effect writes down what an effect says of what has happened. What it asks for is done by others.
func (o *Observer) Effect(effect coordinator.Effect) {
	switch f := effect.(type) {
	case *coordinator.Completed:
		o.completed(f)
	case coordinator.Duplicate:
		o.duplicate(f.Task)
	case coordinator.AgentChanged:
		o.agentChanged(f)
	case coordinator.AgentTrusted:
		o.agentTrusted(f)
	case coordinator.StatusRefused:
		o.statusRefused(f)
	case coordinator.GivenBack:
		o.givenBack(f)
	case coordinator.ResultRefused:
		o.resultRefused(f)
	case *coordinator.Progressed:
		o.metrics.Progress[metrics.Counted].Inc()
	case coordinator.ProgressRefused:
		o.metrics.Progress[f.Refusal.String()].Inc()
	case coordinator.OtherQueue:
		o.otherQueue(f)
	case coordinator.AgentShared:
		o.agentShared(f)
	case *coordinator.AuctionEnded:
		o.auctionEnded(f)
	case coordinator.QuotaReached:
		o.quotaReached(f)
	case coordinator.UsageExcessive:
		o.usageExcessive(f)
	case coordinator.ModelUnpriced:
		o.modelUnpriced(f)
	case coordinator.CancelAnswered:
		o.cancelAnswered(f)
	case coordinator.QuotaControlsStand:
		o.controlsStand(f)
	}
}

// logs reports whether lines about single tasks are written: those about a failure, or the others.
func (o *Observer) logs(failure bool) bool {
	switch *o.logTasks.Load() {
	case config.LogTasksNone:
		return false
	case config.LogTasksFailures:
		return failure
	}
	return true
}

// ofTask begins a line about a single task; what is done to it goes nowhere where log.tasks leaves
// such lines out.
func (o *Observer) ofTask(level zerolog.Level, failure bool) *zerolog.Event {
	if !o.logs(failure) {
		return nil // zerolog: a nil event is one that is not written
	}
	return o.log.WithLevel(level)
}
