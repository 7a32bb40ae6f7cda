package vetting

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// lines keeps what was said of senders and fields.
type lines struct{ said []string }

func (l *lines) say(what ...any) { l.said = append(l.said, strings.TrimSpace(fmt.Sprintln(what...))) }
func (l *lines) WrongSender(messageType string, agent coordinator.AgentID, user string, mode config.Auth) {
	l.say("sender", messageType, agent, user, mode)
}
func (l *lines) WrongKey(messageType string, agent, key coordinator.AgentID) {
	l.say("key", messageType, agent, key)
}
func (l *lines) WrongRelay(agent coordinator.AgentID, user string, mode config.Auth) {
	l.say("relay", agent, user, mode)
}
func (l *lines) WrongCanceller(user string, mode config.Auth) { l.say("canceller", user, mode) }
func (l *lines) UnknownField(schema, field, agent string, _ *bus.Delivery) {
	l.say("field", schema, field, agent)
}

// rig is a judge under a configuration, of a coordinator that is taskbus for the broker.
type rig struct {
	*Judge
	lines
	unknown []string // schemas
	joined  []coordinator.AgentID
	asked   int
}

var errOver = errors.New("the loop has ended")

func newRig(t *testing.T, auth, more string) *rig {
	t.Helper()
	c, err := config.Parse([]byte("agents:\n  auth: "+auth+
		"\n  a1: {capabilities: [go], max_concurrent_tasks: 1}\n  a2: {capabilities: [go], max_concurrent_tasks: 1}\n"+
		"task_routing: {build: {required_capabilities: [go]}}\n"+more), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{}
	r.Judge = New(Options{
		Decoder: messages.NewDecoder(set, messages.DefaultLimits()), Config: func() *config.Config { return c },
		User: "taskbus", Log: &r.lines, Unknown: func(schema string) { r.unknown = append(r.unknown, schema) },
		Joined: func(id coordinator.AgentID) (bool, error) {
			if r.asked++; r.joined == nil {
				return false, errOver
			}
			return slices.Contains(r.joined, id), nil
		},
	})
	return r
}

// from is a message out of a queue, by a key that ends in that id (empty: by the queue's own), of a user.
func from(queue, id, user, body string) *bus.Delivery {
	d := &bus.Delivery{Queue: queue, Exchange: bus.ExchangeIn, RoutingKey: queue, Properties: bus.Properties{UserID: user},
		Body: []byte(body)}
	if id != "" {
		d.RoutingKey += "." + id
	}
	return d
}

const (
	status = `{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,` +
		`"available_capacity":1,"timestamp":"2026-03-01T12:00:00Z"%s}`
	result = `{"message_type":"task.result","agent_id":"a1","task_id":"t","outcome":"failed","correlation_id":"c",` +
		`"timestamp":"2026-03-01T12:00:00Z"%s}`
	cancel = `{"message_type":"task.cancel","task_id":"t"%s}`
)

// What an agent says counts by its own key in every mode, never by another's; its user decides where agents.auth is
// strict. What is relayed counts of the coordinator's user.
func TestSendersOfAgentsMessages(t *testing.T) {
	for _, c := range []struct {
		key, user         string
		off, warn, strict bool
		relayed           [3]bool // off, warn, strict
	}{
		{"", "a1", true, true, true, [3]bool{true, true, false}},
		{"", "", true, true, false, [3]bool{true, true, false}},
		{"", "a2", true, true, false, [3]bool{true, true, false}},
		{"", "taskbus", true, true, false, [3]bool{true, true, true}},
		{"a1", "a1", true, true, true, [3]bool{true, true, false}},
		{"a1", "", true, true, false, [3]bool{true, true, false}},
		{"a2", "a1", false, false, false, [3]bool{}},
		{"a2", "taskbus", false, false, false, [3]bool{}},
	} {
		for i, mode := range []string{"off", "warn", "strict"} {
			r := newRig(t, mode, "")
			want := [3]bool{c.off, c.warn, c.strict}[i]
			name := fmt.Sprintf("%s, key %q, user %q", mode, c.key, c.user)
			ok, refusal := r.Status(from(bus.StreamStatus, c.key, c.user, fmt.Sprintf(status, "")), &messages.AgentStatus{})
			if ok != want || refusal != nil {
				t.Errorf("%s: a heartbeat counts: %v, %v", name, ok, refusal)
			}
			ok, refusal = r.Result(from(bus.StreamResult, c.key, c.user, fmt.Sprintf(result, "")), &messages.TaskResult{})
			if ok != want || refusal != nil {
				t.Errorf("%s: a result counts: %v, %v", name, ok, refusal)
			}
			before := len(r.said)
			ok, refusal = r.Status(from(bus.StreamStatus, c.key, c.user, fmt.Sprintf(status, `,"relayed":true`)),
				&messages.AgentStatus{})
			if ok != c.relayed[i] || refusal != nil || !ok && len(r.said) != before+1 {
				t.Errorf("%s: a relayed heartbeat counts: %v, %v; said %v", name, ok, refusal, r.said)
			}
		}
	}
}

// Agents withdraw no tasks: by their key never, as users where agents.auth is strict, whether agents.yaml lists them
// or they joined by themselves. Others may, as far as the broker vouches for them.
func TestCancellers(t *testing.T) {
	const discovery = "discovery: {enabled: true, agents: [\"b*\"], capabilities: [go]}\n"
	for _, c := range []struct {
		mode, key, user, more string
		joined                []coordinator.AgentID
		why                   string
		err                   bool
	}{
		{mode: "off", user: "a1"},
		{mode: "off", user: ""},
		{mode: "off", key: "a1", why: `the key of agent "a1"`},
		{mode: "off", key: "producer"},
		{mode: "warn", user: "a1"},
		{mode: "warn", user: ""},
		{mode: "warn", key: "a2", user: "a2", why: `the key of agent "a2"`},
		{mode: "strict", user: "a1", why: `user "a1" is an agent`},
		{mode: "strict", user: "", why: "must carry the property user_id"},
		{mode: "strict", user: "producer"},
		{mode: "strict", user: "b1", more: discovery, joined: []coordinator.AgentID{"b1"}, why: `user "b1" is an agent`},
		{mode: "strict", user: "b2", more: discovery, joined: []coordinator.AgentID{"b1"}},
		{mode: "strict", user: "b2", more: discovery, err: true},
		{mode: "off", key: "b1", more: discovery, joined: []coordinator.AgentID{"b1"}, why: `the key of agent "b1"`},
		{mode: "off", key: "b1", more: discovery, err: true},
	} {
		r := newRig(t, c.mode, c.more)
		r.joined = c.joined
		d := from(bus.QueueRequest, c.key, c.user, fmt.Sprintf(cancel, `,"correlation_id":"c-1"`))
		m, refusal := r.Request(d)
		if refusal != nil {
			t.Fatal(refusal)
		}
		refusal, err := r.Cancel(m.(*messages.TaskCancel), d)
		if (err != nil) != c.err || (refusal != nil) != (c.why != "") {
			t.Errorf("%+v: refused %v, %v", c, refusal, err)
		}
		if refusal != nil && (!strings.Contains(refusal.Text, c.why) || refusal.TaskID != "t" ||
			refusal.CorrelationID != "c-1" ||
			refusal.Keyword != "user_id" || refusal.MessageType != schemas.TaskCancel) {
			t.Errorf("%+v: refused with %+v", c, refusal)
		}
		if c.more == "" && r.asked > 0 {
			t.Errorf("%+v: the engine was asked, although no agent joins by itself", c)
		}
	}
}

// A refused request is perishable if it is a bid or a claim, or comes by the key of an agent and does not say
// what it is.
func TestPerishableRequests(t *testing.T) {
	for _, c := range []struct {
		says, property, key string
		want                string
	}{
		{schemas.TaskBid, "", "", schemas.TaskBid},
		{schemas.TaskClaim, schemas.TaskCancel, "", schemas.TaskClaim},
		{"", schemas.TaskBids, "", schemas.TaskBids},
		{schemas.TaskCancel, schemas.TaskBid, "a1", ""},
		{"", "", "a1", schemas.TaskBid},
		{"", "", "producer", ""},
		{"", "", "", ""},
	} {
		d := from(bus.QueueRequest, c.key, "", "{")
		d.Type = c.property
		got, err := newRig(t, "off", "").Perishable(d, &messages.Refusal{MessageType: c.says})
		if err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// A bid that is not valid is answered only if it is known which one it is, and the broker vouches for its agent.
func TestAnswerableBids(t *testing.T) {
	bid := messages.Refusal{TaskID: "t", AuctionID: "x", AgentID: "a1"}
	for _, c := range []struct {
		mode, key, user string
		want            bool
	}{
		{"off", "", "", false}, {"off", "a1", "", true}, {"off", "", "a1", true}, {"off", "a1", "a2", false},
		{"off", "a2", "a1", false}, {"strict", "a1", "", false}, {"strict", "a1", "a1", true},
	} {
		if got := newRig(t, c.mode, "").Answerable(from(bus.QueueRequest, c.key, c.user, "{"), &bid); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, unread := range []messages.Refusal{{AuctionID: "x", AgentID: "a1"}, {TaskID: "t", AgentID: "a1"},
		{TaskID: "t", AuctionID: "x"}, {TaskID: "t", AuctionID: "x", AgentID: "a b"}} {
		if newRig(t, "off", "").Answerable(from(bus.QueueRequest, "a1", "", "{"), &unread) {
			t.Errorf("%+v can be answered", unread)
		}
	}
}

// An unknown field is counted in every message; it refuses one of a sender that hears of it, where messages are held
// to their schemas strictly.
func TestUnknownFields(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, "off", fmt.Sprintf("global_settings: {strict_messages: %v}\n", strict))
		task := `{"message_type":"task.assign","task_id":"t","task_type":"build","payload":{},"prioritiy":3}`
		_, refused := r.Task(from(bus.QueueAssign, "", "", task))
		_, refusedCancel := r.Request(from(bus.QueueRequest, "", "", fmt.Sprintf(cancel, `,"why":"x"`)))
		if (refused != nil) != strict || (refusedCancel != nil) != strict {
			t.Errorf("strict: %v; refused %v, %v", strict, refused, refusedCancel)
		}
		if strict && (refused.TaskID != "t" || refused.TaskType != "build" || refusedCancel.TaskID != "t") {
			t.Errorf("refused %+v, %+v", refused, refusedCancel)
		}
		if ok, refusal := r.Status(from(bus.StreamStatus, "", "", fmt.Sprintf(status, `,"x":1`)),
			&messages.AgentStatus{}); !ok {
			t.Errorf("strict: %v; a heartbeat is refused: %v", strict, refusal)
		}
		if ok, refusal := r.Result(from(bus.StreamResult, "", "", fmt.Sprintf(result, `,"x":1`)),
			&messages.TaskResult{}); !ok {
			t.Errorf("strict: %v; a result is refused: %v", strict, refusal)
		}
		if want := []string{schemas.TaskAssign, schemas.TaskCancel, schemas.AgentStatus,
			schemas.TaskResult}; !slices.Equal(r.unknown, want) {
			t.Errorf("strict: %v; counted %v, want %v", strict, r.unknown, want)
		}
		if said := map[bool]int{false: 4, true: 2}[strict]; len(r.said) != said {
			t.Errorf("strict: %v; said %v", strict, r.said)
		}
	}
}

// What is around the body is looked at first: an encoding, and a key that is not of the queue.
func TestPropertiesAreChecked(t *testing.T) {
	for _, c := range []struct {
		encoding, key string
		keyword       string
	}{
		{"", bus.QueueRequest, ""}, {"identity", bus.QueueRequest, ""}, {"UTF-8", bus.QueueRequest + ".a1", ""},
		{"gzip", bus.QueueRequest, "contentEncoding"}, {"", bus.QueueAssign, "routing_key"},
		{"", bus.QueueRequest + "s", "routing_key"},
	} {
		d := from(bus.QueueRequest, "", "", fmt.Sprintf(cancel, ""))
		d.ContentEncoding, d.RoutingKey = c.encoding, c.key
		_, refusal := newRig(t, "off", "").Request(d)
		if (refusal == nil) != (c.keyword == "") || refusal != nil && refusal.Keyword != c.keyword {
			t.Errorf("%+v: %+v", c, refusal)
		}
	}
}
