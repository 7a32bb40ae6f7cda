package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/coordinator/journal"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
	"taskbus/tests/support/membus"
)

// clinic is a rig for the doctor: a broker in memory that says what it is told to say
// of itself and of permissions, and lets itself be declared first.
type clinic struct {
	*clitest.Rig
	broker *knownBroker
}

// knownBroker is a bus with sessions that introduce themselves as RabbitMQ.
type knownBroker struct {
	*membus.Broker
	says   bus.Broker
	grants func(amqpbus.Access) amqpbus.Grant
	// alarm: as at RabbitMQ it holds up a connection after the first message of it.
	alarm bool
}

type knownSession struct {
	bus.Session
	says bus.Broker
}

func (s knownSession) Broker() bus.Broker { return s.says }

func (b *knownBroker) Open(ctx context.Context, spec bus.SessionSpec) (bus.Session, error) {
	if settled := spec.OnSettled; b.alarm && settled != nil {
		spec.OnSettled = func(token uint64, o bus.Outcome) {
			b.Block(true)
			settled(token, o)
		}
	}
	s, err := b.Broker.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return knownSession{s, b.says}, nil
}

func (b *knownBroker) Probe(_ context.Context, _ string, want []amqpbus.Access) ([]amqpbus.Grant, error) {
	all := make([]amqpbus.Grant, len(want))
	for i, a := range want {
		all[i] = b.grants(a)
	}
	return all, nil
}

// InTime runs a test in virtual time: the doctor listens, and nothing is to be heard.
func inTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func newClinic(t *testing.T) *clinic {
	t.Helper()
	r := newRig()
	c := &clinic{r, &knownBroker{Broker: r.Broker, says: bus.Broker{Product: "RabbitMQ", Version: "3.10.8"},
		grants: func(amqpbus.Access) amqpbus.Grant { return amqpbus.Granted }}}
	r.OpenBus = func(string, zerolog.Logger) bus.Bus { return c.broker }
	r.Env["RABBITMQ_URL"] = "amqp://tac:secret@rabbit:5672/"
	r.Env["TASKBUS_HTTP_URL"] = "http://127.0.0.1:1"
	r.Broker.SetUser("tac")
	return c
}

// declare makes the topology of the test's agents.yaml.
func (c *clinic) declare(t *testing.T) {
	t.Helper()
	if code := c.Run(t, "topology", "apply", "--config", "testdata/agents.yaml"); code != cli.ExitOK {
		t.Fatal(c.Err.String())
	}
	c.Out.B.Reset()
}

// examine runs the doctor and reads its report.
func (c *clinic) examine(t *testing.T, code int) (r report) {
	t.Helper()
	c.Out.B.Reset()
	if got := c.Run(t, "doctor", "--config", "testdata/agents.yaml", "--listen", "1ms", "-o", "json"); got != code {
		t.Errorf("exit code %d, want %d; %s", got, code, c.Err.String())
	}
	if err := json.Unmarshal([]byte(c.Out.String()), &r); err != nil {
		t.Fatalf("%v: %s", err, c.Out.String())
	}
	return r
}

// says fails the test unless one line of that check is of that state, and says that.
func (r report) says(t *testing.T, check, state, text string) {
	t.Helper()
	if !slices.ContainsFunc(r.Checks, func(d diagnosis) bool {
		return d.Check == check && d.State == state && strings.Contains(d.Text+" → "+d.Advice, text)
	}) {
		t.Errorf("no line says %s %s …%s…; all of them: %+v", state, check, text, r.Checks)
	}
}

func TestDoctorOutput(t *testing.T) { inTime(t, testDoctorOutput) }

func testDoctorOutput(t *testing.T) {
	c := newClinic(t)
	c.declare(t)
	c.broker.grants = func(a amqpbus.Access) amqpbus.Grant {
		if a.Permission == amqpbus.Read && strings.HasPrefix(a.Object, "agent.") {
			return amqpbus.Denied
		}
		return amqpbus.Granted
	}
	if code := c.Run(t, "doctor", "--config", "testdata/agents.yaml", "--listen", "0s"); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	clitest.Golden(t, "doctor.txt", c.Out.String())
}

// A broker on which nothing has ever happened is in order: a coordinator makes it what
// it needs.
func TestDoctorOfAnEmptyBroker(t *testing.T) { inTime(t, testDoctorOfAnEmptyBroker) }

func testDoctorOfAnEmptyBroker(t *testing.T) {
	c := newClinic(t)
	r := c.examine(t, cli.ExitOK)
	r.says(t, "broker", checkOK, "connected")
	r.says(t, "topology", checkWarning, "missing: taskbus ")
	r.says(t, "leader", checkWarning, "taskbus serve")
	r.says(t, "coordinator", checkWarning, "is it running")
	if r = c.examine(t, cli.ExitOK); slices.ContainsFunc(r.Checks, func(d diagnosis) bool {
		return d.Check == "topology" &&
			d.State == checkOK
	}) {
		t.Errorf("the doctor has declared something: %+v", r.Checks)
	}
}

func TestDoctorLooksAtTheBroker(t *testing.T) {
	for _, tc := range []struct {
		name               string
		sick               func(c *clinic)
		code               int
		check, state, says string
	}{
		// 9 own queues, 3 agents', 4 exchanges
		{"nothing is wrong", func(*clinic) {}, cli.ExitOK, "topology", checkOK, "17 objects"},
		{"a wrong password", func(c *clinic) { c.broker.SetOpenError(bus.ErrLogin) }, cli.ExitFailed, "broker", checkProblem,
			"authenticate_user tac"},
		{"no such virtual host", func(c *clinic) { c.broker.SetOpenError(bus.ErrAccess) }, cli.ExitFailed, "broker",
			checkProblem,
			"list_vhosts"},
		{"the broker is down", func(c *clinic) { c.broker.SetOpenError(errors.New("connection refused")) }, cli.ExitFailed,
			"broker", checkProblem, "check_running"},
		{"a URL that is none", func(c *clinic) { c.Env["RABBITMQ_URL"] = "rabbit" }, cli.ExitFailed, "environment",
			checkProblem,
			"amqp://"},
		{"a release without streams", func(c *clinic) { c.broker.says.Version = "3.8.9" }, cli.ExitFailed, "version",
			checkProblem, "has no streams"},
		{"another product", func(c *clinic) { c.broker.says = bus.Broker{Product: "LavinMQ", Version: "2.0.0"} }, cli.ExitOK,
			"version", checkWarning, "LavinMQ 2.0.0"},
		{"what could not be read", func(c *clinic) { c.put(bus.QueueDead) }, cli.ExitOK, "queues", checkWarning,
			"1 message in task.dead"},
		{"tasks without a consumer", func(c *clinic) { c.put(bus.QueueAssign) }, cli.ExitOK, "queues", checkWarning,
			"1 message in task.assign, without a consumer"},
		{"an agent's queue was deleted", func(c *clinic) { c.broker.DeleteQueue("agent.gpu-1") }, cli.ExitOK, "topology",
			checkWarning, "missing: agent.gpu-1"},
		{"a permission is missing", func(c *clinic) {
			c.broker.grants = func(a amqpbus.Access) amqpbus.Grant {
				return map[bool]amqpbus.Grant{true: amqpbus.Denied, false: amqpbus.Granted}[a.Exchange && a.Object == "" ||
					a.Object == bus.QueueLeader]
			}
		}, cli.ExitFailed, "permissions", checkProblem,
			"configure on coordinator.leader; write on amq.default; read on coordinator.leader"},
		{"a journal that cannot be read", func(c *clinic) { c.put(bus.StreamJournal) }, cli.ExitFailed, "journal",
			checkProblem,
			"offset 0 cannot be read"},
		{"a journal", func(c *clinic) {
			c.putBody(bus.StreamJournal, journal.AppendEpoch(nil,
				journal.Header{Epoch: 7, First: 1, At: clitest.Noon.Add(-time.Minute)},
				journal.Epoch{Nonce: "n"}))
		}, cli.ExitOK, "journal", checkOK, "epoch 7 (epoch), 1m0s old"},
		{"a journal of the future", func(c *clinic) {
			c.putBody(bus.StreamJournal, journal.AppendEpoch(nil,
				journal.Header{Epoch: 7, First: 1, At: clitest.Noon.Add(time.Minute)},
				journal.Epoch{Nonce: "n"}))
		}, cli.ExitOK, "clocks", checkWarning, "1m0s from now"},
		{"an agent whose clock is ahead", func(c *clinic) { c.heartbeat("gpu-1", time.Hour) }, cli.ExitOK, "clocks",
			checkWarning,
			"gpu-1 by 1h0m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				c := newClinic(t)
				c.declare(t)
				tc.sick(c)
				r := c.examine(t, tc.code)
				r.says(t, tc.check, tc.state, tc.says)
				if text := c.Out.String() + c.Err.String(); strings.Contains(text, "secret") {
					t.Errorf("the password is printed: %s", text)
				}
			})
		})
	}
}

func (c *clinic) put(queue string) { c.putBody(queue, []byte("{}")) }

func (c *clinic) putBody(queue string, body []byte) {
	ctx := context.Background()
	done := make(chan struct{}, 1)
	s, err := c.broker.Open(ctx, bus.SessionSpec{Name: "test", Topology: bus.Topology{Mode: bus.Off},
		OnSettled: func(uint64, bus.Outcome) { done <- struct{}{} }})
	if err == nil {
		err = s.Publish(bus.Publication{Key: queue, Body: body})
	}
	if err != nil {
		panic(err) // a test's own mistake
	}
	<-done
	_ = s.Close(ctx)
}

func (c *clinic) heartbeat(agent string, ahead time.Duration) {
	c.putBody(bus.StreamStatus, fmt.Appendf(nil,
		`{"message_type":"agent.status","agent_id":%q,"status":"ready","current_load":0,"active_tasks":0,`+
			`"available_capacity":1,"timestamp":%q}`,
		agent, clitest.Noon.Add(ahead).Format(time.RFC3339)))
}

// In an alarm the broker leaves publishers without an answer. That is what is wrong, not what cannot be
// asked meanwhile.
func TestDoctorInAnAlarm(t *testing.T) { inTime(t, testDoctorInAnAlarm) }

func testDoctorInAnAlarm(t *testing.T) {
	c := newClinic(t)
	c.declare(t)
	c.broker.alarm = true
	began := time.Now()
	r := c.examine(t, cli.ExitFailed)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	r.says(t, "alarms", checkProblem, "short of memory or disk")
	r.says(t, "permissions", checkSkipped, "takes nothing from publishers")
	r.says(t, "topology", checkOK, "17 objects")
	for _, d := range r.Checks {
		if d.State == checkProblem && d.Check != "alarms" {
			t.Errorf("%s: %s is no problem of its own", d.Check, d.Text)
		}
	}
	c.broker.alarm = false
	c.broker.Block(false)
	c.examine(t, cli.ExitOK).says(t, "alarms", checkOK, "takes publications")
}

func TestDoctorFindsAWrongKind(t *testing.T) { inTime(t, testDoctorFindsAWrongKind) }

func testDoctorFindsAWrongKind(t *testing.T) {
	c := newClinic(t)
	s, err := c.broker.Open(t.Context(),
		bus.SessionSpec{Name: "test", Topology: bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{
			{Name: bus.QueueAssign, Kind: bus.Classic}, {Name: bus.StreamJournal, Kind: bus.Classic},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.put(bus.StreamJournal)
	r := c.examine(t, cli.ExitFailed)
	r.says(t, "topology", checkWarning, "task.assign is a classic queue")
	r.says(t, "topology", checkProblem, "coordinator.journal is a classic queue")
	r.says(t, "streams", checkSkipped, "coordinator.journal is not read")
	if n := len(c.broker.Messages(bus.StreamJournal)); n != 1 {
		t.Errorf("%d messages in what is no stream, want the one that was there", n)
	}
}

// The broker's clock is compared with this machine's by what comes while the doctor listens.
func TestDoctorComparesTheBrokersClock(t *testing.T) {
	for _, tc := range []struct {
		ahead       time.Duration // of this machine's clock
		code        int
		state, says string
	}{
		{0, cli.ExitOK, checkOK, "the broker's clock agrees with this machine's"},
		{time.Second, cli.ExitOK, checkOK, "the broker's clock agrees with this machine's"},
		{-10 * time.Second, cli.ExitOK, checkWarning, "the broker's clock is about 10s ahead of this machine's"},
		{10 * time.Second, cli.ExitOK, checkWarning, "the broker's clock is about 9s behind this machine's"},
		{64 * time.Hour, cli.ExitFailed, checkProblem, "behind this machine's"},
		{-64 * time.Hour, cli.ExitFailed, checkProblem, "ahead of this machine's"},
	} {
		inTime(t, func(t *testing.T) {
			c := newClinic(t)
			c.declare(t)
			c.Now = func() time.Time { return time.Now().Add(tc.ahead) }
			go func() {
				time.Sleep(4 * time.Second) // it listens by then
				c.putBody(bus.StreamStatus, []byte("{}"))
			}()
			if code := c.Run(t, "doctor", "--config", "testdata/agents.yaml", "--listen", "10s", "-o", "json"); code != tc.code {
				t.Errorf("%v: exit code %d, want %d", tc.ahead, code, tc.code)
			}
			var r report
			if err := json.Unmarshal([]byte(c.Out.String()), &r); err != nil {
				t.Fatal(err)
			}
			r.says(t, "clocks", tc.state, tc.says)
		})
	}
}

// In the classic profile what agents report lies in plain queues: reading them takes it away.
func TestDoctorLeavesPlainQueuesAlone(t *testing.T) { inTime(t, testDoctorLeavesPlainQueuesAlone) }

func testDoctorLeavesPlainQueuesAlone(t *testing.T) {
	c := newClinic(t)
	if code := c.Run(t, "topology", "apply", "--config", "testdata/classic.yaml"); code != cli.ExitOK {
		t.Fatal(c.Err.String())
	}
	c.heartbeat("gpu-1", time.Hour)
	c.Out.B.Reset()
	if code := c.Run(t, "doctor", "--config", "testdata/classic.yaml", "-o", "json"); code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, c.Out.String())
	}
	var r report
	if err := json.Unmarshal([]byte(c.Out.String()), &r); err != nil {
		t.Fatal(err)
	}
	r.says(t, "streams", checkSkipped, "agent.status is not read")
	r.says(t, "clocks", checkSkipped, "no heartbeats")
	if left := c.broker.Messages(bus.StreamStatus); len(left) != 1 || left[0].Redelivered {
		t.Errorf("%d messages are left, want the one that was there, as it was", len(left))
	}
}

// A file that has a fault does not keep the doctor from looking at the rest.
func TestDoctorWithAFaultyFile(t *testing.T) { inTime(t, testDoctorWithAFaultyFile) }

func testDoctorWithAFaultyFile(t *testing.T) {
	c := newClinic(t)
	if code := c.Run(t, "doctor", "--config", "testdata/faulty.yaml", "-o", "json"); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
	var r report
	if err := json.Unmarshal([]byte(c.Out.String()), &r); err != nil {
		t.Fatal(err)
	}
	r.says(t, "configuration", checkProblem, "taskbus check testdata/faulty.yaml")
	r.says(t, "broker", checkOK, "connected")
}

func TestDoctorJudgesVersions(t *testing.T) {
	cfg := func(set func(*config.Config)) *config.Config {
		c, err := config.Load("testdata/agents.yaml", config.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		set(c)
		return c
	}
	plain := func(*config.Config) {}
	for _, tc := range []struct {
		version string
		set     func(*config.Config)
		want    string // states of version and of long tasks
	}{
		{"3.8.35", plain, "problem"},
		{"3.9.0", plain, "problem"}, // no at-least-once dead-lettering
		{"3.10.0", plain, "ok ok"},
		{"3.10.8", plain, "ok ok"},
		{"3.10.8", func(c *config.Config) { c.BrokerConsumerTimeout = time.Hour }, "ok warning"}, // > 30 min
		{"3.11.14", func(c *config.Config) { c.BrokerConsumerTimeout = time.Hour }, "ok warning"},
		{"3.11.15", func(c *config.Config) { c.BrokerConsumerTimeout = time.Hour }, "ok ok"}, // x-consumer-timeout is heeded
		{"3.13.7", func(c *config.Config) {
			c.BrokerConsumerTimeout, c.Queues = time.Hour, config.QueuesClassic // which have no such argument
		}, "ok warning"},
		{"4.1.0-beta.2", plain, "ok ok"},
		{"4.2.6", plain, "ok ok"},
		{"4.2.6", func(c *config.Config) { c.Topology = config.TopologyVerify }, "warning ok"},
		{"4.3.0", func(c *config.Config) { c.Topology = config.TopologyVerify }, "warning ok"},
		{"4.3.1", func(c *config.Config) { c.Topology = config.TopologyVerify }, "ok ok"},
		{"", plain, "warning"},
		{"4", plain, "warning"},
		{"4.x.1", plain, "warning"},
	} {
		d := doctor{cfg: cfg(tc.set)}
		d.judgeVersion(bus.Broker{Product: "RabbitMQ", Version: tc.version})
		var got []string
		for _, c := range d.report.Checks {
			got = append(got, c.State)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%q: %+v, want %s", tc.version, d.report.Checks, tc.want)
		}
	}
}

func TestDoctorJudgesClocks(t *testing.T) {
	heard := func(delays ...time.Duration) (s sighting) { // as they came
		for _, d := range delays {
			s = s.with(d, true)
		}
		return s
	}
	read := func(delays ...time.Duration) (s sighting) { // out of the past
		for _, d := range delays {
			s = s.with(d, false)
		}
		return s
	}
	const ms, s = time.Millisecond, time.Second
	for _, tc := range []struct {
		name        string
		seen        map[string]sighting
		state, says string
	}{
		{"no agents", nil, checkSkipped, "no agent"},
		{"all in order: the median of 1, 3 and 8 ms is 3, they spread by 7",
			map[string]sighting{"a": heard(3 * ms), "b": heard(9*ms, 8*ms), "c": heard(1 * ms)}, checkOK,
			"3 agents, median 3ms behind this machine's clock, spread 7ms"},
		{"old heartbeats say nothing of a clock that is behind", map[string]sighting{"a": read(60 * s)}, checkOK,
			"no heartbeat of 1 agent comes from the future"},
		{"but much of one that is ahead", map[string]sighting{"a": read(60*s, -30*s), "b": heard(2 * ms), "c": heard(2 * ms)},
			checkWarning, "ahead of it: a by 30s"},
		{"which a later one does not take back", map[string]sighting{"a": read(-30*s).with(5*ms, true), "b": heard(2 * ms)},
			checkWarning, "ahead of it: a by 30s"},
		{"a late heartbeat is late", map[string]sighting{"a": heard(4 * s)}, checkOK, "1 agent"},
		{"behind", map[string]sighting{"a": heard(40 * s), "b": heard(1 * ms), "c": heard(1 * ms)}, checkWarning,
			"behind it: a by 40s"},
		{"most of them ahead by the same: it is ours", map[string]sighting{"a": heard(-40 * s), "b": heard(-41 * s),
			"c": heard(1 * ms)}, checkProblem, "this machine's clock that is wrong"},
		{"most of them behind", map[string]sighting{"a": heard(40 * s), "b": heard(40 * s), "c": heard(40 * s)}, checkProblem,
			"this machine's clock that is wrong"},
		{"of two it is unknown", map[string]sighting{"a": heard(-40 * s), "b": heard(-40 * s)}, checkWarning,
			"ahead of it: a by 40s, b by 40s"},
	} {
		found := judgeClocks(tc.seen)
		if len(found) != 1 || found[0].State != tc.state || !strings.Contains(found[0].Text, tc.says) {
			t.Errorf("%s: %+v, want %s: %s", tc.name, found, tc.state, tc.says)
		}
	}
}

func TestDoctorJudgesTheCoordinator(t *testing.T) {
	active := view.Status{
		Instance: "taskbus@host#1", Version: "1.0", Now: clitest.Noon, Readiness: view.Readiness{State: "active"},
		Config: view.Config{LastReloadOK: true}, Agents: []view.Agent{{ID: "a", State: "online"}},
	}
	for _, tc := range []struct {
		name               string
		set                func(*view.Status)
		check, state, says string
	}{
		{"leads", func(*view.Status) {}, "coordinator", checkOK, "taskbus@host#1 (1.0) leads"},
		{"all are there", func(*view.Status) {}, "agents", checkOK, "1 of 1 agent online"},
		{"stands by", func(s *view.Status) {
			s.Readiness = view.Readiness{State: "standby", Detail: "another leads"}
		}, "coordinator", checkOK, "stands by: another leads"},
		{"blocked", func(s *view.Status) { s.Readiness = view.Readiness{State: "blocked", Detail: "memory"} },
			"coordinator", checkProblem, "alarm"},
		{"connecting", func(s *view.Status) { s.Readiness.State = "connecting" }, "coordinator", checkProblem,
			"is connecting"},
		{"its clock is ahead", func(s *view.Status) { s.Now = clitest.Noon.Add(3 * time.Second) }, "clocks", checkWarning,
			"3s ahead of"},
		{"its clock is behind", func(s *view.Status) { s.Now = clitest.Noon.Add(-3 * time.Second) }, "clocks", checkWarning,
			"3s behind"},
		{"its file is broken", func(s *view.Status) {
			s.Config = view.Config{Path: "x.yaml", LastReloadError: "tabs"}
		}, "coordinator", checkWarning, "tabs"},
		{"its file is valid and not meant", func(s *view.Status) {
			s.Health.Checks = map[string]view.Check{"config": {Status: view.Degraded,
				Detail: "version 1; no agent can serve train"}}
		}, "configuration", checkWarning,
			"that of taskbus@host#1 (1.0) is valid and probably not meant: version 1; no agent can serve train"},
		{"its books do not balance", func(s *view.Status) {
			s.Audit = view.Audit{Violations: 3, Found: []view.Violation{{Invariant: "timers"}, {Invariant: "held"},
				{Invariant: "held"}}}
		}, "audit", checkProblem, "balance: held, timers"},
		{"one agent is away", func(s *view.Status) {
			s.Agents = append(s.Agents, view.Agent{ID: "b", State: "stale"})
		}, "agents", checkWarning, "1 of 2 agents online; not: b (stale)"},
		{"its journal was lost", func(s *view.Status) {
			s.Journal = &view.Journal{Lost: &view.JournalLost{At: clitest.Noon, Evidence: []string{"it has led before"},
				BeginsAnew: []string{"orders"}, Budgets: "they begin at 0"}}
		}, "journal", checkProblem, "although it has led before; begun anew: orders; used budgets: they begin at 0"},
		{"a field is misspelt", func(s *view.Status) {
			s.UnknownFields = []view.UnknownField{{MessageType: "task.assign", Field: "prioritiy",
				DidYouMean: "did you mean priority?", Producer: "shop"}}
		}, "messages", checkWarning, "prioritiy in task.assign of shop (did you mean priority?)"},
		{"no agent is there", func(s *view.Status) { s.Agents = nil }, "agents", checkWarning, "0 of 0 agents"},
	} {
		s := active
		s.Agents = slices.Clone(active.Agents)
		tc.set(&s)
		r := report{Checks: (&doctor{}).judgeCoordinator(&s, clitest.Noon)}
		t.Run(tc.name, func(t *testing.T) { r.says(t, tc.check, tc.state, tc.says) })
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		text string
		want string
	}{
		{"", ""},
		{"one two three", "one two|three"},
		{"  one   two  ", "one two"},
		{"unbreakable", "unbreakable"},
		{"a unbreakable b", "a|unbreakable|b"},
		{"äöü äöü", "äöü äöü"}, // 7 columns, 13 bytes
	} {
		if got := strings.Join(cli.Wrap(tc.text, 7), "|"); got != tc.want {
			t.Errorf("wrap(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
}
