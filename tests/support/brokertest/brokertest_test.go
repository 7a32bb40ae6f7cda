package brokertest_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/tests/support/brokertest"
)

func TestVhostIsFreshAndItsMessagesAreExact(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	if got := b.QueueInfo(t, "work"); got.Exists {
		t.Fatalf("a fresh virtual host has a queue: %+v", got)
	}
	b.DeclareQueue(t, "work", map[string]any{"x-queue-type": "quorum"})
	b.PublishAll(t, "", "work", []amqp.Publishing{{Body: []byte("one")}, {Body: []byte("two")}, {Body: []byte("three")}})
	if got := b.QueueInfo(t, "work"); got.Ready != 3 || got.Type != "quorum" || got.Arguments["x-queue-type"] != "quorum" {
		t.Fatalf("after three confirmed messages: %+v", got)
	}

	got := b.Get(t, "work", 2)
	if len(got) != 2 || string(got[0].Body) != "one" || string(got[1].Body) != "two" {
		t.Fatalf("Get gave %d messages, first %q", len(got), got[0].Body)
	}
	rest := b.Drain(t, "work")
	if len(rest) != 1 || string(rest[0].Body) != "three" || rest[0].Redelivered {
		t.Fatalf("Get(2) of 3 must leave the third untouched; Drain gave %d: %+v", len(rest), rest)
	}

	b.DeleteQueue(t, "work")
	if b.QueueInfo(t, "work").Exists {
		t.Fatal("the queue outlived its deletion")
	}
}

func TestStreamIsReadWithoutTakingFromIt(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	b.DeclareQueue(t, "log", map[string]any{"x-queue-type": "stream"})
	b.DeclareExchange(t, "in", "topic")
	b.Bind(t, "in", "log", "a.#")
	b.Publish(t, "in", "a.b", amqp.Publishing{Body: []byte("x")})
	for range 2 {
		if got := b.ReadStream(t, "log", 1); string(got[0].Body) != "x" {
			t.Fatalf("read %q", got[0].Body)
		}
	}
}

func TestUserMayDoOnlyWhatItIsGiven(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	b.DeclareQueue(t, "work", nil)
	user := b.AddUser(t, "brokertest-reader")
	b.SetPermissions(t, "brokertest-reader", "", "", "^work$")

	ch, err := user.Dial(t).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ch.Get("work", true); err != nil {
		t.Fatalf("reading is allowed: %v", err)
	}
	if _, err := ch.QueueDeclare("other", true, false, false, false, nil); err == nil ||
		err.(*amqp.Error).Code != amqp.AccessRefused {
		t.Fatalf("declaring is not: %v", err)
	}
}

func TestCloseConnectionsReachesYoungOnes(t *testing.T) {
	t.Parallel()
	b := brokertest.Vhost(t)
	closed := b.Dial(t).NotifyClose(make(chan *amqp.Error, 1))
	b.CloseConnections(t)
	if reason := <-closed; reason == nil || reason.Code != amqp.ConnectionForced {
		t.Fatalf("closed with %v, want 320 CONNECTION_FORCED", reason)
	}
}

func TestPrivateNodeSurvivesKillAndRestart(t *testing.T) {
	t.Parallel()
	n := brokertest.Private(t, brokertest.Options{Conf: "channel_max = 77\n"})
	n.DeclareQueue(t, "kept", map[string]any{"x-queue-type": "quorum"})
	n.Restart(t) // see Kill9: the declaration must be on disk
	n.Publish(t, "", "kept", amqp.Publishing{Body: []byte("still here")})
	n.Kill9(t)
	n.Start(t)
	if got := n.Get(t, "kept", 1); string(got[0].Body) != "still here" {
		t.Fatalf("after SIGKILL: %q", got[0].Body)
	}
	if out := n.Ctl(t, "environment"); !strings.Contains(out, "{channel_max,77}") {
		t.Fatal("the configuration given to Private was lost over a start")
	}
}
