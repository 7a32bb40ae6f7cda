package integration

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// detour is a way to publish by a key that the permissions of deploy/rabbitmq/definitions.json do not
// give a user. It returns the broker's refusal.
type detour struct {
	name string
	do   func(ch *amqp.Channel, user, key string, msg amqp.Publishing) error
}

// copied publishes by a key that is allowed, with another in a header that RabbitMQ copies by.
func copied(header, exchange, allowed string) detour {
	return detour{name: header, do: func(ch *amqp.Channel, user, key string, msg amqp.Publishing) error {
		msg.Headers = amqp.Table{header: []any{key}}
		return confirmed(ch, exchange, fmt.Sprintf(allowed, user), msg)
	}}
}

// through are the ways by an exchange that has the name of the agent's control queue, and by that queue.
func through(target string) []detour {
	control := func(user string) string { return "agent." + user + ".control" }
	fresh := func(ch *amqp.Channel, user string, args amqp.Table) error {
		if err := ch.ExchangeDelete(control(user), false, false); err != nil {
			return err
		}
		return ch.ExchangeDeclare(control(user), "topic", false, false, false, false, args)
	}
	return []detour{
		{"an exchange bound to " + target, func(ch *amqp.Channel, user, key string, msg amqp.Publishing) error {
			if err := fresh(ch, user, nil); err != nil {
				return err
			}
			if err := ch.ExchangeBind(target, "#", control(user), false, nil); err != nil {
				return err
			}
			return confirmed(ch, control(user), key, msg)
		}},
		{"an exchange whose alternate is " + target, func(ch *amqp.Channel, user, key string, msg amqp.Publishing) error {
			if err := fresh(ch, user, amqp.Table{"alternate-exchange": target}); err != nil {
				return err
			}
			return confirmed(ch, control(user), key, msg)
		}},
		{"dead letters of a queue to " + target, func(ch *amqp.Channel, user, key string, msg amqp.Publishing) error {
			if _, err := ch.QueueDelete(control(user), false, false, false); err != nil {
				return err
			}
			if _, err := ch.QueueDeclare(control(user), false, true, true, false, amqp.Table{
				"x-dead-letter-exchange": target, "x-dead-letter-routing-key": key, "x-message-ttl": 0,
			}); err != nil {
				return err
			}
			if err := fresh(ch, user, nil); err != nil {
				return err
			}
			if err := ch.QueueBind(control(user), "#", control(user), false, nil); err != nil {
				return err
			}
			return confirmed(ch, control(user), key, msg)
		}},
	}
}

// confirmed publishes, and waits for the broker's confirm or refusal.
func confirmed(ch *amqp.Channel, exchange, key string, msg amqp.Publishing) error {
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	w, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, msg)
	if err != nil {
		return err
	}
	select {
	case <-w.Done():
		if w.Acked() {
			return nil
		}
		return <-closed
	case err := <-closed:
		return err
	case <-time.After(patience):
		return errors.New("no confirm")
	}
}

// tryAll takes every detour with every lie, with the user's name in the message and without, and
// returns how many the broker has taken. What it does not take it must refuse with 403; with refused, all.
func tryAll(t *testing.T, b brokertest.Broker, user string, ways []detour, lies map[string]amqp.Publishing,
	refused bool) (taken int) {
	t.Helper()
	conn := b.Dial(t)
	defer conn.CloseDeadline(time.Now().Add(patience))
	for _, way := range ways {
		for key, lie := range lies {
			for _, name := range []string{"", user} {
				ch, err := conn.Channel()
				if err == nil {
					err = ch.Confirm(false)
				}
				if err != nil {
					t.Fatal(err)
				}
				lie.UserId = name
				err = way.do(ch, user, key, lie)
				_ = ch.Close() // the broker may have closed it
				var refusal *amqp.Error
				switch forbidden := errors.As(err, &refusal) && refusal.Code == amqp.AccessRefused; {
				case refused && !forbidden:
					t.Errorf("%s, key %s: %v, want 403", way.name, key, err)
				case !forbidden && err != nil:
					t.Errorf("%s, key %s: %v", way.name, key, err)
				case err == nil:
					taken++
				}
			}
		}
	}
	return taken
}

// TestDetours: users with the permissions of deploy/rabbitmq/definitions.json neither give tasks nor speak
// for others, by whatever way around their keys RabbitMQ leaves open. What needs an exchange or a
// queue of the user's own is tried with agents.auth strict: without it the key vouches for the sender, and
// such an exchange takes any.
func TestDetours(t *testing.T) {
	for _, auth := range []string{"off", "strict"} {
		t.Run("auth "+auth, func(t *testing.T) {
			t.Parallel()
			vhost := brokertest.Vhost(t)
			suffix := vhost.VHost[len(vhost.VHost)-8:]
			thief, victim, producer := "thief-"+suffix, "victim-"+suffix, "producer-"+suffix
			r := rigOn(t, vhost, replaced(t, replaced(t, pair(t), "  a1:", "  auth: "+auth+"\n  "+thief+":"), "  a2:",
				"  "+victim+":"))
			b := r.open()
			c := r.launch(r.deployed("taskbus", "taskbus-"+suffix).URL)
			c.awaitReady()
			worker := r.agentAt(r.deployed("a1", victim).URL, b, agentSpec{ID: victim, Slots: 2})
			c.awaitEligible(victim)
			b.offer(r.client, task("t-held", "build").doing(deedHold))
			held := b.runs(t, "t-held", 1)
			c.awaitWorking(victim)

			says := func(agent, status string) amqp.Publishing {
				h := beat(agent, 0, 2)
				h.Status = status
				return h.message()
			}
			forged := task("t-forged", "build").message()
			lies := map[string]amqp.Publishing{
				bus.QueueAssign:                 forged,
				bus.QueueAssignHigh:             forged,
				bus.StreamStatus + "." + victim: says(victim, "offline"),
				bus.StreamResult + "." + victim: (&hand{id: victim}).result("t-held", held.dispatchID, "failed").message(),
				bus.QueueRequest + "." + producer: {
					Body: []byte(`{"message_type":"task.cancel","task_id":"t-held","reason":"forged"}`)},
			}
			asThief, asProducer := r.deployed("a1", thief), r.deployed("producer", producer)
			ways := []detour{copied("CC", bus.ExchangeAgents, "agent.status.%s"),
				copied("BCC", bus.ExchangeAgents, "agent.status.%s")}
			if auth == "strict" {
				ways = append(ways, through(bus.ExchangeAgents)...)
			}
			taken := tryAll(t, asThief, thief, ways, lies, false)
			tryAll(t, asThief, thief, append(through(bus.ExchangeIn), through("amq.topic")...), lies, true)
			delete(lies, bus.QueueRequest+"."+producer) // that is its own
			delete(lies, bus.QueueAssign)
			delete(lies, bus.QueueAssignHigh)
			taken += tryAll(t, asProducer, producer, []detour{copied("CC", bus.ExchangeIn, "task.request.%s"),
				copied("BCC", bus.ExchangeIn, "task.request.%s")}, lies, false)
			if taken == 0 && auth == "strict" { // newer brokers compare CC and BCC with the rights of topics, too
				t.Fatal("no detour is open: this test tries nothing")
			}

			// What follows in each stream and queue shows that all before it has been read.
			gone := says(thief, "offline")
			gone.UserId = thief
			asThief.Publish(t, bus.ExchangeAgents, "agent.status."+thief, gone)
			c.awaitAgent(thief, "speaks for itself", func(a view.Agent) bool { return a.State == "offline" })
			b.offer(r.client, task("t-last", "build"))
			if e := b.end(t, "t-last"); e.What != "succeeded" || e.Agent != victim {
				t.Errorf("t-last: %+v", e)
			}
			if code, body := c.get("/tasks/t-forged"); code != http.StatusNotFound {
				t.Errorf("the forged task: %d %s", code, body)
			}
			if by := b.begunBy("t-held"); len(by) != 1 {
				t.Errorf("t-held was begun by %v, want once", by)
			}
			asProducer.Publish(t, bus.ExchangeIn, "task.request."+producer, amqp.Publishing{
				UserId: producer, Body: []byte(
					`{"message_type": "task.cancel", "task_id": "t-held", "reason": "its own producer's"}`)})
			if e := b.end(t, "t-held"); e.What != "cancelled" || !e.ByAgent {
				t.Errorf("t-held: %+v", e)
			}
			worker.retire()
			c.stop()
		})
	}
}
