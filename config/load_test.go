package config

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/config/quotas"
	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/strategy"
	"taskbus/tests/support/configtest"
)

var update = flag.Bool("update", false,
	"write what the loader says into testdata/*.faults; read the difference before keeping it")

// testFiles gives the files of testdata by name, without ".yaml".
func testFiles(t testing.TB) map[string][]byte { t.Helper(); return configtest.Files(t, "testdata") }

// mustParse parses what the test knows to be valid.
func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), "agents.yaml")
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return c
}

// Every file of testdata gives exactly the faults in the .faults file beside it;
// those whose name begins with "valid-" give none.
func TestGoldenFaults(t *testing.T) {
	configtest.Faults(t, *update, "testdata", func(data []byte, name string) error {
		_, err := Parse(data, name)
		return err
	})
}

// A golden file whose input is gone would look like coverage that is not there.
func TestEveryGoldenFileHasItsInput(t *testing.T) {
	for pattern, files := range map[string]map[string][]byte{
		"testdata/*.faults": testFiles(t), "quotas/testdata/*.faults": quotaFiles(t),
		"quotas/testdata/*.nodes": quotaFiles(t),
	} {
		goldens, err := filepath.Glob(pattern)
		if err != nil || len(goldens) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(goldens), err)
		}
		for _, golden := range goldens {
			if _, ok := files[strings.TrimSuffix(filepath.Base(golden), filepath.Ext(golden))]; !ok {
				t.Errorf("%s has no .yaml beside it", golden)
			}
		}
	}
}

func TestParseEverything(t *testing.T) {
	got := mustParse(t, string(testFiles(t)["valid-everything"]))
	want := &Config{
		fileVersion: got.policy.Version,
		agents:      got.agents,
		policy: coordinator.Policy{
			Version: got.policy.Version,
			Agents: []coordinator.AgentSpec{{
				ID: "gpu-1", Queue: "work.gpu-1", Capabilities: []string{"c++", "gpu", "Übersetzung"},
				MaxConcurrent: 4, Rank: 1, HealthCheckInterval: 10 * time.Second,
				Timeout: 3480 * time.Second, AcceptTimeout: 45 * time.Second,
				SuccessRate: 0.95, SuccessStated: true, Cost: 0.25, Labels: map[string]string{"zone": "eu-1", "rack": "7"},
				Pull: coordinator.PullLiteral,
			}},
			Routes: map[string]coordinator.Route{"translate": {
				Required: []string{"Übersetzung"}, Preferred: []coordinator.AgentID{"gpu-1"}, Strategy: "least_loaded",
				Batch: coordinator.Batch{MaxSize: 20, MaxWait: 250 * time.Millisecond}, MaxWait: 10 * time.Minute,
			}},
			Strategy: "least_loaded",
			Strategies: []coordinator.Strategy{
				{Name: "expression",
					Parameters: `affinity_label="zone" session_label="" formula="affinity + success_rate / (1 + load)"`},
				{Name: "least_loaded"},
				{Name: "market",
					Parameters: "bid_window_ms=400 min_bid_window_ms=200 invite=all fitness=reported fallback=reward_rate " +
						"(exploration=0.1)"},
				{Name: "reward_rate", Parameters: "exploration=0.1"},
				{Name: "weighted",
					Parameters: `affinity_label="zone" session_label="user" fit=0.5 free=1 success=3 speed=1 cost=0 affinity=1 ` +
						`session=7 rank=0.25`},
			},
			Settings: coordinator.Settings{
				PoisonedAfter: 2, MaxRetryAttempts: 5, StaleAfter: time.Minute, MaxQueueSize: 500, AssignmentTimeout: 0,
				CountsWaiting: true,
				MaxLoad:       1, BusyIsEligible: true,
				Priorities:   coordinator.PriorityOrder{Strict: true, Weights: [4]int64{1, 4, 10, 100}},
				DedupeWindow: time.Minute, DedupeMaxIDs: 1000, Seed: 42,
				MaxTimeout:       3480 * time.Second, // 3600 s less the margin of 120 s
				SuspectIntervals: 3, DeadIntervals: 9, RefuseBacklogged: true, SlowStart: 30 * time.Second,
				Learning: coordinator.Learning{Prior: 0.8, PriorWeight: 5, HalfLife: 90 * time.Minute, HalfLifeOutcomes: 100},
				Breaker: coordinator.Breaker{Off: true, Consecutive: 4, Base: 10 * time.Second, Longest: time.Minute,
					MaxShare: 0.25},
			},
			Discovery: &coordinator.Discovery{
				Agents: []string{"lab:*", "worker-*"}, Capabilities: []string{"gpu", "search"},
				Queues:    []string{"7", "lab.*.tasks", "work.{id}"},
				MaxAgents: 50, MaxConcurrent: 8, ForgetAfter: 10 * time.Minute,
				Template: coordinator.AgentSpec{
					Rank: 5, HealthCheckInterval: 15 * time.Second, Timeout: 15 * time.Minute, AcceptTimeout: 20 * time.Second,
				},
			},
		},
		Auth: AuthStrict, Topology: TopologyVerify, Queues: QueuesClassic, HTTPBind: "::", LegacyRateLimitHeaders: true,
		TaskDispatchedEvents: true, Journal: true, RecordInputs: true, RecordInputsBytes: 64 << 20, MaxMessageBytes: 2 << 20,
		MaxOutputBytes: 512 << 10,
		Window:         1000, WindowBytes: 8 << 20,
		BrokerConsumerTimeout: time.Hour, ShutdownGrace: 30 * time.Second,
		RefuseUnserved: true, LogTasks: LogTasksFailures, MetricsAgents: 7,
		ignored: []string{"global_settings.priority_ageing_seconds is ignored: " + quotas.AgedPriorities},
	}
	if !sameConfig(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// sameConfig compares two configurations; of strategies, which are functions, by
// name and parameters. The text that they were read from does not count.
func sameConfig(a, b *Config) bool {
	x, y := *a, *b
	same := slices.EqualFunc(x.policy.Strategies, y.policy.Strategies, func(s, t coordinator.Strategy) bool {
		return s.Name == t.Name && s.Parameters == t.Parameters
	})
	x.policy.Strategies, y.policy.Strategies = nil, nil
	x.policy.Source, y.policy.Source = "", ""
	return same && reflect.DeepEqual(x, y)
}

func TestParseSmallestHasEveryDefault(t *testing.T) {
	c := mustParse(t, "agents:\n  gpu-1: {max_concurrent_tasks: 1}\n")
	want := defaults()
	want.policy.Version, want.fileVersion, want.agents = c.policy.Version, c.policy.Version, c.agents
	want.policy.Settings.MaxTimeout = 1680 * time.Second       // 1800 s less the margin of 120 s
	want.policy.Lanes, want.policy.LaneRoom = []string{}, 2000 // half of the window
	want.policy.Agents = []coordinator.AgentSpec{{
		ID: "gpu-1", Queue: "agent.gpu-1", MaxConcurrent: 1, Rank: 3,
		HealthCheckInterval: 30 * time.Second, Timeout: 300 * time.Second, AcceptTimeout: time.Minute,
	}}
	if !sameConfig(c, want) {
		t.Errorf("got  %#v\nwant %#v", c, want)
	}
}

func TestListsAreSortedAndUnique(t *testing.T) {
	p := mustParse(t, string(testFiles(t)["valid-lists"])).Policy()
	if p.Agents[0].ID != "a" || p.Agents[1].ID != "b" {
		t.Errorf("agents are not sorted: %v", p.Agents)
	}
	// The file says [z, a, z] for the capabilities and [b, a, b] for the agents.
	if got := p.Agents[1].Capabilities; !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("capabilities %v", got)
	}
	if got := p.Routes["t"]; !slices.Equal(got.Required, []string{"a", "z"}) ||
		!slices.Equal(got.Preferred, []coordinator.AgentID{"a", "b"}) {
		t.Errorf("route %+v", got)
	}
}

func TestStrategiesSection(t *testing.T) {
	const agents = "agents: {}\n"
	// expression does nothing without a formula.
	all := slices.DeleteFunc(strategy.Names(), func(name string) bool { return name == "expression" })
	tests := []struct {
		name, section, want string
		enabled             []string
	}{
		{"absent: all enabled", "", "capability_match", all},
		{"empty counts as absent", "assignment_strategies:\n", "capability_match", all},
		{"listed alone is enabled", "assignment_strategies: {capability_match: , round_robin: {}}\n", "capability_match",
			[]string{"capability_match", "round_robin"}},
		{"switched off", "assignment_strategies: {capability_match: {}, round_robin: {enabled: false}}\n", "capability_match",
			[]string{"capability_match"}},
		{"marked", "assignment_strategies: {capability_match: {}, round_robin: {default: true}}\n", "round_robin",
			[]string{"capability_match", "round_robin"}},
		{"formula", `assignment_strategies: {capability_match: , expression: {formula: "1 + load"}}` + "\n",
			"capability_match", []string{"capability_match", "expression"}},
		{"without its formula only switched off",
			"assignment_strategies: {capability_match: , expression: {enabled: false}}\n", "capability_match",
			[]string{"capability_match"}},
		{"default: false marks nothing", "assignment_strategies: {capability_match: {}, round_robin: {default: false}}\n",
			"capability_match", []string{"capability_match", "round_robin"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := mustParse(t, agents+test.section).Policy()
			if p.Strategy != test.want || !slices.Equal(p.StrategyNames(), test.enabled) {
				t.Errorf("got %s of %v, want %s of %v", p.Strategy, p.StrategyNames(), test.want, test.enabled)
			}
		})
	}
}

func TestLoadAppliesTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	text := "agents: {}\nassignment_strategies: {capability_match: , least_loaded: , round_robin: {enabled: false}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, err := Load(path, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	over, err := Load(path, Environment{Strategy: "least_loaded"})
	if err != nil {
		t.Fatal(err)
	}
	if plain.Policy().Strategy != "capability_match" || over.Policy().Strategy != "least_loaded" {
		t.Errorf("default strategy %s, overridden %s", plain.Policy().Strategy, over.Policy().Strategy)
	}
	if plain.Policy().Version == over.Policy().Version {
		t.Error("the version does not tell the effective strategy")
	}
	for name, want := range map[string]string{
		"round_robin": "environment: ASSIGNMENT_STRATEGY: the strategy round_robin is not enabled; list it under " +
			"assignment_strategies with enabled: true, or choose another",
		"fastest": `environment: ASSIGNMENT_STRATEGY: no strategy is called "fastest"; known are ` +
			strings.Join(strategy.Names(), ", "),
	} {
		if _, err := Load(path, Environment{Strategy: name}); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), Environment{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

// Tasks of which a batch goes to one agent cannot be put up for bids one by one, also
// where it is the environment that says so.
func TestTheEnvironmentCannotAuctionBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("agents: {}\ntask_routing:\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("  one: {}\n  some: {batch: {max_size: 2}}\n  more: {batch: {max_size: 2}}\n")
	want :=
		"environment: ASSIGNMENT_STRATEGY: agents bid for one task at a time in a market, while a batch goes to one " +
			"agent as a whole, " +
			"as tasks of the type more do; choose another strategy, or give that type one of its own"
	if _, err := Load(path, Environment{Strategy: "market"}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	write("  one: {}\n  some: {batch: {max_size: 2}, strategy: round_robin}\n")
	c, err := Load(path, Environment{Strategy: "market"})
	if err != nil {
		t.Fatal(err)
	}
	if got, enabled := c.Policy().Find(c.Policy().Strategy); !enabled || got.Name != "market" || got.Market == nil {
		t.Errorf("the default strategy is %+v, want market", got)
	}
}

// A market is built on what its fallback is in this file.
func TestMarketIsBuiltOnAnother(t *testing.T) {
	const section = "agents: {}\nassignment_strategies: {market: {%s}, capability_match: , load_balanced: , weighted: " +
		"{affinity_label: zone}}\n"
	tests := []struct {
		options, terms string // terms tell the strategies apart
		want           coordinator.Market
	}{
		{"", "success rate", coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond,
			Fallback: "load_balanced"}},
		{"fallback: load_balanced, invite: all", "success rate",
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, InviteAll: true,
				Fallback: "load_balanced"}},
		{"fallback: weighted, bid_window_ms: 60000", "fit",
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: time.Minute, Fallback: "weighted"}},
		{"fallback: capability_match, fitness: reported", "load",
			coordinator.Market{Floor: 100 * time.Millisecond, Ceiling: 500 * time.Millisecond, Reported: true,
				Fallback: "capability_match"}},
		{"fallback: first_match, min_bid_window_ms: 500", "load",
			coordinator.Market{Floor: 500 * time.Millisecond, Ceiling: 500 * time.Millisecond, FirstMatch: true,
				Fallback: "first_match"}},
	}
	for _, test := range tests {
		t.Run(test.options, func(t *testing.T) {
			p := mustParse(t, fmt.Sprintf(section, test.options)).Policy()
			got, _ := p.Find("market")
			if got == nil || got.Market == nil || *got.Market != test.want || got.Terms[0] != test.terms {
				t.Fatalf("got %+v, want %+v built on the strategy with %s first", got, test.want, test.terms)
			}
			if base, ok := p.Find("weighted"); !ok || base.Market != nil {
				t.Errorf("weighted itself is %+v", base)
			}
		})
	}
}

func TestAgentsArePushedToUnlessTheyPull(t *testing.T) {
	p := mustParse(t, string(testFiles(t)["valid-market"])).Policy()
	got := make(map[coordinator.AgentID]coordinator.PullMode)
	for _, a := range p.Agents {
		got[a.ID] = a.Pull
	}
	want := map[coordinator.AgentID]coordinator.PullMode{
		"pushed": coordinator.PullOff, "plain": coordinator.PullOff, "pulling": coordinator.PullShared,
		"greedy": coordinator.PullLiteral,
	}
	if !maps.Equal(got, want) {
		t.Errorf("modes %v, want %v", got, want)
	}
	joined := mustParse(t, "agents: {}\ndiscovery: {enabled: true, agents: [a*], capabilities: [a]}\n").Policy().
		Discovery.Template
	if joined.Pull != coordinator.PullOff {
		t.Errorf("agents that join: %v, want push", joined.Pull)
	}
	joined = mustParse(t,
		"agents: {}\ndiscovery: {enabled: true, agents: [a*], capabilities: [a], mode: literal, cost: 2.5}\n").Policy().
		Discovery.Template
	if joined.Pull != coordinator.PullLiteral || joined.Cost != 2.5 {
		t.Errorf("agents that join: %v at %v, want literal at 2.5", joined.Pull, joined.Cost)
	}
}

func TestFileSizeLimit(t *testing.T) {
	const text = "agents: {}\n"
	full := text + "#" + strings.Repeat("x", maxFileBytes-len(text)-1) // 1 MiB exactly
	mustParse(t, full)
	path := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(path, []byte(full+"x"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := path + ":1:1: the file is larger than 1048576 bytes; agents.yaml describes a fleet, it holds no data"
	if _, err := Load(path, Environment{}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestManyFaultsArePrintedInPart(t *testing.T) {
	var text strings.Builder
	text.WriteString("agents:\n")
	for i := range yamlconf.MaxPrinted + 7 {
		fmt.Fprintf(&text, "  a%d: {max_concurrent_tasks: 0}\n", i)
	}
	_, err := Parse([]byte(text.String()), "agents.yaml")
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.List) != yamlconf.MaxPrinted+7 {
		t.Fatalf("want %d faults, got %v", yamlconf.MaxPrinted+7, err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != yamlconf.MaxPrinted+1 ||
		lines[yamlconf.MaxPrinted] != "… and 7 more faults" {
		t.Errorf("got %d lines, the last one %q", len(lines), lines[len(lines)-1])
	}
}

// config must not import the bus; this test may, to hold the two together.
func TestWordsAreThoseOfTheBus(t *testing.T) {
	for _, q := range bus.Standard(bus.Declare, bus.ProfileQuorum, nil).Queues {
		if !coordinator.ReservedQueue(q.Name) {
			t.Errorf("an agent could be given Taskbus's own queue %s", q.Name)
		}
	}
	if !coordinator.ReservedQueue(bus.QueueLeader) {
		t.Error("an agent could be given the leader's lock")
	}
	for got, want := range map[string]string{
		string(TopologyDeclare): string(bus.Declare),
		string(TopologyVerify):  string(bus.Verify),
		string(TopologyOff):     string(bus.Off),
		string(QueuesQuorum):    string(bus.ProfileQuorum),
		string(QueuesClassic):   string(bus.ProfileClassic),
	} {
		if got != want {
			t.Errorf("config says %q, bus says %q", got, want)
		}
	}
}

func TestAgentQueuesAreSorted(t *testing.T) {
	c := mustParse(t, "agents:\n  a: {max_concurrent_tasks: 1, queue: z}\n  b: {max_concurrent_tasks: 1}\n")
	if got := c.AgentQueues(); !slices.Equal(got, []string{"agent.b", "z"}) {
		t.Errorf("got %v", got)
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"max_load", "max_queue_size", "seed", "window"}
	tests := []struct{ got, want string }{
		{"max-load", "; did you mean max_load?"},             // dash for underscore: 0
		{"maxload", "; did you mean max_load?"},              // 1 insertion
		{"SEED", "; did you mean seed?"},                     // case: 0
		{"sede", "; did you mean seed?"},                     // 1 exchange, and 4/3 = 1 allowed
		{"seat", "; known are " + strings.Join(known, ", ")}, // 2 replacements are too many for 4 letters
		{"max_queue_seize", "; did you mean max_queue_size?"},
		{"colour", "; known are " + strings.Join(known, ", ")},
	}
	for _, test := range tests {
		if got := yamlconf.DidYouMean(test.got, known); got != test.want {
			t.Errorf("%s: got %q, want %q", test.got, got, test.want)
		}
	}
}

func TestSearch(t *testing.T) {
	tests := []struct {
		name, flag, variable string
		files                []string
		want, wantErr        string
	}{
		{name: "the flag comes first", flag: "f.yaml", variable: "v.yaml", files: []string{"f.yaml", "v.yaml", "agents.yaml"},
			want: "f.yaml"},
		{name: "then the variable", variable: "v.yaml", files: []string{"v.yaml", "agents.yaml"}, want: "v.yaml"},
		{name: "then ./config", files: []string{"config/agents.yaml", "agents.yaml"}, want: "config/agents.yaml"},
		{name: "then here", files: []string{"agents.yaml"}, want: "agents.yaml"},
		{name: "a named file must exist", flag: "f.yaml", files: []string{"agents.yaml"},
			wantErr: "find the configuration named by --config: stat f.yaml: no such file or directory"},
		{name: "a named file must exist", variable: "v.yaml", files: []string{"agents.yaml"},
			wantErr: "find the configuration named by TASKBUS_CONFIG: stat v.yaml: no such file or directory"},
		{name: "a directory is no file", flag: "config", files: []string{"config/agents.yaml"},
			wantErr: "find the configuration named by --config: config is a directory; name the file in it"},
		{name: "nothing found", wantErr: "no configuration found: --config and TASKBUS_CONFIG are not set, and none of " +
			"config/agents.yaml, agents.yaml, etc/agents.yaml exists; name a file or create one of these"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, file := range test.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			getenv := func(name string) string { return map[string]string{"TASKBUS_CONFIG": test.variable}[name] }
			got, err := searchIn(test.flag, getenv, []string{"config/agents.yaml", "agents.yaml", "etc/agents.yaml"})
			switch {
			case test.wantErr == "" && (err != nil || got != test.want):
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			case test.wantErr != "" && (err == nil || err.Error() != test.wantErr):
				t.Errorf("got %v\nwant %s", err, test.wantErr)
			}
		})
	}
	if want := []string{"config/agents.yaml", "agents.yaml", "/etc/taskbus/agents.yaml"}; !slices.Equal(wellKnown, want) {
		t.Errorf("Search looks in %v, documented are %v", wellKnown, want)
	}
}

// A pipe in the place of the file is refused at once: to wait for it would be for ever, and to have read
// it once would leave the reload deaf.
func TestLoadRefusesPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "agents.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(pipe, Environment{}); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("agents.yaml: %v", err)
	}
	if _, err := LoadQuotas(pipe); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("quotas.yaml: %v", err)
	}
}

// Whatever fails inside while a file is read is a fault of that file, on one line.
func TestPanicIsAFaultOfTheFile(t *testing.T) {
	read := func() (err error) {
		defer yamlconf.RefusePanic("agents.yaml", &err)
		panic("index out of range [2]\nwith length 2")
	}
	var faults *Faults
	if err := read(); !errors.As(err, &faults) || len(faults.List) != 1 ||
		err.Error() != "agents.yaml:1: index out of range [2] with length 2: reading this file has failed inside Taskbus; "+
			"please report it, with the file" {
		t.Errorf("%v", err)
	}
}
