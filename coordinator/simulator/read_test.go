package simulator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const goodFile = `about: a test
duration_seconds: 100
warm_up_seconds: 10
seeds: [3, 4]
settings:
  max_load: 0.8
  eligible_statuses: [ready, busy]
  circuit_breaker: {enabled: false, base_seconds: 5}
  learning: {half_life_hours: 0.5}
fleet:
  - name: a
    count: 2
    slots: 3
    capabilities: [y, x]
    service: {lognormal: {mean: 4, sigma: 0.5}}
    service_by_type: {job: 2}
    success_rate: 0.9
    success_by_type: {job: 0.5}
    drift: [{at_seconds: 50, rate: 0.1, task_type: job}]
    crash: {mtbf_seconds: 60, mttr_seconds: 5}
    silent: [{from_seconds: 1, to_seconds: 2}]
workloads:
  - task_type: job
    required_capabilities: [x]
    arrivals: {trace: {name: azure-code, seconds_per_input_token: 0.001, seconds_per_output_token: 0.05}}
    priorities: {high: 3, low: 1}
strategies:
  - least_loaded
  - {name: weighted, label: mine, weights: {success: 3}, settings: {max_load: 0.5}}
`

func TestRead(t *testing.T) {
	s, err := Read("good.yaml", "good", []byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	g, w := &s.Fleet[0], &s.Workloads[0]
	for what, ok := range map[string]bool{
		"times": s.Duration == 100*time.Second && s.WarmUp == 10*time.Second && s.Drain == time.Hour,
		"seeds": len(s.Seeds) == 2 && s.Seeds[0] == 3 && s.Seeds[1] == 4,
		"settings": s.Settings.MaxLoad == 0.8 && s.Settings.BusyIsEligible &&
			s.Settings.StaleAfter == 2*time.Minute,
		"breaker":              s.Settings.Breaker.Off && s.Settings.Breaker.Base == 5*time.Second,
		"learning":             s.Settings.Learning.HalfLife == 30*time.Minute,
		"capabilities, sorted": g.Capabilities[0] == "x" && g.Capabilities[1] == "y",
		"advertised = slots":   g.Slots == 3 && g.Advertised == 3,
		"service": g.service("other") == Distribution{Lognormal, 4, 0.5} &&
			g.service("job") == Distribution{Constant, 2, 0},
		"success":               g.success("other") == 0.9 && g.success("job") == 0.5,
		"drift":                 g.Drift[0] == Step{50 * time.Second, "job", 0.1},
		"crash":                 g.MTBF == time.Minute && g.MTTR == 5*time.Second,
		"priorities, as shares": w.Priorities == [4]float64{0.25, 0, 0.75, 0},
		"until the end":         w.Until == 100*time.Second,
		"trace":                 w.Arrivals.Kind == ArriveTrace && w.Arrivals.Trace == Tokens{"azure-code", 1, 0.001, 0.05},
		"variant's settings":    s.Strategies[1].Settings.MaxLoad == 0.5 && s.Strategies[1].Settings.BusyIsEligible,
		"variant's label":       s.Strategies[0].Label == "least_loaded" && s.Strategies[1].Label == "mine",
	} {
		if !ok {
			t.Errorf("%s: not as in the file: %+v", what, s)
		}
	}
}

// smallFile is a scenario in which tests replace something.
const smallFile = `duration_seconds: 100
fleet:
  - {name: a, capabilities: [x], service: 1}
workloads:
  - {task_type: job, required_capabilities: [x], arrivals: {poisson: {rate: 1}}}
strategies: [least_loaded]
`

// faultAt reads smallFile with old replaced, and wants a fault in that line that says so.
func faultAt(t *testing.T, old, changed string, line int, want string) {
	t.Helper()
	text := strings.Replace(smallFile, old, changed, 1)
	if text == smallFile {
		t.Fatal("the test changes nothing")
	}
	_, err := Read("bad.yaml", "bad", []byte(text))
	var faults *Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v, want faults", err)
	}
	for _, f := range faults.List {
		if f.Line == line && strings.Contains(f.String(), want) {
			return
		}
	}
	t.Errorf("no fault in line %d says %q:\n%v", line, want, err)
}

// Every fault names its line, what is wrong, and what to do.
func TestReadFaults(t *testing.T) {
	tests := []struct {
		name, old, changed string // what is replaced in smallFile
		line               int
		want               string
	}{
		{"unknown key", "duration_seconds: 100", "duration_secs: 100", 1, "unknown key; did you mean duration_seconds?"},
		{"missing key", "duration_seconds: 100", "about: x", 1, "duration_seconds: is missing"},
		{"unknown strategy", "[least_loaded]", "[least_loadd]", 6,
			`no strategy is called "least_loadd"; did you mean least_loaded?`},
		{"a market", "[least_loaded]", "[market]", 6,
			"agents of a simulation do not bid, and a market without bids is the strategy that it falls back to, only slower;" +
				" name that"},
		{"an option that the strategy has not", "[least_loaded]", "[{name: least_loaded, exploration: 0.1}]", 6,
			"exploration"},
		{"an option of a reference", "[least_loaded]", "[{name: random, exploration: 0.1}]", 6,
			"it has no options; remove them"},
		{"one label twice", "[least_loaded]", "[random, random]", 6, `called "random" already; give it a label of its own`},
		{"not a number", "service: 1", "service: fast", 3, `must be a number from 0.000001 to 2678400, not "fast"`},
		{"text for a number", "rate: 1", `rate: "1"`, 5, "must be a number above 0"},
		{"negative", "service: 1", "service: {exponential: {mean: -1}}", 3, "must be a number"},
		{"unknown distribution", "service: 1", "service: {normal: {mean: 1}}", 3,
			"known are constant, exponential, lognormal"},
		{"two arrivals", "{poisson: {rate: 1}}", "{poisson: {rate: 1}, constant: {rate: 1}}", 5, "exactly one of poisson"},
		{"unknown arrivals", "{poisson: {rate: 1}}", "{poison: {rate: 1}}", 5, "did you mean poisson?"},
		{"nobody can do it", "required_capabilities: [x]", "required_capabilities: [z]", 5,
			"no agent of the fleet has all of [z]"},
		{"warm-up too long", "duration_seconds: 100", "warm_up_seconds: 100\nduration_seconds: 100", 1,
			"nothing is left to measure"},
		{"key twice", "service: 1}", "service: 1, service: 2}", 3, "already given in line 3"},
		{"no strategies", "[least_loaded]", "[]", 6, "must name 1 to 32 strategies, not 0"},
		{"zero of everything", "capabilities: [x]", "count: 0, capabilities: [x]", 3, "at least one agent"},
		{"not an id", "name: a", "name: a b", 3, "must be 1 to 100 letters, digits"},
		{"alias", "[least_loaded]", "&a [*a]", 6, "the alias *a is not allowed"},
		{"two documents", "strategies:", "---\nstrategies:", 6, "a second document begins"},
		{"a list for a mapping", "{name: a, capabilities: [x], service: 1}", "[a]", 3,
			"must be a mapping of settings, not a list"},
		{"broken YAML", "fleet:", "fleet: [", 3, "cannot be read: did not find"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faultAt(t, tt.old, tt.changed, tt.line, tt.want)
		})
	}
	if _, err := Read("empty.yaml", "empty", nil); err == nil ||
		!strings.Contains(err.Error(), "empty.yaml:1:1: the file is empty") {
		t.Errorf("empty file: %v", err)
	}
}

// Whatever stands in the file, reading it gives a scenario or faults.
func FuzzRead(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte(goodPulling))
	f.Add([]byte(goodSharing))
	for _, name := range Shipped() {
		text, err := ShippedText(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read("fuzz.yaml", "fuzz", data)
		var faults *Faults
		tasks := 0.0
		for i := 0; err == nil && i < len(s.Workloads); i++ {
			tasks += s.expected(&s.Workloads[i])
		}
		switch {
		case tasks > maxTasks:
			t.Errorf("accepted with %g tasks", tasks)
		case err == nil && s.Pulling != nil:
			p := s.Pulling
			if len(p.Agents) == 0 || len(p.Loads) == 0 || len(p.Controllers) == 0 || s.Duration <= s.WarmUp ||
				s.Affordable() != nil {
				t.Errorf("accepted without agents, a load, a controller, or time to measure: %+v", p)
			}
		case err == nil && s.Sharing != nil:
			p := s.Sharing
			if len(p.Tenants) == 0 || len(p.Weights) == 0 || p.Slots == 0 || p.MaxOutput == 0 || s.Affordable() != nil {
				t.Errorf("accepted without tenants, weights, slots or a bound of outputs: %+v", p)
			}
		case err == nil && s.Priorities != nil:
			if p := s.Priorities; p.Slots == 0 || p.Load == 0 || p.For == 0 || p.Duration.Mean == 0 || s.Affordable() != nil {
				t.Errorf("accepted without slots, work, or time: %+v", p)
			}
		case err == nil && (len(s.Fleet) == 0 || len(s.Strategies) == 0 || s.Duration <= s.WarmUp):
			t.Errorf("accepted without a fleet, a strategy, or time to measure")
		case err != nil && (!errors.As(err, &faults) || len(faults.List) == 0):
			t.Errorf("error %v is none of faults", err)
		}
	})
}

func TestReadTrace(t *testing.T) {
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	trace, err := ReadTrace(strings.NewReader(head +
		"2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"))
	if err != nil {
		t.Fatal(err)
	}
	// 18:17:04.03196 − 18:17:03.97996 = 52 ms.
	if len(trace) != 2 || trace[0] != (Request{0, 4808, 10}) || trace[1] != (Request{52 * time.Millisecond, 3180, 8}) {
		t.Errorf("trace %+v", trace)
	}
	for name, bad := range map[string]string{
		"no column GeneratedTokens": "TIMESTAMP,ContextTokens\n",
		`line 2 of the trace: TIMESTAMP must be a time such as 2023-11-16 18:17:03.9799600, not "yesterday"`: head +
			"yesterday,1,1\n",
		`line 3 of the trace: ContextTokens must be a whole number from 0 to 4294967295, not "many"`: head +
			"2023-11-16 18:17:04,1,1\n2023-11-16 18:17:05,many,1\n",
		`line 2 of the trace: GeneratedTokens must be a whole number from 0 to 4294967295, not "-1"`: head +
			"2023-11-16 18:17:04,1,-1\n",
		"line 3 of the trace is earlier": head + "2023-11-16 18:17:04,1,1\n2023-11-16 18:17:03,1,1\n",
		"no requests":                    head,
		"read the header":                "",
		"wrong number of fields":         head + "2023-11-16 18:17:04,1\n",
	} {
		if _, err := ReadTrace(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one that says %q", err, name)
		}
	}
}

// A trace sets the arrivals, and how long a task takes on an agent of speed 2:
// (0.1·10 + 1·3)/2 = 2 s and (0.1·20 + 1·6)/2 = 4 s, ten seconds apart at twice the speed.
func TestTraceSetsArrivalsAndWork(t *testing.T) {
	s := scenario(t, oneAgent("service: 1, speed: 2",
		"arrivals: {trace: {name: mine.csv, speed_up: 2, seconds_per_input_token: 0.1, seconds_per_output_token: 1}}",
		"[least_loaded]"))
	r, err := Play(t.Context(), s, Options{Trace: func(name string) ([]Request, error) {
		if name != "mine.csv" {
			t.Errorf("the trace %q is asked for", name)
		}
		return []Request{{0, 10, 3}, {20 * time.Second, 20, 6}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Strategies[0]
	// The first comes at 0, the second at 10 s and is done at 14 s.
	approx(t, "utilisation", p.Utilisation.Mean, (2.0+4)/14, 1e-6)
	approx(t, "tasks/s", p.Throughput.Mean, 2.0/14, 1e-6)

	absent := errors.New("no such file")
	_, err = Play(t.Context(), s, Options{Trace: func(string) ([]Request, error) { return nil, absent }})
	if !errors.Is(err, absent) || !strings.Contains(err.Error(), "trace mine.csv") {
		t.Errorf("absent trace: %v", err)
	}
	if _, err := Play(t.Context(), s, Options{}); err == nil {
		t.Error("without a way to read traces it is played all the same")
	}
}

func TestShipped(t *testing.T) {
	names := Shipped()
	if len(names) < 8 {
		t.Fatalf("scenarios %v, want 8 and more", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s, err := Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if s.About == "" {
				t.Error("says nothing about itself")
			}
			if s.Pulling != nil { // package pulling plays it, in its own tests
				if _, err := Play(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), "package pulling") {
					t.Errorf("played all the same: %v", err)
				}
				return
			}
			if s.Priorities != nil { // likewise
				return
			}
			if s.Sharing != nil { // likewise
				if _, err := Play(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), "package sharing") {
					t.Errorf("played all the same: %v", err)
				}
				return
			}
			o := Options{Trace: func(trace string) ([]Request, error) {
				file, err := os.Open(filepath.Join("../../../shared/traces", TraceFile(trace)))
				if errors.Is(err, os.ErrNotExist) {
					t.Skipf("the trace %s is not here; --traces names its folder", trace)
				}
				if err != nil {
					return nil, err
				}
				defer file.Close()
				return ReadTrace(file)
			}}
			// A tenth of it will do: what is looked for is that it can be played.
			s.Duration, s.WarmUp, s.Seeds = s.Duration/10, s.WarmUp/10, s.Seeds[:1]
			for i := range s.Workloads {
				s.Workloads[i].Until = s.Duration
			}
			r, err := Play(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Strategies {
				conserved(t, p.Label, p.Tasks)
				if p.Tasks.Succeeded == 0 {
					t.Errorf("%s: nothing succeeds", p.Label)
				}
			}
		})
	}
	if _, err := Open("hearding"); err == nil || !strings.Contains(err.Error(), "did you mean herding?") {
		t.Errorf("unknown scenario: %v", err)
	}
}
