package amqpbus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"taskbus/coordinator/bus"
)

func message(key, id string, headers map[string]any) bus.Publication {
	return bus.Publication{Key: key, Properties: bus.Properties{MessageID: id, Headers: headers}, Body: []byte("{}")}
}

// asReturned is p as the broker sends it back.
func asReturned(p bus.Publication) amqp.Return {
	return amqp.Return{
		Exchange: p.Exchange, RoutingKey: p.Key, MessageId: p.MessageID, Headers: encodeTable(p.Headers),
		Timestamp: p.Timestamp, Body: p.Body,
	}
}

func ringOf(pubs ...bus.Publication) *publisher {
	p := newPublisher(max(1, len(pubs)), nil, nil)
	for i := range pubs {
		p.push(&pubs[i], nil)
	}
	return p
}

func (p *publisher) returnedFlags() string {
	flags := ""
	for i := range p.n {
		if p.ring[i].returned {
			flags += "R"
		} else {
			flags += "."
		}
	}
	return flags
}

func TestMatchReturns(t *testing.T) {
	sent := time.Unix(1_700_000_000, 500)
	a, b := message("q1", "a", nil), message("q1", "b", nil)
	other := message("q2", "a", nil)
	optional := a
	optional.Optional = true
	red, blue := message("q1", "", map[string]any{"c": "red", "n": int64(1)}),
		message("q1", "", map[string]any{"c": "blue", "n": int64(1)})
	stamped := message("q1", "", nil)
	stamped.Timestamp = sent
	byPlugin := asReturned(a)
	byPlugin.Timestamp, byPlugin.Headers = sent, amqp.Table{"timestamp_in_ms": int64(1)}

	for _, test := range []struct {
		name    string
		ring    []bus.Publication
		returns []amqp.Return
		want    string // R: returned
		unknown bool   // the last return matches nothing
	}{
		{name: "by id", ring: []bus.Publication{a, b}, returns: []amqp.Return{asReturned(b)}, want: ".R"},
		{name: "by key", ring: []bus.Publication{a, other}, returns: []amqp.Return{asReturned(other)}, want: ".R"},
		{name: "the same twice: the first, then the second", ring: []bus.Publication{a, b, a},
			returns: []amqp.Return{asReturned(a), asReturned(a)}, want: "R.R"},
		{name: "an optional one cannot come back", ring: []bus.Publication{optional, a},
			returns: []amqp.Return{asReturned(a)}, want: ".R"},
		{name: "headers decide among equals", ring: []bus.Publication{red, blue}, returns: []amqp.Return{asReturned(blue)},
			want: ".R"},
		{name: "time decides among equals", ring: []bus.Publication{message("q1", "", nil), stamped},
			returns: []amqp.Return{asReturned(stamped)}, want: ".R"},
		{name: "stamped by a plugin", ring: []bus.Publication{b, a}, returns: []amqp.Return{byPlugin}, want: ".R"},
		{name: "never published", ring: []bus.Publication{a}, returns: []amqp.Return{asReturned(b)}, want: ".",
			unknown: true},
		{name: "more than were published", ring: []bus.Publication{a}, returns: []amqp.Return{asReturned(a), asReturned(a)},
			want: "R", unknown: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := ringOf(test.ring...)
			matched := true
			for i := range test.returns {
				matched = p.match(&test.returns[i])
			}
			if got := p.returnedFlags(); got != test.want || matched == test.unknown {
				t.Errorf("flags %q, last matched %v; want %q, %v", got, matched, test.want, !test.unknown)
			}
		})
	}
}

// Whatever is published and whichever of it comes back: as many of each message
// are marked as came back, and exactly those when messages differ.
func TestMatchReturnsNeverMistakesOneMessageForAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPublisher(64, nil, nil)
		var waiting []amqp.Return  // in order of publishing
		var pending []string       // content of what is in the ring
		marked := map[string]int{} // by content, settled as returned
		popOne := func() {
			// The library has delivered every return of what is acknowledged now.
			for _, r := range waiting {
				if !p.match(&r) {
					t.Fatalf("no match for %s", r.RoutingKey)
				}
			}
			waiting = nil
			if p.ring[p.head].returned {
				marked[pending[0]]++
			}
			pending = pending[1:]
			p.pop(bus.Confirmed)
			p.called(false)
		}
		total := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(pending) > 0 && (len(pending) == 64 || rapid.Bool().Draw(t, "settle")) {
				popOne()
				continue
			}
			pub := message(
				rapid.SampledFrom([]string{"q1", "q2"}).Draw(t, "key"),
				rapid.SampledFrom([]string{"", "a"}).Draw(t, "id"),
				rapid.SampledFrom([]map[string]any{nil, {"x": "1"}, {"x": []any{"1"}}}).Draw(t, "headers"))
			content := fmt.Sprint(pub.Key, "/", pub.MessageID, "/", pub.Headers)
			p.reserve()
			p.push(&pub, nil)
			pending = append(pending, content)
			if rapid.Bool().Draw(t, "unroutable") {
				waiting = append(waiting, asReturned(pub))
				total[content]++
			}
		}
		for len(pending) > 0 {
			popOne()
		}
		for content, n := range total {
			if marked[content] != n {
				t.Fatalf("%s: %d came back, %d were marked", content, n, marked[content])
			}
		}
		for content := range marked {
			if total[content] == 0 {
				t.Fatalf("%s never came back and was marked", content)
			}
		}
	})
}

// TestDrainedTellsOfUnknown: what the broker never answered is an error of drained, also where the channel
// was closed under the publisher before anything else of the session saw it.
func TestDrainedTellsOfUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		outcomes []bus.Outcome
		want     error
	}{
		"nothing published": {nil, nil},
		"all answered":      {[]bus.Outcome{bus.Confirmed, bus.Unroutable, bus.Rejected}, nil},
		"one of many":       {[]bus.Outcome{bus.Confirmed, bus.Unknown, bus.Confirmed}, errUnanswered},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(8, nil, nil)
			for i, outcome := range tt.outcomes {
				pub := message("q1", fmt.Sprint(i), nil)
				p.reserve()
				p.push(&pub, nil)
				p.pop(outcome)
				p.called(false)
			}
			if err := p.drained(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("drained: %v, want %v", err, tt.want)
			}
		})
	}
}
