package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
)

// renamed is fleet with a capability of which the routes do not know yet: no agent can serve train.
var renamed = strings.Replace(fleet, "[go, gpu]", "[go, gpus]", 1)

const unserved = "no agent can serve train: none has all of gpu; its tasks will fail with no_eligible_agents"

func (r *rig) configCheck() httpapi.Check {
	return r.service.Health(context.Background()).Checks["config"]
}

// What taskbus check warns of is said when it comes in force, and stays in /health as long as it is true.
func TestReloadTellsWhatCheckWarnsOf(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if c := r.configCheck(); c.Status != httpapi.Healthy {
			t.Fatalf("before: %+v", c)
		}
		r.service.Reload(parseConfig(t, renamed), nil)
		synctest.Wait()
		if c := r.configCheck(); c.Status != httpapi.Degraded || !strings.Contains(c.Detail, unserved) {
			t.Errorf("/health after a capability was renamed: %+v, want it degraded, with %q", c, unserved)
		}
		if n := scraped(t, r.service.options.Registry)["taskbus_config_doubts"]; n != 1 {
			t.Errorf("taskbus_config_doubts %v, want 1", n)
		}
		if line := `{"level":"warn","message":"configuration: ` + unserved + `"}`; strings.Count(r.log.String(), line) != 1 {
			t.Errorf("no line %s in\n%s", line, r.log)
		}
		r.service.Reload(parseConfig(t, fleet), nil)
		synctest.Wait()
		if c := r.configCheck(); c.Status != httpapi.Healthy {
			t.Errorf("after it was put right: %+v", c)
		}
	})
}

// A file may have very many warnings; the log and /health have a bounded number of them.
func TestManyWarningsAreBounded(t *testing.T) {
	text := "agents:\n  a1: {capabilities: [go], max_concurrent_tasks: 1}\ntask_routing:\n"
	for i := range 100 {
		text += fmt.Sprintf("  type-%02d: {required_capabilities: [missing]}\n", i)
	}
	text += "  build: {required_capabilities: [go]}\n"
	inRig(t, text, func(r *rig) { // said at the start, too
		if n := strings.Count(r.log.String(), `"configuration: no agent can serve`); n != warningsLogged {
			t.Errorf("%d lines, want %d", n, warningsLogged)
		}
		if !strings.Contains(r.log.String(),
			`"more":80,"message":"configuration: more warnings; taskbus check agents.yaml"`) {
			t.Errorf("nothing is said of the other 100 - 20 = 80:\n%s", r.log)
		}
		if c := r.configCheck(); strings.Count(c.Detail, "no agent can serve") != warningsInHealth ||
			!strings.Contains(c.Detail, "and 97 more; taskbus check agents.yaml") {
			t.Errorf("/health: %s", c.Detail)
		}
	})
}

// Of a thoroughly broken file the log and /health have what one can take in, and what stays in force.
func TestBrokenFileIsToldInShort(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		text := "agents:\n"
		for i := range 40 {
			text += fmt.Sprintf("  a%02d: {max_concurrent_tasks: none}\n", i)
		}
		_, err := config.Parse([]byte(text), "agents.yaml")
		if err == nil {
			t.Fatal("the file is in order")
		}
		r.service.Reload(nil, err)
		version := r.status().Config.Version
		said := r.status().Config.LastReloadError
		if n := strings.Count(said, "max_concurrent_tasks"); n != 3 ||
			!strings.HasSuffix(said, "and 37 more; taskbus check agents.yaml") {
			t.Errorf("%d faults in %q, want 3 of 40 and how many more there are", n, said)
		}
		if c := r.configCheck(); c.Status != httpapi.Degraded || !strings.Contains(c.Detail, version) ||
			!strings.Contains(c.Detail, said) {
			t.Errorf("/health: %+v, want version %s and the faults", c, version)
		}
		if !strings.Contains(r.log.String(), `"version":"`+version+`","message":"the configuration file is broken;`) {
			t.Errorf("the log does not say that %s stays in force:\n%s", version, r.log)
		}
	})
}

// A standby with other files than the leader says so, whichever of the two changes.
func TestStandbySaysThatItsFilesDiffer(t *testing.T) {
	withStandby(t, fleet, func(first, second *rig) {
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			first.pass(time.Second)
			c := second.configCheck()
			if want == "" && c.Status != httpapi.Healthy {
				t.Errorf("%s: %+v, want it healthy", when, c)
			}
			if want != "" && (c.Status != httpapi.Degraded || !strings.Contains(c.Detail, want)) {
				t.Errorf("%s: %+v, want it degraded with %q", when, c, want)
			}
			if c := first.configCheck(); c.Status != httpapi.Healthy {
				t.Errorf("%s: the leader says %+v of its own files", when, c)
			}
		}
		expect("the same files", "")
		// Where each listens is its own business.
		second.service.Reload(parseConfig(t, fleet+"http: {advertise_url: 'http://second:8551'}\n"), nil)
		expect("another address", "")

		more := fleet + "learning: {prior: 0.5}\n"
		second.service.Reload(parseConfig(t, more), nil)
		expect("the standby has another agents.yaml",
			"agents.yaml of this standby differs from that of the leader taskbus@test (here ")
		if n := strings.Count(second.log.String(), "configuration: agents.yaml of this standby differs"); n != 1 {
			t.Errorf("said %d times in the log, want once", n)
		}
		first.service.Reload(parseConfig(t, more), nil)
		expect("the leader has it, too", "")

		quotas := "groups: [{id: red}]\n"
		q, err := config.ParseQuotas([]byte(quotas), "quotas.yaml")
		if err != nil {
			t.Fatal(err)
		}
		first.service.Reload(parseConfig(t, more).WithQuotas(q), nil)
		expect("the leader alone has a quotas.yaml",
			"quotas.yaml of this standby differs from that of the leader taskbus@test (here none, there ")
		second.service.Reload(parseConfig(t, more).WithQuotas(q), nil)
		expect("both have it", "")

		// Of another version of the program nothing is compared: it may count other things.
		second.service.options.Version = "another"
		second.service.Reload(parseConfig(t, fleet), nil)
		expect("another version", "")
		first.close()
		second.pass(time.Second)
		if c := second.configCheck(); c.Status != httpapi.Healthy {
			t.Errorf("after the take-over: %+v", c)
		}
		second.close()
	})
}

// Lines of single tasks can be left out; what concerns the coordinator is logged in any case.
func TestLogTasks(t *testing.T) {
	lines := func(log string) (found string) {
		for _, message := range []string{"task assigned", "task ended", "task failed", "task overdue",
			"new configuration in force"} {
			if strings.Contains(log, `"message":"`+message+`"`) {
				found += message + ", "
			}
		}
		return strings.TrimSuffix(found, ", ")
	}
	for tasks, want := range map[string]string{
		"all":      "task assigned, task ended, task failed, task overdue, new configuration in force",
		"failures": "task ended, task failed, task overdue, new configuration in force",
		"none":     "new configuration in force",
	} {
		t.Run(tasks, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				before := len(r.log.String())
				r.service.Reload(parseConfig(t, fleet+"log: {tasks: "+tasks+"}\nlearning: {prior: 0.5}\n"), nil)
				synctest.Wait()
				w := r.worker("a1", true)
				r.task("fails", "build", "")
				w.finish("failed", "")
				r.task("overdue", "build", `,"timeout_seconds":1`)
				w.report("overdue")
				r.task("nobody", "train", "") // a2 is not there
				r.pass(60 * time.Second)
				if got := lines(r.log.String()[before:]); got != want {
					t.Errorf("lines %q, want %q:\n%s", got, want, r.log.String()[before:])
				}
			})
		})
	}
	// What goes well is no failure.
	inRig(t, fleet+"log: {tasks: failures}\n", func(r *rig) {
		w := r.worker("a1", true)
		r.task("t", "build", "")
		w.finish("succeeded", "")
		if got := lines(r.log.String()); got != "" {
			t.Errorf("lines %q of a task that succeeded", got)
		}
	})
}

// The line of a task that is overdue names its agent.
func TestOverdueNamesItsAgent(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		w := r.worker("a1", true)
		r.task("t", "build", `,"timeout_seconds":1`)
		w.report("t")
		r.pass(5 * time.Second)
		if !strings.Contains(r.log.String(), `"task_id":"t","agent_id":"a1","reason_code":"task_timeout"`) {
			t.Errorf("the line has no agent_id:\n%s", r.log)
		}
		if n := scraped(t,
			r.service.options.Registry)[`taskbus_agent_results_total{agent_id="a1",outcome="timed_out"}`]; n != 1 {
			t.Errorf("%v time-outs counted for the agent, want 1", n)
		}
	})
}

// agentCountsOf are counts for so many agents, and what a scrape finds.
type agentCountsOf struct {
	*agentCounts
	at   time.Time
	most int
}

func newAgentCountsOf(most int) *agentCountsOf {
	c := &agentCountsOf{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), most: most}
	c.agentCounts = newAgentCounts(func() time.Time { return c.at }, func() int { return c.most })
	return c
}

// scrape gives failed results and ejections, by agent.
func (c *agentCountsOf) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(c.agentCounts); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			if name, l := f.GetName(), m.Label; name == "taskbus_agent_ejections_total" || l[1].GetValue() == "failed" {
				found[l[0].GetValue()] += m.Counter.GetValue()
			}
		}
	}
	return found
}

func (c *agentCountsOf) fails(id string, times int) {
	for range times {
		c.result(coordinator.AgentID(id), coordinator.OutcomeFailed, true)
	}
}

// The agents that fail have series of their own, however many others there are.
func TestFailingAgentsHaveSeriesOfTheirOwn(t *testing.T) {
	c := newAgentCountsOf(2)
	c.came("quiet-1")
	c.came("quiet-2")
	c.result("quiet-3", coordinator.OutcomeFailed, false) // by its own word no fault of the agent's
	expect := func(when string, want map[string]float64) {
		t.Helper()
		if got := c.scrape(t); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("no trouble yet", map[string]float64{"quiet-1": 0, "quiet-2": 0, "other": 1})
	c.fails("bad", 3)
	expect("one fails", map[string]float64{"quiet-1": 0, "bad": 3, "other": 1})
	c.ejected("worse")
	expect("another is ejected", map[string]float64{"worse": 1, "bad": 3, "other": 1})
	// 2 are no more than twice the 1 of worse; with the 3rd it is, and has its series from there on.
	c.fails("third", 3)
	expect("a third fails more", map[string]float64{"third": 1, "bad": 3, "other": 3})
	// What comes under other never becomes less: worse is there with what it does from now on.
	c.fails("worse", 1)
	expect("the ejected one again", map[string]float64{"third": 1, "bad": 3, "other": 4})
	// An hour later, 2⁻⁶ of all that is left, a few failures count more.
	c.at = c.at.Add(time.Hour)
	c.fails("new", 1)
	expect("an hour later", map[string]float64{"new": 1, "bad": 3, "other": 4})
	c.most = 1
	c.fails("new", 1)
	expect("a reload that leaves one", map[string]float64{"new": 2, "other": 4})
	c.most = 0
	c.fails("new", 1)
	expect("a reload that leaves none", map[string]float64{"other": 5})
	c.most = 2
	c.fails("other", 1) // an agent of that name
	expect("an agent called other", map[string]float64{"other": 6})
}

// However large the fleet is, what is known of it is bounded.
func TestAgentCountsAreBounded(t *testing.T) {
	c := newAgentCountsOf(50)
	for i := range 3 * mostTroubled {
		c.at = c.at.Add(time.Second)
		c.fails(fmt.Sprint("a", i), 1)
	}
	if len(c.own) != 50 || len(c.rest) > mostTroubled {
		t.Errorf("%d with series, %d without", len(c.own), len(c.rest))
	}
	if n := len(c.scrape(t)); n != 51 { // and other
		t.Errorf("%d agent_id, want 51", n)
	}
}
