package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator/view"
)

// renamed is fleet with a capability of which the routes do not know yet: no agent can serve train.
var renamed = strings.Replace(fleet, "[go, gpu]", "[go, gpus]", 1)

const unserved = "no agent can serve train: none has all of gpu; its tasks will fail with no_eligible_agents"

func (r *rig) configCheck() view.Check {
	return r.service.Health(context.Background()).Checks["config"]
}

// What taskbus check warns of is said when it comes in force, and stays in /health as long as it is true.
func TestReloadTellsWhatCheckWarnsOf(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if c := r.configCheck(); c.Status != view.Healthy {
			t.Fatalf("before: %+v", c)
		}
		r.service.Reload(parseConfig(t, renamed), nil)
		synctest.Wait()
		if c := r.configCheck(); c.Status != view.Degraded || !strings.Contains(c.Detail, unserved) {
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
		if c := r.configCheck(); c.Status != view.Healthy {
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
		if n := strings.Count(r.log.String(), `"configuration: no agent can serve`); n != 20 {
			t.Errorf("%d lines, want 20", n)
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
		if c := r.configCheck(); c.Status != view.Degraded || !strings.Contains(c.Detail, version) ||
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
			if want == "" && c.Status != view.Healthy {
				t.Errorf("%s: %+v, want it healthy", when, c)
			}
			if want != "" && (c.Status != view.Degraded || !strings.Contains(c.Detail, want)) {
				t.Errorf("%s: %+v, want it degraded with %q", when, c, want)
			}
			if c := first.configCheck(); c.Status != view.Healthy {
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

		q, err := quotas.Parse([]byte("groups: [{id: red}]\n"), "quotas.yaml")
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
		if c := second.configCheck(); c.Status != view.Healthy {
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
