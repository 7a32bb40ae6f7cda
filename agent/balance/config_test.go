package balance

import (
	"math"
	"strings"
	"testing"
)

// sample is BALANCING's configuration, word by word.
const sample = `
agent:
  load-balancing:
    enabled: true
    base-discovery-interval-ms: 1000
    min-discovery-interval-ms: 200        # Fastest possible discovery
    max-discovery-interval-ms: 10000      # Slowest possible discovery
    load-factor-threshold: 0.10           # Trigger adjustment at ±10%
    capacity-report-interval-ms: 10000    # Report every 10s
    capacity-window-size: 60              # 60-second rolling average

  registry:
    url: "http://agent-registry:8090"
    connection-timeout-ms: 5000
    heartbeat-interval-ms: 10000
    heartbeat-ttl-ms: 30000               # Agent expires after 30s no report
`

func read(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The keys stand in a file under `agent:`, which may have more beside that.
func TestParse(t *testing.T) {
	all := read(t,
		"server: {port: 8080}\nagent:\n  load-balancing: {enabled: true, base-discovery-interval-ms: 900, "+
			"min-discovery-interval-ms: 300, "+
			"max-discovery-interval-ms: 9000, load-factor-threshold: 0.2, capacity-report-interval-ms: 5000, "+
			"capacity-window-size: 30}\n"+
			"spring: {application: {name: x}}\n")
	want := LoadBalancing{
		Enabled: true, BaseDiscoveryIntervalMS: 900, MinDiscoveryIntervalMS: 300, MaxDiscoveryIntervalMS: 9000,
		LoadFactorThreshold: 0.2, CapacityReportIntervalMS: 5000, CapacityWindowSize: 30,
	}
	if all.LoadBalancing != want {
		t.Errorf("read %+v, want %+v", all.LoadBalancing, want)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"no section", "load-balancing: {enabled: true}\n", "no section `agent:`"},
		{"an empty file", "", "no section `agent:`"},
		{"an empty section", "agent:\n", "no section `agent:`"},
		{"a key that is misspelt", "agent:\n  load-balancing:\n    base-discovery-interval: 900\n",
			"line 3: field base-discovery-interval not found"},
		{"a section that is misspelt", "agent: {load-balancer: {enabled: true}}\n", "field load-balancer not found"},
		{"a word for a number", "agent: {load-balancing: {capacity-window-size: wide}}\n", "cannot unmarshal"},
		{"what is not YAML", "agent: {", "yaml"},
		{"what is out of bounds", "agent: {load-balancing: {min-discovery-interval-ms: 1}}\n",
			"load-balancing.min-discovery-interval-ms 1: give 200 to 10000"},
	} {
		if c, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) || c != (Config{}) {
			t.Errorf("%s: %+v, %v; want an error with %q", tc.name, c, err, tc.want)
		}
	}
}

func TestSampleIsTheDefaultSwitchedOn(t *testing.T) {
	want := Default()
	want.LoadBalancing.Enabled = true
	want.Registry.URL = "http://agent-registry:8090"
	got := read(t, sample)
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	if got.WithDefaults() != want {
		t.Errorf("read %+v, want %+v", got.WithDefaults(), want)
	}
	if Default().LoadBalancing.Enabled {
		t.Error("it must be switched on explicitly")
	}
	if some := read(t, "agent: {load-balancing: {base-discovery-interval-ms: 500}}").
		WithDefaults(); some.LoadBalancing.BaseDiscoveryIntervalMS != 500 || some.LoadBalancing.MaxClaimItems != 100 {
		t.Errorf("what is left out has its default: %+v", some)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		set  func(*LoadBalancing, *Registry)
		want string
	}{
		{"faster than the fastest", func(b *LoadBalancing, _ *Registry) { b.MinDiscoveryIntervalMS = 199 },
			"load-balancing.min-discovery-interval-ms 199: give 200 to 10000"},
		{"slower than the slowest", func(b *LoadBalancing, _ *Registry) { b.MaxDiscoveryIntervalMS = 10_001 },
			"load-balancing.max-discovery-interval-ms 10001: give 200 to 10000"},
		{"min above max", func(b *LoadBalancing, _ *Registry) {
			b.MinDiscoveryIntervalMS, b.MaxDiscoveryIntervalMS = 800,
				500
		},
			"load-balancing.min-discovery-interval-ms 800 is above max-discovery-interval-ms 500: lower the one or raise the " +
				"other"},
		{"base below min", func(b *LoadBalancing, _ *Registry) {
			b.BaseDiscoveryIntervalMS, b.MinDiscoveryIntervalMS = 300,
				400
		},
			"load-balancing.base-discovery-interval-ms 300: give 400 to 10000"},
		{"negative", func(b *LoadBalancing, _ *Registry) { b.BaseDiscoveryIntervalMS = -1 },
			"load-balancing.base-discovery-interval-ms -1: give 200 to 10000"},
		{"threshold", func(b *LoadBalancing, _ *Registry) { b.LoadFactorThreshold = 10 },
			"load-balancing.load-factor-threshold 10: give 0.01 to 1"},
		{"threshold that is no number", func(b *LoadBalancing, _ *Registry) { b.LoadFactorThreshold = math.NaN() },
			"load-balancing.load-factor-threshold NaN: give 0.01 to 1"},
		{"report", func(b *LoadBalancing, _ *Registry) { b.CapacityReportIntervalMS = 500 },
			"load-balancing.capacity-report-interval-ms 500: give 1000 to 30000"},
		{"window", func(b *LoadBalancing, _ *Registry) { b.CapacityWindowSize = 3601 },
			"load-balancing.capacity-window-size 3601: give 1 to 3600"},
		{"mode", func(b *LoadBalancing, _ *Registry) { b.Mode = "fair" },
			`load-balancing.mode "fair": give equal, literal or literal-share`},
		{"claim", func(b *LoadBalancing, _ *Registry) { b.MaxClaimItems = 10_001 },
			"load-balancing.max-claim-items 10001: give 1 to 10000"},
		{"no URL", func(_ *LoadBalancing, r *Registry) { r.URL = "agent-registry:8090" },
			"registry.url: give http or https with a host and without user or password, such as http://agent-registry:8090, " +
				"or leave it out"},
		{"a password", func(_ *LoadBalancing, r *Registry) { r.URL = "http://me:secret@host/" },
			"registry.url: give http or https with a host and without user or password, such as http://agent-registry:8090, " +
				"or leave it out"},
		{"timeout", func(_ *LoadBalancing, r *Registry) { r.ConnectionTimeoutMS = 99 },
			"registry.connection-timeout-ms 99: give 100 to 60000"},
		{"heartbeat", func(_ *LoadBalancing, r *Registry) { r.HeartbeatIntervalMS = 999 },
			"registry.heartbeat-interval-ms 999: give 1000 to 60000"},
		{"ttl", func(_ *LoadBalancing, r *Registry) { r.HeartbeatTTLMS = 600_001 },
			"registry.heartbeat-ttl-ms 600001: give 1000 to 600000"},
		{"heartbeats that expire", func(_ *LoadBalancing, r *Registry) { r.HeartbeatIntervalMS = 30_000 },
			"registry.heartbeat-interval-ms 30000: give less than registry.heartbeat-ttl-ms (30000), or every report is out " +
				"of date before the next"},
		{"reports that expire", func(b *LoadBalancing, _ *Registry) { b.CapacityReportIntervalMS = 30_000 },
			"load-balancing.capacity-report-interval-ms 30000: give less than registry.heartbeat-ttl-ms (30000), or every " +
				"report is out of date before the next"},
		{"two at once", func(b *LoadBalancing, _ *Registry) { b.MaxClaimItems, b.Mode = -1, "x" },
			"load-balancing.mode \"x\": give equal, literal or literal-share\nload-balancing.max-claim-items -1: give 1 to " +
				"10000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Config
			tt.set(&c.LoadBalancing, &c.Registry)
			err := c.Check()
			if err == nil || err.Error() != tt.want {
				t.Fatalf("%v\nwant %s", err, tt.want)
			}
			if _, err := NewEqual(c, "a1", 0); err == nil {
				t.Error("Equal takes it")
			}
			if _, err := NewLiteral(c); err == nil {
				t.Error("Literal takes it")
			}
			if _, err := NewEstimator(c); err == nil {
				t.Error("the Estimator takes it")
			}
		})
	}
}
