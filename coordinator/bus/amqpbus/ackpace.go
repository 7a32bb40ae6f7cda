package amqpbus

import "time"

// RabbitMQ has at most 32 commands of a channel under way to a quorum queue, keeps
// further acknowledgements back, and forgets these when the channel is closed:
// what was acknowledged would be delivered again.
const (
	// lingerAfterAcks is how long a channel stays open after acknowledgements that
	// may be held back: ample for the broker to work off thousands of them.
	lingerAfterAcks = time.Second
	// unhurried frames within one period cannot fill the 32, not even with as many
	// in the period before.
	unhurried = 16
)

// ackPace says until when a channel should stay open for the sake of the
// acknowledgements sent on it. Its zero value is a channel that sent none.
type ackPace struct {
	since  time.Time // the current period
	frames int       // sent in it
	until  time.Time
}

// sent records that n acknowledgement frames go out now.
func (p *ackPace) sent(now time.Time, n int) {
	if n == 0 {
		return
	}
	if now.Sub(p.since) >= lingerAfterAcks {
		p.since, p.frames = now, 0
	}
	if p.frames += n; p.frames > unhurried {
		p.until = now.Add(lingerAfterAcks)
	}
}

// quiet is when the channel may be closed; any time in the past means at once.
func (p *ackPace) quiet() time.Time { return p.until }
