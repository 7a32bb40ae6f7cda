package membus

import (
	"fmt"
	"slices"
	"strings"

	"taskbus/coordinator/bus"
)

// Where a message goes.

// publish stores a message wherever it is routed and tells how a broker answers
// it. An exchange that does not exist is an error, which ends the session; so is a queue that is
// deleted between finding and storing, which RabbitMQ 3.10 answers with 541.
func (f *fabric) publish(m *message, optional bool) (bus.Outcome, error) {
	targets, err := f.route(m.exchange, m.key)
	if err != nil {
		return bus.Unknown, err
	}
	if len(targets) == 0 && !optional {
		return bus.Unroutable, nil
	}
	f.between("store " + m.key)
	outcome := bus.Confirmed
	for _, q := range targets {
		if name := q.definition().Name; f.queues[name] != q {
			return bus.Unknown, fmt.Errorf("publish to queue %q: it was deleted meanwhile", name)
		}
		if q.full() {
			outcome = bus.Rejected
			continue
		}
		q.append(m.copy())
	}
	return outcome, nil
}

// route finds the queues for a key, each once, in the order of their bindings.
func (f *fabric) route(exchangeName, key string) ([]queue, error) {
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
		if q := f.queues[b.Queue]; matches && !slices.Contains(targets, q) {
			targets = append(targets, q)
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
