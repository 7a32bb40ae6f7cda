package balance

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Config has every key of BALANCING's `agent:` section under its name, and two more. It
// can be written in Go, read from a file's text by Parse, or decoded by any YAML package
// that reads `yaml` tags. What is 0 or empty has its default.
type Config struct {
	LoadBalancing LoadBalancing `yaml:"load-balancing"`
	Registry      Registry      `yaml:"registry"`
}

// LoadBalancing says how claims are made. Keys that end in ms are milliseconds.
type LoadBalancing struct {
	// Enabled switches the controllers on; without it, the default, every claim comes
	// after the base interval.
	Enabled bool `yaml:"enabled"`
	// BaseDiscoveryIntervalMS is the time between two claims before anything is known;
	// from min to max, default 1000.
	BaseDiscoveryIntervalMS int `yaml:"base-discovery-interval-ms"`
	// MinDiscoveryIntervalMS and MaxDiscoveryIntervalMS bound every interval, the base
	// one too: 200 to 10000, which are their defaults.
	MinDiscoveryIntervalMS int `yaml:"min-discovery-interval-ms"`
	MaxDiscoveryIntervalMS int `yaml:"max-discovery-interval-ms"`
	// LoadFactorThreshold is above which difference of load factors Literal changes the
	// interval; 0.01 to 1, default 0.10.
	LoadFactorThreshold float64 `yaml:"load-factor-threshold"`
	// CapacityReportIntervalMS is how often the agent tells its capacity; 1000 to
	// 30000, below the registry's heartbeat-ttl-ms. Default 10000.
	CapacityReportIntervalMS int `yaml:"capacity-report-interval-ms"`
	// CapacityWindowSize is BALANCING's window: the half-life in seconds of what the
	// Estimator remembers, and how many items end its warm-up; 1 to 3600, default 60.
	CapacityWindowSize int `yaml:"capacity-window-size"`

	// Mode is the controller: one of the Mode constants. Default ModeEqual. Not
	// BALANCING's.
	Mode string `yaml:"mode"`
	// MaxClaimItems is the most that one claim asks for; 1 to 10000, default 100. Not
	// BALANCING's, which does not say it.
	MaxClaimItems int `yaml:"max-claim-items"`
}

// Registry is BALANCING's registry of agents. In Taskbus that is the leader, which the
// agent reaches by the bus.
type Registry struct {
	// URL of a coordinator's HTTP interface: http or https, with a host and without a
	// password. While claims are not answered, the fleet is read there, from
	// URL/agents/stats (see Others). Not needed to claim.
	URL string `yaml:"url"`
	// ConnectionTimeoutMS is how long an answer to a claim is waited for, beyond the
	// time that the claim itself may wait, and how long one of URL; 100 to 60000,
	// default 5000.
	ConnectionTimeoutMS int `yaml:"connection-timeout-ms"`
	// HeartbeatIntervalMS between two reports that the agent is alive; 1000 to 60000,
	// below heartbeat-ttl-ms. Default 10000.
	HeartbeatIntervalMS int `yaml:"heartbeat-interval-ms"`
	// HeartbeatTTLMS is for how long what was told is worth something: the picture of
	// the fleet that came with the last answer, or from URL. 1000 to 600000, default
	// 30000.
	HeartbeatTTLMS int `yaml:"heartbeat-ttl-ms"`
}

// The modes.
const (
	ModeEqual        = "equal"         // equal drain times
	ModeLiteral      = "literal"       // BALANCING's pseudocode: pending/capacity is the load factor
	ModeLiteralShare = "literal-share" // BALANCING's step 3: pending/all pending is the load factor
)

// The bounds that no interval ever leaves.
const (
	MinInterval = 200 * time.Millisecond
	MaxInterval = 10 * time.Second
)

// Default is BALANCING's sample, switched off.
func Default() Config { return Config{}.WithDefaults() }

// WithDefaults gives c with the default of everything that it leaves out.
func (c Config) WithDefaults() Config {
	b, r := &c.LoadBalancing, &c.Registry
	b.BaseDiscoveryIntervalMS = cmp.Or(b.BaseDiscoveryIntervalMS, 1000)
	b.MinDiscoveryIntervalMS = cmp.Or(b.MinDiscoveryIntervalMS, 200)
	b.MaxDiscoveryIntervalMS = cmp.Or(b.MaxDiscoveryIntervalMS, 10_000)
	b.LoadFactorThreshold = cmp.Or(b.LoadFactorThreshold, 0.10)
	b.CapacityReportIntervalMS = cmp.Or(b.CapacityReportIntervalMS, 10_000)
	b.CapacityWindowSize = cmp.Or(b.CapacityWindowSize, 60)
	b.Mode = cmp.Or(b.Mode, ModeEqual)
	b.MaxClaimItems = cmp.Or(b.MaxClaimItems, 100)
	r.ConnectionTimeoutMS = cmp.Or(r.ConnectionTimeoutMS, 5000)
	r.HeartbeatIntervalMS = cmp.Or(r.HeartbeatIntervalMS, 10_000)
	r.HeartbeatTTLMS = cmp.Or(r.HeartbeatTTLMS, 30_000)
	return c
}

// Check finds everything that is wrong with the configuration, each fault by its key.
func (c Config) Check() error {
	c = c.WithDefaults()
	b, r := c.LoadBalancing, c.Registry
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	within := func(key string, value, least, most int) {
		if value < least || value > most {
			fault("%s %d: give %d to %d", key, value, least, most)
		}
	}
	low, high := int(MinInterval.Milliseconds()), int(MaxInterval.Milliseconds())
	within("load-balancing.min-discovery-interval-ms", b.MinDiscoveryIntervalMS, low, high)
	within("load-balancing.max-discovery-interval-ms", b.MaxDiscoveryIntervalMS, low, high)
	if b.MinDiscoveryIntervalMS > b.MaxDiscoveryIntervalMS {
		fault(
			"load-balancing.min-discovery-interval-ms %d is above max-discovery-interval-ms %d: lower the one or raise the "+
				"other",
			b.MinDiscoveryIntervalMS, b.MaxDiscoveryIntervalMS)
	} else {
		within("load-balancing.base-discovery-interval-ms", b.BaseDiscoveryIntervalMS, b.MinDiscoveryIntervalMS,
			b.MaxDiscoveryIntervalMS)
	}
	if !(b.LoadFactorThreshold >= 0.01 && b.LoadFactorThreshold <= 1) {
		fault("load-balancing.load-factor-threshold %v: give 0.01 to 1", b.LoadFactorThreshold)
	}
	within("load-balancing.capacity-report-interval-ms", b.CapacityReportIntervalMS, 1000, 30_000)
	within("load-balancing.capacity-window-size", b.CapacityWindowSize, 1, 3600)
	switch b.Mode {
	case ModeEqual, ModeLiteral, ModeLiteralShare:
	default:
		fault("load-balancing.mode %.40q: give %s, %s or %s", b.Mode, ModeEqual, ModeLiteral, ModeLiteralShare)
	}
	within("load-balancing.max-claim-items", b.MaxClaimItems, 1, 10_000)

	if fine := r.URL == "" || soundURL(r.URL); !fine {
		// The URL itself is not shown: it may hold a password.
		fault(
			"registry.url: give http or https with a host and without user or password, such as http://agent-registry:8090, " +
				"or leave it out")
	}
	within("registry.connection-timeout-ms", r.ConnectionTimeoutMS, 100, 60_000)
	within("registry.heartbeat-interval-ms", r.HeartbeatIntervalMS, 1000, 60_000)
	within("registry.heartbeat-ttl-ms", r.HeartbeatTTLMS, 1000, 600_000)
	fresh := func(key string, value int) {
		if value >= r.HeartbeatTTLMS {
			fault("%s %d: give less than registry.heartbeat-ttl-ms (%d), or every report is out of date before the next", key,
				value, r.HeartbeatTTLMS)
		}
	}
	fresh("registry.heartbeat-interval-ms", r.HeartbeatIntervalMS)
	fresh("load-balancing.capacity-report-interval-ms", b.CapacityReportIntervalMS)
	return errors.Join(faults...)
}

func soundURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// limits are the numbers of a checked Config that the controllers work with.
type limits struct {
	enabled        bool
	base, min, max time.Duration
	ttl            time.Duration
	threshold      float64
	maxItems       int
}

// limits checks c and gives its numbers.
func (c Config) limits() (limits, error) {
	if err := c.Check(); err != nil {
		return limits{}, err
	}
	c = c.WithDefaults()
	b := c.LoadBalancing
	return limits{
		enabled:   b.Enabled,
		base:      milliseconds(b.BaseDiscoveryIntervalMS),
		min:       milliseconds(b.MinDiscoveryIntervalMS),
		max:       milliseconds(b.MaxDiscoveryIntervalMS),
		ttl:       milliseconds(c.Registry.HeartbeatTTLMS),
		threshold: b.LoadFactorThreshold,
		maxItems:  b.MaxClaimItems,
	}, nil
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// bound keeps an interval within its limits.
func (l limits) bound(d time.Duration) time.Duration { return min(max(d, l.min), l.max) }

// room is the most that may be asked for.
func (l limits) room(free int) int { return min(max(free, 0), l.maxItems) }
