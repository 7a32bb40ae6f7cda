package integration

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
)

// diagnosis is one line of taskbus doctor.
type diagnosis struct{ Check, State, Text, Advice string }

// doctor runs `taskbus doctor` against a broker and gives its exit code and its lines.
func (r *rig) doctor(brokerURL, coordinator string) (code int, found []diagnosis) {
	r.t.Helper()
	cmd := exec.Command(program, "doctor", "--config", r.config, "--url", coordinator, "--listen", "1s", "-o", "json")
	cmd.Env = []string{"RABBITMQ_URL=" + brokerURL, "PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), raceOptions}
	out, err := cmd.Output()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		r.t.Fatalf("run taskbus doctor: %v", err)
	}
	if password := passwordOf(brokerURL); strings.Contains(string(out), password) {
		r.t.Errorf("taskbus doctor prints the password: %s", out)
	}
	var report struct{ Checks []diagnosis }
	if err := json.Unmarshal(out, &report); err != nil {
		r.t.Fatalf("taskbus doctor: %v: %s", err, out)
	}
	return cmd.ProcessState.ExitCode(), report.Checks
}

// wants fails the test unless one line is of this state and says this, and the exit
// code is that.
func wants(t *testing.T, code int, found []diagnosis, wantCode int, check, state, says string) {
	t.Helper()
	if code != wantCode || !slices.ContainsFunc(found, func(d diagnosis) bool {
		return d.Check == check && d.State == state && strings.Contains(d.Text+" → "+d.Advice, says)
	}) {
		t.Errorf("exit code %d, want %d, and a line %s %s …%s…: %+v", code, wantCode, state, check, says, found)
	}
}

const nobody = "http://127.0.0.1:1"

// TestDoctor takes the doctor to brokers in the states that people bring them into.
func TestDoctor(t *testing.T) {
	t.Parallel()

	t.Run("everything works", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: warn\n", 1))
		c := r.start()
		r.online(c, "a1", "a2")
		code, found := r.doctor(r.broker.URL, c.base)
		for check, says := range map[string]string{
			"broker": "connected", "version": "RabbitMQ 3.", "topology": "16 objects", // 10 own queues, 2 agents', 4 exchanges
			"permissions": "has the", "user_id": "the broker takes", "leader": "holds the lock",
			"streams": "agent.status can be read; it ends at",
			"clocks":  "2 agents", "coordinator": "leads and takes tasks", "agents": "2 of 2 agents online",
		} {
			wants(t, code, found, 0, check, "ok", says)
		}
		// no agent speaks French
		if i := slices.IndexFunc(found,
			func(d diagnosis) bool { return d.State != "ok" && d.Check != "configuration" }); i >= 0 {
			t.Errorf("nothing is wrong, and the doctor says %+v", found[i])
		}
	})

	t.Run("an empty broker stays empty", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, fleet)
		for range 2 {
			code, found := r.doctor(r.broker.URL, nobody)
			wants(t, code, found, 0, "topology", "warning", "missing: taskbus taskbus.agents taskbus.events")
			wants(t, code, found, 0, "leader", "warning", "no coordinator leads")
			wants(t, code, found, 0, "permissions", "ok", "has the")
		}
	})

	t.Run("queues of another kind came first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, fleet)
		r.broker.DeclareQueue(t, bus.QueueAssign, nil)
		r.broker.DeclareQueue(t, bus.StreamJournal, nil)
		r.broker.DeclareExchange(t, bus.ExchangeEvents, "direct")
		code, found := r.doctor(r.broker.URL, nobody)
		wants(t, code, found, 1, "topology", "warning", "task.assign exists as a plain durable queue")
		wants(t, code, found, 1, "topology", "problem", "coordinator.journal exists as a plain durable queue")
		wants(t, code, found, 1, "topology", "warning", "taskbus.events exists with other settings")
		wants(t, code, found, 1, "streams", "skipped", "coordinator.journal is not read")
	})

	t.Run("permissions are missing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, fleet)
		c := r.start()
		name := "doctor-" + r.broker.VHost
		user := r.broker.AddUser(t, name)
		for _, tc := range []struct{ configure, write, read, says string }{
			{"", "", "", "lacks configure on"},
			{".*", ".*", `^task\.`, "lacks read on agent.status coordinator.journal"},
			{".*", `^task\.`, ".*", "lacks write on taskbus.events taskbus.control amq.default"},
			{`^task\.`, ".*", ".*", "lacks configure on assignment.failed agent.status"},
		} {
			r.broker.SetPermissions(t, name, tc.configure, tc.write, tc.read)
			code, found := r.doctor(user.URL, c.base)
			wants(t, code, found, 1, "permissions", "problem", "user "+name+" "+tc.says)
		}
		r.broker.SetPermissions(t, name, ".*", ".*", ".*")
		code, found := r.doctor(user.URL, c.base)
		wants(t, code, found, 1, "permissions", "ok", "has the") // 1: no agent is online
	})

	t.Run("no way in", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, fleet)
		code, found := r.doctor(r.broker.As(t, "doctor-nobody", "wrong-password").URL, nobody)
		wants(t, code, found, 1, "broker", "problem", "authenticate_user doctor-nobody")
		code, found = r.doctor(r.broker.In(t, "nowhere").URL, nobody)
		wants(t, code, found, 1, "broker", "problem", "list_vhosts")
		code, found = r.doctor("amqp://u:a-password@127.0.0.1:1/", nobody)
		wants(t, code, found, 1, "broker", "problem", "connection refused")
	})
}
