package membus

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator/bus"
)

// message is a message in one queue. exchange, key, props and body never change.
type message struct {
	exchange, key string
	props         bus.Properties
	body          []byte

	seq     uint64    // place in its queue
	at      time.Time // when it came into its queue
	expires time.Time // zero: never
	// handedOut: a consumer has had it before. returns is how often a quorum
	// queue got it back (x-delivery-count).
	handedOut bool
	returns   int
	givenBack *session // that has looked at it, and to which nothing else is redelivered; nil: none
	offset    int64    // place in its stream; -1 in a queue
	chunk     int64    // the offset with which its chunk of the stream begins
	deaths    []death  // oldest first
}

// death is one dead-lettering.
type death struct{ queue, reason, exchange string }

// newMessage copies what belongs to the publisher, as far as AMQP carries it.
func newMessage(p bus.Publication) *message {
	props := p.Properties
	props.Timestamp = wholeSeconds(props.Timestamp)
	if props.Expiration > 0 {
		props.Expiration = max(props.Expiration.Truncate(time.Millisecond), time.Millisecond)
	} else {
		props.Expiration = 0
	}
	props.Headers = copyTable(props.Headers)
	return &message{exchange: p.Exchange, key: p.Key, props: props, body: bytes.Clone(p.Body), offset: -1}
}

// copy is the message for one more queue.
func (m *message) copy() *message {
	c := *m
	return &c
}

// deliver makes what a consumer gets; it shares no memory with the message.
func (m *message) deliver(queue string) bus.Delivery {
	d := bus.Delivery{
		Queue: queue, Exchange: m.exchange, RoutingKey: m.key,
		Redelivered: m.handedOut, Offset: m.offset, Properties: m.props, Body: bytes.Clone(m.body),
	}
	d.Headers = copyTable(m.props.Headers)
	add := func(name string, value any) {
		if d.Headers == nil {
			d.Headers = map[string]any{}
		}
		d.Headers[name] = value
	}
	if m.returns > 0 {
		add("x-delivery-count", int64(m.returns))
	}
	if m.offset >= 0 {
		add("x-stream-offset", m.offset)
	}
	if len(m.deaths) > 0 {
		add("x-first-death-queue", m.deaths[0].queue)
		add("x-first-death-reason", m.deaths[0].reason)
		add("x-first-death-exchange", m.deaths[0].exchange)
	}
	return d
}

// deadLetter is the message as it goes on to the queue target through the default
// exchange. It never expires there, and has no further keys: its sender meant the queue it was in.
func (m *message) deadLetter(from, reason, target string) *message {
	dead := &message{
		key: target, props: m.props, body: m.body, offset: -1,
		deaths: append(slices.Clone(m.deaths), death{queue: from, reason: reason, exchange: m.exchange}),
	}
	dead.props.Expiration = 0
	dead.props.Headers = maps.Clone(m.props.Headers)
	delete(dead.props.Headers, "CC")
	return dead
}

// goesRound tells whether a dead letter returns to a queue it died in without
// ever having been rejected. RabbitMQ drops such a message.
func (m *message) goesRound() bool {
	back := false
	for _, d := range m.deaths {
		if d.reason == reasonRejected {
			return false
		}
		back = back || d.queue == m.key
	}
	return back
}

// wholeSeconds is what AMQP carries of a time; the zero time is not sent.
func wholeSeconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.Unix(t.Unix(), 0).UTC()
}

// copyTable copies headers deeply; an empty table is nil, as it arrives.
func copyTable(table map[string]any) map[string]any {
	if len(table) == 0 {
		return nil
	}
	c := make(map[string]any, len(table))
	for name, value := range table {
		c[name] = copyValue(value)
	}
	return c
}

func copyValue(value any) any {
	switch v := value.(type) {
	case []byte:
		return bytes.Clone(v)
	case time.Time:
		return wholeSeconds(v)
	case []any:
		c := make([]any, len(v))
		for i, element := range v {
			c[i] = copyValue(element)
		}
		return c
	case map[string]any:
		return copyTable(v)
	default:
		return v
	}
}
