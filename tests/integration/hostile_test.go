package integration

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// invalid is a message that no agent may ever see.
type invalid struct {
	name string
	msg  amqp.Publishing
	// taskID is what its producer can be told about; empty when it cannot be read.
	taskID string
	// reason is a part of the text in assignment.failed and in task.dead.
	reason string
	// noReason: so large that it cannot be published again; the broker moves it to
	// task.dead by the dead-letter rule of task.assign.
	noReason bool
}

// body is a task.assign for the given id with something more in it.
func body(id, more string) string {
	return `{"message_type":"task.assign","task_id":"` + id + `","task_type":"build","payload":{}` + more + `}`
}

func corpus(t *testing.T) []invalid {
	plain := func(s string) amqp.Publishing { return amqp.Publishing{Body: []byte(s)} }
	huge := func(id string, size int) amqp.Publishing {
		text := body(id, `,"x":"`)
		return plain(text + strings.Repeat("x", size-len(text)-2) + `"}`)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(body("zipped", ""))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	keys := make([]string, 51_000) // as many values: more than 100,000 in all
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":0`, i)
	}
	return []invalid{
		{name: "empty", msg: plain(""), reason: "not valid JSON"},
		{name: "null", msg: plain("null"), reason: "expected a JSON object"},
		{name: "text", msg: plain("please assign"), reason: ""},
		{name: "truncated", msg: plain(body("x-cut", "")[:70]), taskID: "x-cut", reason: "not valid JSON"},
		{name: "invalid UTF-8", msg: plain(body("x-utf8", ",\"x\":\"\xff\"")), taskID: "x-utf8", reason: "not valid UTF-8"},
		{name: "lone surrogate", msg: plain(body("x-surrogate", `,"x":"\ud800"`)), taskID: "x-surrogate",
			reason: "surrogate"},
		{name: "10,000 levels", msg: plain(body("x-deep", `,"x":`+deep)), taskID: "x-deep",
			reason: "nested more deeply than 64"},
		{name: "51,000 keys", msg: plain(body("x-keys", `,"x":{`+strings.Join(keys, ",")+`}`)), taskID: "x-keys",
			reason: "keys and values"},
		{name: "1e9999999", msg: plain(body("x-number", `,"priority":1e9999999`)), taskID: "x-number",
			reason: "exponent beyond"},
		{name: "duplicate keys", msg: plain(body("x-twice", `,"task_id":"other"`)), reason: "occurs twice"},
		{name: "a key in another letter case", msg: plain(body("x-case", `,"Task_ID":"other"`)), taskID: "x-case",
			reason: "letter case"},
		{name: "a task id of 255 bytes", msg: plain(body(strings.Repeat("x", 255), "")), reason: "/task_id"},
		{name: "a task id of 256 bytes", msg: plain(body(strings.Repeat("x", 256), "")), reason: "/task_id"},
		{name: "a correlation id of 256 bytes",
			msg: plain(body("x-correlation", `,"correlation_id":"`+strings.Repeat("x", 256)+`"`)), taskID: "x-correlation",
			reason: "/correlation_id"},
		{name: "priority 4", msg: plain(body("x-priority", `,"priority":4`)), taskID: "x-priority", reason: "/priority"},
		{name: "no payload", msg: plain(`{"message_type":"task.assign","task_id":"x-payload","task_type":"build"}`),
			taskID: "x-payload", reason: "payload"},
		{name: "another message type", msg: plain(strings.Replace(body("x-type", ""), "task.assign", "task.dispatch", 1)),
			taskID: "x-type", reason: "/message_type"},
		{name: "an unknown strategy", msg: plain(body("x-strategy", `,"strategy":"random"`)), taskID: "x-strategy",
			reason: "/strategy"},
		{name: "longer than the broker lets an agent work", msg: plain(body("x-long", `,"timeout_seconds":1681`)),
			taskID: "x-long", reason: "/timeout_seconds"},
		{name: "gzip", msg: amqp.Publishing{ContentEncoding: "gzip", Body: zipped.Bytes()}, reason: "gzip"},
		{name: "JSON that claims to be gzip", msg: amqp.Publishing{ContentEncoding: "gzip", Body: []byte(body("x-gzip", ""))},
			reason: "gzip"},
		{name: "a reply_to that leads back",
			msg: amqp.Publishing{ReplyTo: bus.QueueAssign, Body: []byte(body("x-loop", `,"priority":-1`))}, taskID: "x-loop",
			reason: "/priority"},
		{name: "headers with everything", msg: amqp.Publishing{Headers: bomb(), Body: []byte("{")}, reason: "not valid JSON"},
		{name: "headers that the AMQP library cannot read",
			msg: amqp.Publishing{Headers: nestedHeaders(200), Body: []byte("[")}, reason: "expected a JSON object"},
		{name: "1 MiB and a byte", msg: huge("x-big-1", 1<<20+1), taskID: "x-big-1", reason: "1048576"},
		{name: "9 MiB", msg: huge("x-big-9", 9<<20), taskID: "x-big-9", noReason: true},
		{name: "16 MiB", msg: huge("x-big-16", 16<<20), taskID: "x-big-16", noReason: true},
	}
}

// bomb is what headers can hold at worst: every type, nesting, 60 KiB of text, and
// the names that the coordinator uses itself.
func bomb() amqp.Table {
	nested := nestedHeaders(30) // as deep as the library reads
	return amqp.Table{
		"text": strings.Repeat("x", 60_000), "nested": nested, "list": []any{[]any{int8(1), nil}, amqp.Table{}},
		"nothing": nil, "decimal": amqp.Decimal{Scale: 255, Value: 1}, "float": float32(1.5), "time": time.Unix(1<<33, 0),
		"bytes":       []byte{0, 255},
		"traceparent": nested, "tracestate": strings.Repeat("x", 600), "x-death": []any{amqp.Table{"count": int64(-1)}},
		"x-taskbus-task": `{"task_id":"forged"}`, "x-taskbus-tried": int32(5), "x-taskbus-attempt": "many",
	}
}

func nestedHeaders(levels int) amqp.Table {
	nested := amqp.Table{"end": true}
	for range levels {
		nested = amqp.Table{"in": nested}
	}
	return nested
}

// tireless is the fleet in which a1 can have every task of a test and need not
// report again, however slow the machine is.
func tireless(t *testing.T) string {
	return replaced(t, replaced(t, fleet, "max_concurrent_tasks: 2", "max_concurrent_tasks: 100"),
		"stale_agent_threshold_seconds: 60", "stale_agent_threshold_seconds: 3600")
}

func TestInvalidMessagesCostNobodyAnything(t *testing.T) {
	t.Parallel()
	r := newRig(t, tireless(t))
	c := r.start()
	r.online(c, "a1")
	all := corpus(t)
	wantFailed, wantDead := map[string]invalid{}, map[[32]byte]invalid{}
	for i, m := range all {
		r.publish(bus.QueueAssign, m.msg)
		// The valid one behind it gets through, whatever the other was.
		valid := task(fmt.Sprint("valid-", i), "build")
		r.assign(valid)
		if d := r.dispatches("a1", 1)[0]; string(d.TaskID) != valid.TaskID {
			t.Fatalf("behind %s: a1 got %s", m.name, d.TaskID)
		}
		wantDead[sha256.Sum256(m.msg.Body)] = m
		if m.taskID != "" {
			wantFailed[m.taskID] = m
		}
	}

	// x-loop asks for its copy in task.assign: it gets none there.
	for _, f := range r.failures(len(wantFailed)) {
		m, ok := wantFailed[string(f.TaskID)]
		if !ok {
			t.Errorf("a failure of %s", f.TaskID)
			continue
		}
		if f.ReasonCode != "invalid_message" || f.RetryPossible || !strings.Contains(f.Reason, m.reason) ||
			f.CorrelationID == "" {
			t.Errorf("%s: %s", m.name, f.amqp.Body)
		}
	}
	dead := r.broker.Get(t, bus.QueueDead, len(all))
	for _, d := range dead {
		m, ok := wantDead[sha256.Sum256(d.Body)]
		switch {
		case !ok:
			t.Errorf("task.dead holds what nobody sent, or not byte for byte: %.200q", d.Body)
		case m.noReason:
			if d.Headers["x-first-death-reason"] != "rejected" {
				t.Errorf("%s: headers %v", m.name, d.Headers)
			}
		case d.Headers["x-taskbus-reason-code"] != "invalid_message" ||
			d.Headers["x-taskbus-source-queue"] != bus.QueueAssign ||
			!strings.Contains(fmt.Sprint(d.Headers["x-taskbus-reason"]), m.reason) || d.Headers["x-death"] != nil:
			t.Errorf("%s: headers %v", m.name, d.Headers)
		}
		delete(wantDead, sha256.Sum256(d.Body))
	}
	for _, m := range wantDead {
		t.Errorf("%s is not in task.dead", m.name)
	}
	// The three that only the engine could refuse are failures like any other. They
	// are counted with the broker's confirm, a moment after they can be read.
	c.awaitStatus("every failure is counted", func(s view.Status) bool {
		return s.Counters.FailedByReason["invalid_message"] >= uint64(len(wantFailed))
	})
	if n := c.status().Broker.Sessions; n != 1 {
		t.Errorf("%d sessions: one of the messages cost the connection", n)
	}
	if heap := c.metric("go_memstats_heap_inuse_bytes"); heap > 256<<20 {
		t.Errorf("%.0f MiB of heap in use", heap/(1<<20))
	}
	r.empty("agent.a1", "agent.a2", bus.QueueFailed, bus.QueueDead)
	r.finish(c)
}

// Strange properties are no fault of the task.
func TestOddPropertiesAreTolerated(t *testing.T) {
	t.Parallel()
	r := newRig(t, tireless(t))
	c := r.start()
	r.online(c, "a1")
	for name, m := range map[string]amqp.Publishing{
		"headers with everything": {Headers: bomb()},
		// Beyond what the AMQP library reads: it would give up the connection.
		"deeply nested headers": {Headers: nestedHeaders(100)},
		"wide headers":          {Headers: amqp.Table{"list": make([]any, 10_000)}},
		"no content type, transient, with a priority of AMQP": {DeliveryMode: amqp.Transient, Priority: 255},
		"another content type, type and time": {ContentType: "text/plain", Type: "nonsense",
			Timestamp: time.Unix(1<<40, 0)},
		"encoding identity":              {ContentEncoding: "identity"},
		"a correlation id that is none":  {CorrelationId: "a\x00b\xff"},
		"a long correlation id":          {CorrelationId: strings.Repeat("~", 255)},
		"a reply_to that does not exist": {ReplyTo: strings.Repeat("q", 255)},
	} {
		request := task("odd", "build")
		request.TaskID = strings.ReplaceAll(name[:9], " ", "-")
		request.CorrelationID = ""
		m.Body = request.message().Body
		r.publish(bus.QueueAssign, m)
		d := r.dispatches("a1", 1)[0]
		if string(d.TaskID) != request.TaskID || d.CorrelationID == "" || d.amqp.CorrelationId != d.CorrelationID {
			t.Errorf("%s: %s", name, d.amqp.Body)
		}
		if name == "a long correlation id" && d.CorrelationID != m.CorrelationId {
			t.Errorf("%s: %s", name, d.CorrelationID)
		}
		for _, h := range []string{"in", "list", "text", "nested", "x-death", "traceparent", "tracestate"} {
			if d.amqp.Headers[h] != nil {
				t.Errorf("%s: the header %s went through to the agent", name, h)
			}
		}
	}
	if n := c.status().Broker.Sessions; n != 1 {
		t.Errorf("%d sessions: one of the messages cost the connection", n)
	}
	r.finish(c)
}

// What is wrong with a heartbeat stays with the heartbeat.
func TestInvalidHeartbeatsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1")
	before := c.agent("a1").LastHeartbeat
	good, _ := json.Marshal(beat("a1", 0, 2))
	bad := []amqp.Publishing{
		{Body: nil}, {Body: []byte("null")}, {Body: good[:40]},
		{Body: []byte(strings.Replace(string(good), "ready", "asleep", 1))},
		{Body: []byte(strings.Replace(string(good), `"active_tasks":0`, `"active_tasks":-1`, 1))},
		{Body: []byte(strings.Replace(string(good), `"active_tasks":0`, `"active_tasks":0,"active_tasks":9`, 1))},
		{Body: good, ContentEncoding: "gzip"}, {Body: append(bytes.Repeat([]byte(" "), 2<<20), good...)},
		{Body: good, Type: "coordinator.fence"}, // claims to be one of the coordinator's own marks
		{Body: []byte(task("t", "build").message().Body)},
	}
	r.publish(bus.StreamStatus, bad...)
	c.awaitStatus("every one is counted", func(s view.Status) bool {
		return s.Counters.StatusRefused["invalid"] == uint64(len(bad)-1) // the false mark is passed over
	})
	if a := c.agent("a1"); a.LastHeartbeat != before || !a.Eligible {
		t.Errorf("a1 after invalid heartbeats: %+v", a)
	}
	r.assign(task("t-1", "build"))
	r.dispatches("a1", 1)
	r.empty(bus.QueueDead, bus.QueueFailed)
	r.finish(c)
}

func TestDuplicatesAreDroppedAndAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t, fleet)
	c := r.start()
	r.online(c, "a1", "a2")
	events, err := r.channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.channel.QueueBind(events.Name, "task.duplicate", bus.ExchangeEvents, false, nil); err != nil {
		t.Fatal(err)
	}

	const copies, producers = 100, 4
	start, done := make(chan struct{}), make(chan int)
	for range producers {
		producer := connect(t, r.broker)
		go func() {
			<-start
			same := make([]request, copies/producers)
			for i := range same {
				same[i] = task("same", "build")
			}
			done <- count(producer.tryPublish(bus.QueueAssign, inAMQP(same)...))
		}()
	}
	close(start)
	for range producers {
		if n := <-done; n != copies/producers {
			t.Fatalf("a producer got %d of its %d copies through", n, copies/producers)
		}
	}
	c.awaitStatus("99 duplicates of 100 copies", func(s view.Status) bool {
		return s.Counters.Received == copies && s.Counters.Duplicates == copies-1
	})
	other := task("same", "build")
	other.Payload = json.RawMessage(`{"of":"another"}`)
	r.assign(other)
	if f := r.failures(1)[0]; f.TaskID != "same" || f.ReasonCode != "duplicate_task" || f.RetryPossible {
		t.Errorf("the same id with different content: %s", f.amqp.Body)
	}

	total := r.ready("agent.a1") + r.ready("agent.a2")
	if total != 1 {
		t.Errorf("%d dispatches of one task", total)
	}
	eventually(t, patience, "99 announcements", func() (bool, string) {
		q, err := r.channel.QueueDeclarePassive(events.Name, false, true, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return q.Messages == copies-1, fmt.Sprint(q.Messages)
	})
	if e := receive(t, r.client, events.Name); e.Type != "task.duplicate" || e.CorrelationId != "trace-same" {
		t.Errorf("the announcement: %+v", e)
	}
	r.finish(c)
}

// agents.auth: strict: an agent may not withdraw tasks, and no unnamed user may.
func TestAgentsMayNotCancel(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t) // user names belong to the whole broker
	unique := vhost.VHost[len(vhost.VHost)-8:]
	agent, producer := "a-"+unique, "p-"+unique
	r := rigOn(t, vhost, replaced(t, replaced(t, fleet, "  a1:", "  auth: strict\n  "+agent+":"),
		"assignment_timeout_seconds: 1", "assignment_timeout_seconds: 60"))
	c := r.start()
	r.assign(task("t-1", "build")) // waits: no agent has reported
	c.awaitStatus("t-1 waits", func(s view.Status) bool { return s.Pending.Total == 1 })

	cancel := amqp.Publishing{Body: []byte(`{"message_type":"task.cancel","task_id":"t-1","reason":"not needed"}`)}
	r.publish(bus.QueueRequest, cancel) // without user_id
	as := connect(t, r.userWhoMay(agent))
	cancel.UserId = agent
	as.publish(bus.QueueRequest, cancel)
	refused := []string{"must carry the property user_id", "is an agent"}
	for i, d := range r.broker.Get(t, bus.QueueDead, len(refused)) {
		if reason := fmt.Sprint(d.Headers["x-taskbus-reason"]); !strings.Contains(reason, refused[i]) {
			t.Errorf("parked with %v, want %q", d.Headers, refused[i])
		}
	}
	if v := c.task("t-1"); v.State != "pending" {
		t.Errorf("t-1 after cancels that may not be: %+v", v)
	}
	as = connect(t, r.userWhoMay(producer))
	cancel.UserId = producer
	as.publish(bus.QueueRequest, cancel)
	if f := r.failures(1)[0]; f.TaskID != "t-1" || f.ReasonCode != "cancelled" || f.Reason != "not needed" {
		t.Errorf("after its producer's cancel: %s", f.amqp.Body)
	}
	r.empty(bus.QueueRequest, bus.QueueDead)
	r.finish(c)
}

// userWhoMay makes a user who may do everything in the virtual host.
func (r *rig) userWhoMay(name string) brokertest.Broker {
	r.t.Helper()
	b := r.broker.AddUser(r.t, name)
	r.broker.SetPermissions(r.t, name, ".*", ".*", ".*")
	return b
}
