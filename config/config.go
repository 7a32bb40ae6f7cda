package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// Auth says what becomes of a heartbeat whose broker-validated user name is not
// its agent's id (`agents.auth`).
type Auth string

// The modes of agents.auth.
const (
	AuthOff    Auth = "off"    // not looked at
	AuthWarn   Auth = "warn"   // accepted, and reported
	AuthStrict Auth = "strict" // refused
)

// Topology says what the coordinator may do to the broker's queues and
// exchanges (`topology`). Its words are those of bus.Mode.
type Topology string

// The modes of topology.
const (
	TopologyDeclare Topology = "declare" // create what is missing
	TopologyVerify  Topology = "verify"  // look, and refuse to start when something is missing
	TopologyOff     Topology = "off"     // do not even look
)

// Queues chooses the kind of the queues that agents and producers share with
// the coordinator (`queues`). Its words are those of bus.Profile.
type Queues string

// The kinds of shared queues.
const (
	QueuesQuorum  Queues = "quorum"
	QueuesClassic Queues = "classic" // for fleets that declare plain durable queues themselves
)

// LogTasks says which lines about single tasks are logged (`log.tasks`).
type LogTasks string

// The values of log.tasks.
const (
	LogTasksAll      LogTasks = "all"
	LogTasksFailures LogTasks = "failures" // those about tasks that failed, were refused or are overdue
	LogTasksNone     LogTasks = "none"
)

// consumerTimeoutMargin is how much earlier than the broker's consumer timeout
// a task must end, so that its agent can still acknowledge it.
const consumerTimeoutMargin = 120 * time.Second

// Config is one valid configuration. It is immutable once [Parse] or [Load] has
// returned it, and safe for concurrent use.
type Config struct {
	policy coordinator.Policy

	Auth     Auth
	Topology Topology
	Queues   Queues
	// AdvertiseURL is where other coordinators reach the HTTP server of this one; empty: by the
	// address that it listens on.
	AdvertiseURL string
	// HTTPBind is the address the HTTP server listens on: an IP address or
	// "localhost", without a port.
	HTTPBind string
	// LegacyRateLimitHeaders: answers about LLM calls also have RateLimit-Limit, -Remaining and
	// -Reset, for clients that do not read RateLimit.
	LegacyRateLimitHeaders bool
	// TaskDispatchedEvents: announce every dispatch on taskbus.events, at the
	// cost of one more publication for each task.
	TaskDispatchedEvents bool
	// Journal: decisions and outcomes are made to last in the stream
	// coordinator.journal before anything follows from them.
	Journal bool
	// RecordInputs: what the engine is given is recorded there as well, for replay, up
	// to RecordInputsBytes in each term of a leader.
	RecordInputs      bool
	RecordInputsBytes int64
	// ExplainDispatches: every task.dispatch says why its agent was chosen.
	ExplainDispatches bool
	// RefuseUnserved: a file with a route that no agent can serve is refused.
	RefuseUnserved bool
	LogTasks       LogTasks
	// MetricsAgents is how many agents have metrics of their results, at most; the others have
	// theirs together.
	MetricsAgents int
	// StrictMessages: a task, cancel or bid that has a field which its schema does not have is refused.
	StrictMessages bool
	// MaxMessageBytes is the largest message body that is read; at most 8 MiB.
	MaxMessageBytes int
	// MaxOutputBytes is the largest output of a task.result that is passed on; at most 8 MiB.
	MaxOutputBytes int
	// Window bounds the tasks held unacknowledged, WindowBytes their bodies. One
	// message always fits into WindowBytes.
	Window      int
	WindowBytes int64
	// BrokerConsumerTimeout is the broker's consumer_timeout; it bounds Settings.MaxTimeout.
	BrokerConsumerTimeout time.Duration
	// ShutdownGrace is how long a shutdown may wait for what is in flight.
	ShutdownGrace time.Duration

	fileVersion string   // see FileVersion
	agents      string   // see FileVersions
	quotas      string   // likewise
	ignored     []string // keys that count no more, for people
	lanes       lanesWish
	lanesOff    string // why there are none although they are asked for
}

// defaults is the configuration of a file that says nothing. The JSON Schema
// documents the same values; a test holds the two equal.
func defaults() *Config {
	return &Config{
		policy: coordinator.Policy{
			Routes:     map[string]coordinator.Route{},
			Strategy:   strategy.Default,
			Strategies: strategy.All(),
			Settings: coordinator.Settings{
				PoisonedAfter:     3,
				MaxRetryAttempts:  3,
				StaleAfter:        120 * time.Second,
				MaxQueueSize:      10_000,
				AssignmentTimeout: 30 * time.Second,
				MaxLoad:           0.9,
				Priorities:        coordinator.PriorityOrder{Weights: coordinator.DefaultPriorityWeights()},
				DedupeWindow:      time.Hour,
				DedupeMaxIDs:      100_000,
				Learning:          defaultLearning(),
				Breaker:           defaultBreaker(),
			},
		},
		Auth:                  AuthOff,
		Topology:              TopologyDeclare,
		Queues:                QueuesQuorum,
		HTTPBind:              "127.0.0.1",
		Journal:               true,
		RecordInputsBytes:     256 << 20,
		ExplainDispatches:     true,
		LogTasks:              LogTasksAll,
		MetricsAgents:         50,
		MaxMessageBytes:       1 << 20,
		MaxOutputBytes:        256 << 10,
		Window:                4000,
		WindowBytes:           256 << 20,
		BrokerConsumerTimeout: 1800 * time.Second,
		ShutdownGrace:         20 * time.Second,
	}
}

// Policy is what the engine needs of this configuration. Every call gives the
// same value; neither the caller nor the engine may change it.
func (c *Config) Policy() *coordinator.Policy { return &c.policy }

// AgentQueues lists the agents' queues, sorted. The caller owns the list.
func (c *Config) AgentQueues() []string {
	queues := make([]string, len(c.policy.Agents))
	for i := range c.policy.Agents {
		queues[i] = c.policy.Agents[i].Queue
	}
	slices.Sort(queues)
	return queues
}

// maxTaskTimeout is the longest timeout_seconds a task may ask for: two minutes
// less than the broker lets an agent hold a message, because at the consumer
// timeout the broker closes the agent's channel and gives the task to another.
func (c *Config) maxTaskTimeout() time.Duration {
	return c.BrokerConsumerTimeout - consumerTimeoutMargin
}

// setVersion names the configuration by its effective content: files that
// differ only in comments, order or spelt-out defaults have the same version.
// It relies on fmt printing maps in the order of their keys, and a pointer's
// target only where the pointer stands by itself.
func (c *Config) setVersion() {
	content := *c
	content.ignored = nil
	content.fileVersion, content.policy.Version, content.policy.Source = "", "", ""
	content.agents, content.quotas = "", ""
	content.lanes = lanesWherePossible // what came of it is in the policy
	content.policy.Discovery, content.policy.Strategies, content.policy.Quotas = nil, nil, nil
	text := c.appendContent(nil, &content)
	if c.policy.Quotas != nil {
		text = quotas.Append(text, c.policy.Quotas)
		c.quotas = versionOf(quotas.Append(nil, c.policy.Quotas))
	} else { // what agents.yaml says without quotas, which come later
		alike := content // addresses are each coordinator's own
		alike.AdvertiseURL, alike.HTTPBind = "", ""
		c.agents, c.quotas = versionOf(c.appendContent(nil, &alike)), ""
	}
	c.policy.Version = versionOf(text)
	c.fileVersion = c.policy.Version
}

// appendContent appends a copy of c of which the rest has been taken.
func (c *Config) appendContent(text []byte, content *Config) []byte {
	text = fmt.Appendf(text, "%#v %#v", *content, c.policy.Discovery)
	for i := range c.policy.Strategies { // functions have no content of their own
		s := &c.policy.Strategies[i]
		text = fmt.Appendf(text, " %q %q", s.Name, s.Parameters)
	}
	return text
}

func versionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// FileVersions names what each of the two files says, but for the addresses of agents.yaml, which are
// each coordinator's own: coordinators of one fleet, and of one version, have the same. quotas is empty
// where there are none.
func (c *Config) FileVersions() (agents, quotas string) { return c.agents, c.quotas }

// FileVersion names what the files and the environment say, whatever changes to the quotas stand
// beside them: the version that people compare with that of their files. Policy has that of
// what is in force.
func (c *Config) FileVersion() string { return c.fileVersion }
