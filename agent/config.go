package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/agent/balance"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
)

// Config says which agent this is and how much it takes on.
type Config struct {
	// ID is the agent's key in agents.yaml, or, with discovery, the id it announces:
	// 1 to 128 letters, digits and . _ : -, beginning with a letter or digit, and
	// neither "status" nor ending in ".control". At most one process may run under
	// it at a time. Required.
	ID string
	// Queue that the agent consumes; default "agent." + ID.
	Queue string

	// URL of the broker: amqp:// or amqps://user:password@host:port/vhost. It is a
	// secret and never shown. Either URL or Bus is required, not both.
	URL string
	// Bus is the broker in another shape than a URL, such as membus in tests.
	Bus bus.Bus

	// Slots is how many tasks the agent works on at once, 1 to 2,000; default 1. The
	// coordinator gives it the smaller of this and max_concurrent_tasks.
	Slots int
	// Capabilities and Labels are announced: a coordinator with discovery switched
	// on takes the former from here, one with the agent in agents.yaml from there.
	// At most 256 capabilities of 1 to 128 characters, and 32 labels with keys of 1
	// to 64 and values of up to 256 characters.
	Capabilities []string
	Labels       map[string]string

	// Interval between two heartbeats, 1 s to 1 min; default 5 s. It should not be
	// above the agent's health_check_interval in agents.yaml.
	Interval time.Duration
	// DrainTimeout is how long running handlers may go on once the ctx of Run has
	// ended; then theirs end with ErrStopping, and their tasks go to other agents.
	// Default 30 s, at most 24 h.
	DrainTimeout time.Duration

	// BatchWait is how long RunBatches waits, after the latest member of a batch has
	// come, for the next; default 100 ms, at most 10 s.
	BatchWait time.Duration

	// Bidder is asked for each task that the coordinator offers (strategy market):
	// DefaultBidder, or one of your own. nil: the agent does not bid, and gets such a
	// task only when no other does.
	Bidder Bidder
	// Pull has the agent claim its tasks by itself, as many and as often as package
	// balance says: for an agent that agents.yaml says pulls. Its heartbeat-interval-ms,
	// if given, is the default of Interval; its capacity is told with every claim; its
	// registry.url is read while claims are not answered. nil: tasks are given to it.
	Pull *balance.Config
	// Metrics gets the Prometheus metrics of bidding and claiming (see docs/reference/sdk.md)
	// until Run returns. nil: there are none. Agents that share a registry need
	// prometheus.WrapRegistererWith, each with a label of its own.
	Metrics prometheus.Registerer

	// Declare has the agent declare its own queue when it is missing, as the
	// coordinator would (a quorum queue; see docs/howto/write-an-agent.md). Without it the agent
	// waits for the coordinator to do so.
	Declare bool

	// Logger gets a line for each session, for each task that does not succeed, and
	// for what needs a person; at level Debug one for each task. nil discards them.
	// No line holds a payload or the URL's password. But the text of an error
	// that a handler returns stands there as it does in the result: a handler should
	// not quote its payload in it. Of a panic the log gets the type of the value and
	// the functions and lines it came through; its text goes into the result alone.
	Logger *slog.Logger

	// dialRegistry connects to the host of Pull.Registry.URL; nil is TCP. Tests have
	// networks of their own.
	dialRegistry dialer
	// rebindWithin is within which time the control queue is bound again; see keepHeard.
	rebindWithin time.Duration
}

// Bounds and defaults of Config.
const (
	maxSlots         = 2_000 // some brokers allow a consumer of a quorum queue no more
	minInterval      = time.Second
	maxInterval      = time.Minute
	defaultInterval  = 5 * time.Second
	maxDrain         = 24 * time.Hour
	defaultDrain     = 30 * time.Second
	maxBatchWait     = 10 * time.Second
	defaultBatchWait = 100 * time.Millisecond
)

// The bounds of agent.status, in characters or items. A test holds what they let
// pass against the schema.
const (
	maxQueueName    = 255
	maxCapabilities = 256
	maxCapability   = 128
	maxLabels       = 32
	maxLabelKey     = 64
	maxLabelValue   = 256
)

// withDefaults fills in what is left out.
func (c Config) withDefaults() Config {
	if c.Queue == "" {
		c.Queue = "agent." + c.ID
	}
	if c.Slots == 0 {
		c.Slots = 1
	}
	if c.Interval == 0 && c.Pull != nil {
		c.Interval = milliseconds(c.Pull.Registry.HeartbeatIntervalMS)
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrain
	}
	c.rebindWithin = cmp.Or(c.rebindWithin, rebindWithin)
	if c.BatchWait == 0 {
		c.BatchWait = defaultBatchWait
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Bus == nil {
		c.Bus = amqpbus.New(amqpbus.Config{URL: c.URL})
	}
	return c
}

// check finds everything that is wrong with a Config, before anything is dialled.
func (c Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !messages.ValidAgentID(c.ID) {
		fault(
			`ID %.40q: give 1 to 128 letters, digits and . _ : -, beginning with a letter or digit, and neither "status" nor `+
				`ending in ".control"; it is the agent's key in agents.yaml`, c.ID)
	}
	if len(c.Queue) > maxQueueName || !printable(c.Queue) {
		fault("Queue %.40q: give at most %d characters of printable ASCII, or nothing for agent.<ID>", c.Queue, maxQueueName)
	}
	switch {
	case c.URL == "" && c.Bus == nil:
		fault("URL is empty: give the broker's, such as amqp://user:password@host:5672/ (is RABBITMQ_URL set?)")
	case c.URL != "" && c.Bus != nil:
		fault("both URL and Bus are given: leave one of them out")
	case c.Bus == nil:
		if err := amqpbus.CheckURL(c.URL); err != nil {
			fault("URL: %w", err)
		}
	}
	if c.Slots < 0 || c.Slots > maxSlots {
		fault("Slots %d: give 1 to %d, or 0 for 1", c.Slots, maxSlots)
	}
	if c.Interval != 0 && (c.Interval < minInterval || c.Interval > maxInterval) {
		fault("Interval %s: give %s to %s, or 0 for %s", c.Interval, minInterval, maxInterval, defaultInterval)
	}
	if c.DrainTimeout < 0 || c.DrainTimeout > maxDrain {
		fault("DrainTimeout %s: give at most %s, or 0 for %s", c.DrainTimeout, maxDrain, defaultDrain)
	}
	if c.BatchWait < 0 || c.BatchWait > maxBatchWait {
		fault("BatchWait %s: give at most %s, or 0 for %s", c.BatchWait, maxBatchWait, defaultBatchWait)
	}
	if c.Pull != nil {
		if err := c.Pull.Check(); err != nil {
			fault("Pull: %w", err)
		}
	}
	faults = append(faults, c.checkAnnounced()...)
	return errors.Join(faults...)
}

// checkAnnounced holds what goes out with every heartbeat to its schema: a status
// that breaks it would be refused, and the agent would never get work.
func (c Config) checkAnnounced() (faults []error) {
	if len(c.Capabilities) > maxCapabilities {
		faults = append(faults, fmt.Errorf("%d Capabilities: at most %d", len(c.Capabilities), maxCapabilities))
	}
	for _, word := range c.Capabilities {
		if word == "" || !text(word, maxCapability) {
			faults = append(faults, fmt.Errorf("capability %.40q: give 1 to %d characters, none of them a control character",
				word, maxCapability))
		}
	}
	if len(c.Labels) > maxLabels {
		faults = append(faults, fmt.Errorf("%d Labels: at most %d", len(c.Labels), maxLabels))
	}
	var keys []string
	for key, value := range c.Labels {
		if key == "" || !text(key, maxLabelKey) || !text(value, maxLabelValue) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		faults = append(faults, fmt.Errorf(
			"label %.40q: give a key of 1 to %d and a value of at most %d characters, none of them a control character",
			key, maxLabelKey, maxLabelValue))
	}
	return faults
}

// text reports whether s is UTF-8 of at most limit characters without control
// characters.
func text(s string, limit int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= limit &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == unicode.MaxASCII })
}

// printable reports whether s is printable ASCII throughout.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
