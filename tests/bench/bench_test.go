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
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/brokertest"
)

const printed = `goos: linux
cpu: AMD EPYC
rabbitmq: 3.10.8
BenchmarkBroker/assigning/relay-2     	1	10.0 cpu-µs/task	20000 tasks/s
BenchmarkBroker/assigning/taskbus-2   	1	31.0 cpu-µs/task	 9000 tasks/s
BenchmarkBroker/assigning/taskbus#01-2	1	33.0 cpu-µs/task	14000 tasks/s
BenchmarkBroker/assigning/relay#01-2  	1	12.0 cpu-µs/task	20000 tasks/s
BenchmarkCheck-2	1000	200 ns/op	0 B/op	1 allocs/op
BenchmarkApply/agents=100-2	1000	1000 ns/op	600000 decisions/s
BenchmarkBroker/detection/departures-2	1	90 silent-ms
BenchmarkBroker/detection/departures#01-2	1	5001 silent-ms
BenchmarkBroker/cycle/backlog-2	1	3000 tasks/s
`

func TestJudge(t *testing.T) {
	m, err := parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]verdict{
		"assigning/taskbus cpu-µs/task":  {Result: "21 cpu-µs/task", Word: "MISSED"}, // 31-10 and 33-12
		"assigning/taskbus tasks/s":      {Result: "0.57", Word: "PASS"},             // the mean of 0.45 and 0.70
		"Check ns/op":                    {Result: "200 ns/op", Word: "MISSED"},      // it allocates
		"Apply/agents=100 decisions/s":   {Result: "600000 decisions/s", Word: "PASS"},
		"detection/departures silent-ms": {Result: "5001 silent-ms", Word: "MISSED"}, // the slowest
		"cycle/backlog tasks/s":          {Result: "3000 tasks/s"},                   // no target
		"memory/in-flight resident-MiB":  {Word: "not measured"},
	} {
		i := slices.IndexFunc(rows, func(r row) bool { return r.of == of })
		if v := m.judge(rows[i]); v.Result != want.Result || v.Word != want.Word {
			t.Errorf("%s: %q %q (%s), want %q %q", of, v.Result, v.Word, v.Note, want.Result, want.Word)
		}
	}
	var table bytes.Buffer
	if m.Failed = true; m.print(&table, nil) != nil || !strings.Contains(table.String(), "not complete") {
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
			if _, err := config.ParseQuotas([]byte(s.quotas), "quotas.yaml"); err != nil {
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
	refusal := d.DecodeTaskResult(resultOf(agentID(3), dispatch, time.Now()).Body, &m)
	if refusal != nil || string(m.TaskID) != taskID(7) {
		t.Errorf("a result is refused (%v), or of %s", refusal, m.TaskID)
	}
	state := statusOf(agentID(1), "ready", report{active: 1}, time.Now())
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
	if took := e.took[""]; len(took) != 3 || took[1] != 3*time.Second || e.pause != 2*time.Second {
		t.Errorf("times %v, longest pause %s, want 3 s for the second and 2 s", took, e.pause)
	}
	e.hear(taskID(1)+".1.2", at)
	e.hear("other", at)
	if err := e.complete(); err == nil || !strings.Contains(err.Error(), "0 lost, 1 arrived again, 1 messages") {
		t.Errorf("a second copy and another message: %v", err)
	}
}

// Every run empties the broker: one that is in use by others is refused, the benchmark's own is known again.
func TestOwnBroker(t *testing.T) {
	broker := brokertest.Vhost(t)
	if err := caught(func() { own(broker.URL) }); err != nil {
		t.Fatalf("an empty broker is refused: %v", err)
	}
	broker.DeclareQueue(t, bus.QueueAssign, nil)
	if err := caught(func() { own(broker.URL) }); err != nil {
		t.Errorf("its own broker is refused: %v", err)
	}
	broker.DeleteQueue(t, marker)
	err := caught(func() { own(broker.URL) })
	if err == nil || !strings.Contains(err.Error(), "not the benchmark's own") {
		t.Errorf("the broker of others: %v, want a refusal", err)
	}
}

func TestTide(t *testing.T) {
	var m tide
	for _, c := range [][2]uint64{{2, 0}, {3, 0}, {1, 3}, {5, 3}, {4, 5}} { // a tag, and up to which all are there then
		if m.add(c[0]); m.upTo != c[1] {
			t.Errorf("after %d all up to %d are there, want %d", c[0], m.upTo, c[1])
		}
	}
}

func TestProc(t *testing.T) {
	state, cpu, err := parseStat("7 (a b) c) T 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20")
	if state != "T" || cpu != 1750*time.Millisecond || err != nil { // (150+25) · 10 ms
		t.Errorf("%s, %s, %v, want T and 1.75 s", state, cpu, err)
	}
	if _, _, err := parseStat("7 (a) T 1"); err == nil {
		t.Error("a line that ends early is no error")
	}
	now, peak, err := parseMemory("Name:\tx\nVmHWM:\t 3072 kB\nVmRSS:\t 2048 kB\n")
	if now != 2 || peak != 3 || err != nil {
		t.Errorf("%v and %v MiB, %v, want 2 and 3", now, peak, err)
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
