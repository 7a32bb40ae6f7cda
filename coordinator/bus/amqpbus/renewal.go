package amqpbus

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The pauses between two channels of a publisher that is refused: the first, doubled
// each time, up to the longest. Once nothing has been refused for that long they begin
// anew.
const (
	renewFirst   = time.Second
	renewLongest = time.Minute
)

// renewal says when a publisher that is refused goes on with another channel.
type renewal struct {
	next    time.Time     // not before
	pause   time.Duration // after the next
	refused time.Time     // last
}

// due hears of a refusal; true when it is time for another channel.
func (r *renewal) due(now time.Time) bool {
	if now.Sub(r.refused) > renewLongest {
		r.pause = renewFirst
	}
	r.refused = now
	if now.Before(r.next) {
		return false
	}
	r.next = now.Add(r.pause)
	r.pause = min(2*r.pause, renewLongest)
	return true
}

// attach gives the publisher its channel.
func (p *publisher) attach(channel *amqp.Channel) {
	p.returns = channel.NotifyReturn(make(chan amqp.Return, len(p.ring)))
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	p.channel = channel
	go func() { // ends with the channel
		if reply := <-closed; p.uses(channel) {
			p.lost(reply)
		}
	}()
}

// uses reports whether the publisher's channel is this one.
func (p *publisher) uses(channel *amqp.Channel) bool {
	p.send.Lock()
	defer p.send.Unlock()
	return p.channel == channel
}

// renew goes on with another channel. Nothing is unsettled, and nothing is being published.
func (p *publisher) renew() {
	before := p.channel
	channel, err := p.open()
	if err != nil {
		p.fail(err)
	} else {
		p.send.Lock()
		p.attach(channel)
		p.send.Unlock()
		p.renewed()
		go before.Close() // returns with the connection at the latest; its fate is of no interest
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewing = false
	p.changed.Broadcast()
}
