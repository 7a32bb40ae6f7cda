package tests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
	"taskbus/tests/support/brokertest"
)

// TestDefinitionsOnABroker starts a node with the configuration that
// deploy/README.md describes and tries what each user may and may not do. The
// permissions are what stands between one agent and another's work.
func TestDefinitionsOnABroker(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs("../deploy/rabbitmq/definitions.json")
	if err != nil {
		t.Fatal(err)
	}
	load := strings.Replace(projectFile(t, "deploy/rabbitmq/definitions.conf"), "/etc/rabbitmq/taskbus-definitions.json",
		path, 1)
	node := brokertest.Private(t, brokertest.Options{Conf: projectFile(t, "deploy/rabbitmq/rabbitmq.conf") + load})
	vhost := node.In(t, "taskbus")
	as := func(user string) brokertest.Broker { return vhost.As(t, user, user+"-change-me") }

	t.Run("taskbus finds its topology as it wants it", func(t *testing.T) {
		b := amqpbus.New(amqpbus.Config{URL: as("taskbus").URL, Logger: zerolog.Nop()})
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// agent.b1 is not in the definitions: taskbus may declare it.
		session, err := b.Open(ctx, bus.SessionSpec{
			Name:     "deploy-test",
			Topology: bus.Standard(bus.Declare, bus.ProfileQuorum, []string{"agent.a1", "agent.b1"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := session.TakeLock(ctx, bus.QueueLeader, nil); err != nil {
			t.Error(err)
		}
		for _, f := range session.Findings() {
			t.Errorf("%s: %s", f.Object, f.Text)
		}
		if err := session.Close(ctx); err != nil {
			t.Error(err)
		}
	})

	t.Run("an agent with the SDK works as a1", func(t *testing.T) { worksAsA1(t, as("a1"), as("taskbus")) })

	for _, c := range []struct {
		name, user string
		do         func(*amqp.Channel) error
		allowed    bool
	}{
		{"taskbus dispatches to an agent's queue", "taskbus", publishTo("", "agent.a1"), true},
		{"taskbus announces", "taskbus", publishTo("taskbus.events", "assignment.failed.no_agents_online"), true},
		{"taskbus reads tasks", "taskbus", consume("task.assign"), true},
		{"taskbus declares no other names", "taskbus", declare("payments"), false},

		{"a1 reads its queue", "a1", consume("agent.a1"), true},
		{"a1 reports itself", "a1", publishTo("taskbus.agents", "agent.status.a1"), true},
		{"a1 reports its results", "a1", publishTo("taskbus.agents", "task.result.a1"), true},
		{"a1 listens for what concerns it", "a1", bindControl("agent.a1.control", "a1"), true},
		{"a1 does not speak for a2", "a1", publishTo("taskbus.agents", "agent.status.a2"), false},
		{"a1 reports no results of a2", "a1", publishTo("taskbus.agents", "task.result.a2"), false},
		{"a1 reports its progress", "a1", publishTo("taskbus.agents", "task.progress.a1"), true},
		{"a1 reports no progress of a2", "a1", publishTo("taskbus.agents", "task.progress.a2"), false},
		{"a1 assigns no tasks", "a1", publishTo("taskbus", "task.assign"), false},
		{"a1 assigns no tasks by its own exchange", "a1", publishTo("taskbus.agents", "task.assign"), false},
		{"a1 bids and claims", "a1", publishTo("taskbus.agents", "task.request.a1"), true},
		{"a1 asks under its own name only", "a1", publishTo("taskbus.agents", "task.request.producer"), false},
		{"a1 writes to no queue directly", "a1", publishTo("", "agent.status"), false},
		{"a1 announces nothing", "a1", publishTo("taskbus.events", "assignment.failed.x"), false},
		{"a1 does not read b1's queue", "a1", consume("agent.b1"), false},
		{"a1 does not read the reports of others", "a1", consume("agent.status"), false},
		{"a1 declares no queue of another's", "a1", bindControl("agent.b1.control", "b1"), false},
		{"a1 deletes nothing, not even its queue", "a1", deleteQueue("agent.a1"), false},

		{"a producer submits", "producer", publishTo("taskbus", "task.assign"), true},
		{"a producer submits what must not wait", "producer", publishTo("taskbus", "task.assign.high"), true},
		{"a producer withdraws a task", "producer", publishTo("taskbus", "task.request.producer"), true},
		{"a producer asks under its own name only", "producer", publishTo("taskbus", "task.request.a1"), false},
		{"a producer knows no other lanes", "producer", publishTo("taskbus", "task.assign.higher"), false},
		{"a producer reports no results", "producer", publishTo("taskbus", "task.result.a1"), false},
		{"a producer reads failures", "producer", consume("assignment.failed"), true},
		{"a producer does not pose as an agent", "producer", publishTo("taskbus", "agent.status.producer"), false},
		{"a producer writes to no queue directly", "producer", publishTo("", "task.assign"), false},
		{"a producer does not take tasks", "producer", consume("task.assign"), false},
		{"a producer declares no queue of Taskbus's", "producer", declare("task.mine"), false},
		{"a producer declares its queues for answers", "producer", declare("answers.producer.1"), true},
		{"a producer reads its answers", "producer", consume("answers.producer.1"), true},
		{"a producer is answered without a queue", "producer", consumeDirectly, true},
		{"a producer declares no other's queue for answers", "producer", declare("answers.other.1"), false},
		{"a producer reads no other's answers", "producer", consume("answers.other.1"), false},
		{"a producer answers nothing", "producer", publishTo("", "answers.producer.1"), false},

		// RabbitMQ shows the queues of a virtual host only to users with
		// permissions there; the monitor's match nothing.
		{"the monitor takes no tasks", "taskbus-monitor", consume("task.assign"), false},
		{"the monitor publishes nothing", "taskbus-monitor", publishTo("taskbus", "task.assign"), false},
		{"the monitor writes to no queue directly", "taskbus-monitor", publishTo("", "task.assign"), false},
		{"the monitor declares nothing", "taskbus-monitor", declare("task.mine"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := as(c.user).Dial(t)
			defer conn.CloseDeadline(time.Now().Add(10 * time.Second))
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			err = c.do(ch)
			var refusal *amqp.Error
			refused := errors.As(err, &refusal) && refusal.Code == amqp.AccessRefused
			if c.allowed && err != nil {
				t.Errorf("refused: %v", err)
			}
			if !c.allowed && !refused {
				t.Errorf("not refused; the broker answered: %v", err)
			}
		})
	}

	t.Run("definitions are restored", func(t *testing.T) { restoresDefinitions(t, node, vhost) })

	t.Run("taskbus-monitor reads and changes nothing", func(t *testing.T) {
		for _, c := range []struct {
			method, path, body string
			want               int
		}{
			{http.MethodGet, "/api/queues/taskbus/task.assign", "", http.StatusOK},
			{http.MethodGet, "/api/overview", "", http.StatusOK},
			{http.MethodPut, "/api/queues/taskbus/mine", `{"durable":true}`, http.StatusUnauthorized},
			{http.MethodDelete, "/api/queues/taskbus/task.assign", "", http.StatusUnauthorized},
			{http.MethodPost, "/api/queues/taskbus/task.assign/get",
				`{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, http.StatusUnauthorized},
		} {
			req, err := http.NewRequest(c.method, node.Mgmt+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("taskbus-monitor", "taskbus-monitor-change-me")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s %s: %s, want %d", c.method, c.path, resp.Status, c.want)
			}
		}
	})
}

// restoresDefinitions exports the definitions of a node, changes the password of a user and deletes a queue,
// as on another broker that has users of its own, and restores them as deploy/README.md says.
func restoresDefinitions(t *testing.T, node *brokertest.Node, vhost brokertest.Broker) {
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("%v (Debian: apt-get install python3)", err)
	}
	readme := projectFile(t, "deploy/README.md")
	strip := regexp.MustCompile(`(?m)^python3 (-c '.*') < old\.json > without-users\.json$`).FindStringSubmatch(readme)
	if strip == nil {
		t.Fatal("deploy/README.md does not say how users are left out")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	// as connects as the producer; false if the password is not this one.
	as := func(password string, do func(*amqp.Channel) error) bool {
		conn, err := amqp.Dial(vhost.As(t, "producer", password).URL)
		if err != nil {
			return false
		}
		defer conn.CloseDeadline(time.Now().Add(10 * time.Second))
		ch, err := conn.Channel()
		if err == nil {
			err = do(ch)
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	look := consume("assignment.failed")

	node.Ctl(t, "add_user", "admin", "admin-of-the-old")
	node.Ctl(t, "set_user_tags", "admin", "administrator")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, node.Mgmt+"/api/definitions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "admin-of-the-old")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("export: %s, %v", resp.Status, err)
	}
	if err := os.WriteFile(file("old.json"), exported, 0o600); err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", python+" "+strip[1]+" < old.json > without-users.json")
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	node.Ctl(t, "change_password", "producer", "of-the-new-broker")
	node.Ctl(t, "delete_queue", "-p", vhost.VHost, "assignment.failed")

	node.Ctl(t, "import_definitions", file("without-users.json"))
	if !as("of-the-new-broker", look) { // and the queue is there again
		t.Error("the password of the new broker's user is no longer what it was")
	}

	// All of it, users too: the trap that the page warns of.
	node.Ctl(t, "import_definitions", file("old.json"))
	if as("of-the-new-broker", look) || !as("producer-change-me", look) {
		t.Error("importing everything leaves passwords alone: the page is wrong about that")
	}
}

// worksAsA1 has the SDK do what it does for a living: hear of a task, report how it
// ended, acknowledge, and do without warnings.
func worksAsA1(t *testing.T, a1, taskbus brokertest.Broker) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	session, err := amqpbus.New(amqpbus.Config{URL: taskbus.URL, Logger: zerolog.Nop()}).Open(ctx, bus.SessionSpec{
		Name: "deploy-test", Topology: bus.Topology{Mode: bus.Off}, OnSettled: func(uint64, bus.Outcome) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	ended := make(chan string, 10)
	err = session.Subscribe(ctx, bus.Subscription{Queue: bus.StreamResult, Prefetch: 10, Handle: func(d bus.Delivery) {
		session.Ack(d.Tag)
		ended <- d.UserID + " " + d.RoutingKey + " " + d.MessageID
	}})
	if err != nil {
		t.Fatal(err)
	}

	var warnings bytes.Buffer // read when the agent has stopped
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- agent.Run(working, agent.Config{ID: "a1", URL: a1.URL,
			Logger: slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))},
			func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, nil })
	}()
	err = session.Publish(bus.Publication{Key: "agent.a1", Body: messages.AppendDispatch(nil, &coordinator.Dispatch{
		Task:  &coordinator.Task{ID: "t-1", Type: "sum", Carried: coordinator.Carried{CorrelationID: "trace-1"}},
		Agent: "a1", Queue: "agent.a1", DispatchID: "t-1.1", Attempt: 1, Timeout: time.Minute, At: time.Now(),
	}, []byte(`{}`))})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-ended:
		if want := "a1 task.result.a1 t-1.1"; got != want {
			t.Errorf("the result came as %q, want %q", got, want)
		}
	case <-ctx.Done():
		t.Error("no result")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left, err := session.Depth(ctx, "agent.a1"); err != nil || left.Ready != 0 {
		t.Errorf("its queue: %+v, %v; want nothing left", left, err)
	}
	if warnings.Len() != 0 {
		t.Errorf("the agent warns:\n%s", &warnings)
	}
}

// publishTo publishes one confirmed, mandatory message. A refusal comes as a
// closed channel, and so before the confirm.
func publishTo(exchange, key string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{Body: []byte("{}")})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if ok, err := confirm.WaitContext(ctx); err != nil || ok {
			return err
		}
		select {
		case reason := <-closed:
			return reason
		case <-ctx.Done():
			return errors.New("the broker nacked the message")
		}
	}
}

// consume starts a consumer that takes nothing: its channel is closed at once.
func consume(queue string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		if err := ch.Qos(1, 0, false); err != nil {
			return err
		}
		_, err := ch.Consume(queue, "", false, false, false, false, nil)
		return err
	}
}

// consumeDirectly asks for answers without a queue.
func consumeDirectly(ch *amqp.Channel) error {
	_, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	return err
}

func declare(queue string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	}
}

func bindControl(queue, key string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, false, true, true, false, nil); err != nil {
			return err
		}
		return ch.QueueBind(queue, key, bus.ExchangeControl, false, nil)
	}
}

func deleteQueue(queue string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	}
}
