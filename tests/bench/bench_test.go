package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/messages"
	"taskbus/schemas"
)

const printed = `goos: linux
cpu: AMD EPYC
rabbitmq: 3.10.8
BenchmarkBroker/assigning/relay-2     	1	10.0 cpu-µs/task	20000 tasks/s
BenchmarkBroker/assigning/taskbus-2   	1	31.0 cpu-µs/task	 9000 tasks/s
BenchmarkBroker/assigning/taskbus#01-2	1	33.0 cpu-µs/task	14000 tasks/s
BenchmarkBroker/assigning/relay#01-2  	1	12.0 cpu-µs/task	20000 tasks/s
BenchmarkApply/agents=100-2	1000	1000 ns/op	600000 decisions/s
BenchmarkBroker/memory/in-flight-2	1	60 resident-MiB
BenchmarkBroker/memory/in-flight#01-2	1	65 resident-MiB
BenchmarkBroker/cycle/backlog-2	1	3000 tasks/s
`

func TestJudge(t *testing.T) {
	m, err := parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string][2]string{
		"assigning/taskbus cpu-µs/task": {"21 (32 and 11 cpu-µs/task), rounds 21 to 21", "MISSED"}, // 31-10 and 33-12
		"assigning/taskbus tasks/s": {"0.575 (11500 and 20000 tasks/s), rounds 0.45 to 0.7",
			"PASS"}, // the mean of 0.45 and 0.70
		"Apply/agents=100 decisions/s":  {"600000 decisions/s", "PASS"},
		"memory/in-flight resident-MiB": {"65 resident-MiB, rounds 60 to 65", "MISSED"}, // the largest
		"cycle/backlog tasks/s":         {"3000 tasks/s", ""},                           // no target
		"start/snapshot ready-ms":       {"", "not measured"},
	} {
		i := slices.IndexFunc(rows, func(r row) bool { return r.of == of })
		if result, verdict := m.judge(rows[i]); result != want[0] || verdict != want[1] {
			t.Errorf("%s: %q %q, want %q", of, result, verdict, want)
		}
	}
	var table bytes.Buffer
	if m.failed = true; m.print(&table) != nil || !strings.Contains(table.String(), "not complete") {
		t.Errorf("the table of a failed run does not say so:\n%s", table.String())
	}
}

// Every row is of a scenario, or of a benchmark that scripts/bench.sh runs; and of a measure that there is.
func TestRowsAreMeasured(t *testing.T) {
	script, err := os.ReadFile("../../scripts/bench.sh")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	run := regexp.MustCompile(`(?m)^\w+ +\./(\S+) +\^(Benchmark\w+)`)
	for _, m := range run.FindAllStringSubmatch(string(script), -1) {
		files, _ := filepath.Glob(filepath.Join("../..", m[1], "*_test.go"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if strings.Contains(string(text), "func "+m[2]+"(") {
				source.WriteString(m[2] + "\n")
			}
		}
	}
	scenario := func(name string) bool {
		is := func(s scenario) bool { return s.name == name }
		return strings.HasPrefix(name, "start/") || slices.ContainsFunc(scenarios, is)
	}
	for _, r := range rows {
		for _, key := range []string{r.of, r.with} {
			name, _, _ := strings.Cut(key, " ")
			benchmark, _, _ := strings.Cut(name, "/")
			if key != "" && !scenario(name) && !strings.Contains(source.String(), "Benchmark"+benchmark+"\n") {
				t.Errorf("%s: nothing measures %q", r.what, key)
			}
		}
	}
}

// What the scenarios are made of is what the service takes, and their tasks have agents.
func TestScenariosAreValid(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	d := messages.NewDecoder(set, messages.DefaultLimits())
	for _, s := range scenarios {
		if s.fleet != "" {
			if _, err := config.Parse([]byte(s.fleet), "agents.yaml"); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		if s.quotas != "" {
			if _, err := quotas.Parse([]byte(s.quotas), "quotas.yaml"); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		make := s.task
		if make == nil {
			make = task
		}
		for n := 0; s.run == nil && n < 200; n++ {
			_, p := make(n)
			m, refusal := d.DecodeTaskAssign(p.Body)
			if refusal != nil {
				t.Fatalf("%s: task %d is refused: %s", s.name, n, refusal.Text)
			}
			if !s.relay && !strings.Contains(s.fleet, "  "+m.TaskType+": {required_capabilities") {
				t.Errorf("%s: no agent is for %s", s.name, m.TaskType)
			}
			if got, ok := taskNumber(string(m.TaskID) + ".1a.2"); !ok || got != n {
				t.Errorf("the number of %s is %d, want %d", m.TaskID, got, n)
			}
		}
	}
	dispatch := amqp.Delivery{MessageId: taskID(7) + ".1a.2", CorrelationId: "c"}
	var m messages.TaskResult
	refusal := d.DecodeTaskResult(resultOf(agentID(3), dispatch, time.Now(), "").Body, &m)
	if refusal != nil || string(m.TaskID) != taskID(7) {
		t.Errorf("a result is refused (%v), or of %s", refusal, m.TaskID)
	}
	state := statusOf(agentID(1), report{active: 1}, time.Now())
	if refusal := d.DecodeAgentStatus(state, new(messages.AgentStatus)); refusal != nil {
		t.Errorf("a status is refused: %s", refusal.Text)
	}
}

func TestEarCounts(t *testing.T) {
	at := time.Unix(100, 0)
	e := newEar(3)
	e.due = func(int) time.Time { return at }
	e.hear(taskID(0)+".1.1", at.Add(time.Second))
	e.hear(taskID(2)+".1.1", at.Add(3*time.Second))
	err := e.complete()
	if err == nil || !strings.Contains(err.Error(), "3 tasks in, 2 out: 1 lost, 0 arrived again, 0 messages") {
		t.Errorf("a task that is lost: %v", err)
	}
	e.hear(taskID(1)+".1.1", at)
	if err := e.complete(); err != nil {
		t.Error(err)
	}
	if took := e.took[""]; len(took) != 3 || took[1] != 3*time.Second {
		t.Errorf("times %v, want 3 s for the second", took)
	}
	e.hear(taskID(1)+".1.2", at)
	e.hear("other", at)
	if err := e.complete(); err == nil || !strings.Contains(err.Error(), "0 lost, 1 arrived again, 1 messages") {
		t.Errorf("a second copy and another message: %v", err)
	}
}

func TestPercentile(t *testing.T) {
	sorted := []int{1, 2, 3, 4}
	for p, want := range map[int]int{1: 1, 25: 1, 26: 2, 50: 2, 99: 4, 100: 4} { // nearest rank: ⌈p·4/100⌉
		if got := percentile(sorted, p); got != want {
			t.Errorf("the %d. percentile of %v is %d, want %d", p, sorted, got, want)
		}
	}
}
