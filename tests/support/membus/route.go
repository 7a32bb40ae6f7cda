package membus

import (
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator/bus"
)

// Where a message goes.

// publish stores a message wherever it is routed, in one queue after the other, and tells how a
// broker answers it. An exchange that does not exist is an error, which ends the session; so is a
// quorum queue or stream that is deleted between finding and storing, to which RabbitMQ 3.10 answers
// 541, or nothing at all. A classic one takes the message along, confirmed.
func (f *fabric) publish(m *message, optional bool) (bus.Outcome, error) {
	targets, err := f.route(m)
	if err != nil {
		return bus.Unknown, err
	}
	if len(targets) == 0 && !optional {
		return bus.Unroutable, nil
	}
	outcome := bus.Confirmed
	for _, q := range targets {
		f.between("store " + m.key)
		def := q.definition()
		switch gone := f.queues[def.Name] != q; {
		case gone && def.Kind == bus.Classic:
		case gone:
			return bus.Unknown, fmt.Errorf("publish to queue %q: it was deleted meanwhile", def.Name)
		case q.full():
			outcome = bus.Rejected
		default:
			q.append(m.copy())
		}
	}
	return outcome, nil
}

// route finds the queues for a message, each once, in the order of its keys and of their bindings.
// It takes the keys out of the message that no other receiver is to see.
func (f *fabric) route(m *message) ([]queue, error) {
	keys := []string{m.key}
	for _, header := range [...]string{"CC", "BCC"} {
		further, _ := m.props.Headers[header].([]any)
		for _, key := range further {
			keys = append(keys, key.(string)) // see bus.Edge
		}
	}
	delete(m.props.Headers, "BCC") // the headers are a copy
	var targets []queue
	for _, key := range keys {
		found, err := f.routeKey(m.exchange, key)
		if err != nil {
			return nil, err
		}
		for _, q := range found {
			if !slices.Contains(targets, q) {
				targets = append(targets, q)
			}
		}
	}
	return targets, nil
}

func (f *fabric) routeKey(exchangeName, key string) ([]queue, error) {
	if exchangeName == "" {
		if q := f.queues[key]; q != nil {
			return []queue{q}, nil
		}
		return nil, nil
	}
	x := f.exchanges[exchangeName]
	if x == nil {
		return nil, fmt.Errorf("publish to exchange %q: no such exchange", exchangeName)
	}
	var targets []queue
	for _, b := range x.bindings {
		matches := b.Key == key
		if x.kind == bus.Topic {
			matches = topicMatches(words(b.Key), words(key))
		}
		if matches {
			targets = append(targets, f.queues[b.Queue])
		}
	}
	return targets, nil
}

// words splits a topic key at its dots; the empty key has none.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicMatches tells whether a key fits a pattern, in which * stands for exactly
// one word and # for any number, none included.
func topicMatches(pattern, key []string) bool {
	if len(pattern) == 0 {
		return len(key) == 0
	}
	if pattern[0] == "#" {
		return topicMatches(pattern[1:], key) || len(key) > 0 && topicMatches(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && topicMatches(pattern[1:], key[1:])
}
