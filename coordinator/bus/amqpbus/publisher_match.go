package amqpbus

import (
	"bytes"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// How a message that the broker returns is distinguished from the others on their way.

// match marks the publication that r was.
func (p *publisher) match(r *amqp.Return) bool {
	// A publication whose return is here may still be on its way into the ring.
	p.send.Lock()
	defer p.send.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *unsettled
	for i := range p.n {
		u := &p.ring[(p.head+i)%len(p.ring)]
		if u.returned || u.Optional || !sameMessage(r, u) {
			continue
		}
		if sameStamps(r, u) {
			found = u
			break
		}
		if found == nil {
			found = u
		}
	}
	if found == nil {
		return false
	}
	found.returned = true
	return true
}

func sameMessage(r *amqp.Return, u *unsettled) bool {
	return r.RoutingKey == u.Key && r.Exchange == u.Exchange &&
		r.MessageId == u.MessageID && r.CorrelationId == u.CorrelationID &&
		r.Type == u.Type && r.ReplyTo == u.ReplyTo && r.AppId == u.AppID && r.UserId == u.UserID &&
		r.ContentType == u.ContentType && r.ContentEncoding == u.ContentEncoding &&
		bytes.Equal(r.Body, u.Body)
}

// sameStamps compares what a plugin of the broker may have changed.
func sameStamps(r *amqp.Return, u *unsettled) bool {
	if r.Timestamp.IsZero() != u.Timestamp.IsZero() || !r.Timestamp.IsZero() && r.Timestamp.Unix() != u.Timestamp.Unix() {
		return false
	}
	got := decodeTable(r.Headers)
	if len(got) != len(u.Headers) {
		return false
	}
	for key, value := range u.Headers {
		if !sameField(got[key], value) {
			return false
		}
	}
	return true
}

func sameField(got, sent any) bool {
	switch s := sent.(type) {
	case []byte:
		g, ok := got.([]byte)
		return ok && bytes.Equal(g, s)
	case time.Time:
		g, ok := got.(time.Time)
		return ok && g.Unix() == s.Unix()
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(s) {
			return false
		}
		for i := range s {
			if !sameField(g[i], s[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(s) {
			return false
		}
		for key := range s {
			if !sameField(g[key], s[key]) {
				return false
			}
		}
		return true
	default:
		return got == sent
	}
}
