package proxy

// traced is one connection of the trace. A nil one traces nothing.
type traced struct {
	trace    *Trace
	over     bool // the connection has ended: what still comes of it is void
	channels map[uint16]*channel
}

// channel is what the trace knows of one channel of a connection.
type channel struct {
	open       map[uint64]*delivery // not settled, by tag
	newest     uint64               // tag of the newest delivery
	confirming bool
	published  uint64                  // number of the newest publication
	waiting    map[uint64]*publication // without a confirm, by number
	oldest     uint64                  // none below waits
	sending    [2]*message             // under way, by side
}

type delivery struct {
	queue   string
	key     taskKey // empty: no task
	hash    taskKey // of its body, by which it is found again when it is parked
	attempt int     // of a dispatch that comes back
}

type publication struct {
	exchange, key, id string
	task              taskKey
	attempt           int
	at                uint64
	returned          bool
}

// message is one that is under way in frames.
type message struct {
	method *Frame
	header *Frame
	body   []byte
}

func (t *Trace) connection() *traced {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Connections++
	return &traced{trace: t, channels: map[uint16]*channel{}}
}

func (c *traced) fault(err error) {
	if c == nil {
		return
	}
	c.trace.mu.Lock()
	defer c.trace.mu.Unlock()
	c.trace.faults = append(c.trace.faults, err)
}

// record takes down a frame: of the client as it comes, of the server as it goes.
func (c *traced) record(f *Frame) {
	if c == nil || f.Kind == KindHello || f.Kind == KindHeartbeat {
		return
	}
	t := c.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.over {
		return
	}
	t.now++
	ch := c.channels[f.Channel]
	if ch == nil {
		ch = &channel{open: map[uint64]*delivery{}, waiting: map[uint64]*publication{}, oldest: 1}
		c.channels[f.Channel] = ch
	}
	switch {
	case f.Method == ChannelOpen, f.Method == ChannelCloseOK:
		c.closed(ch)
		delete(c.channels, f.Channel)
	case f.Method == ConfirmSelect:
		ch.confirming = true
	case f.Method.hasContent():
		ch.sending[f.From] = &message{method: f}
	case f.Kind == KindHeader || f.Kind == KindBody:
		if m := ch.sending[f.From]; m != nil && m.add(f) {
			ch.sending[f.From] = nil
			t.message(ch, m)
		}
	case f.From == Client && (f.Method == Ack || f.Method == Nack || f.Method == Reject):
		t.settle(ch, f)
	case f.From == Server && (f.Method == Ack || f.Method == Nack):
		t.confirm(ch, f)
	}
}

// closed forgets what a channel had: the broker will deliver it again.
func (c *traced) closed(ch *channel) {
	for _, d := range ch.open {
		if d.key != "" {
			c.trace.task(d.key).outstanding--
		}
	}
}

// ended forgets what a connection had.
func (c *traced) ended() {
	if c == nil {
		return
	}
	c.trace.mu.Lock()
	defer c.trace.mu.Unlock()
	c.over = true
	for number, ch := range c.channels {
		c.closed(ch)
		delete(c.channels, number)
	}
}

// add takes one more frame of the message; true when it is all there.
func (m *message) add(f *Frame) bool {
	if f.Kind == KindHeader {
		m.header = f
	} else {
		m.body = append(m.body, f.payload...)
	}
	return m.header != nil && uint64(len(m.body)) >= m.header.BodySize
}

func (t *Trace) message(ch *channel, m *message) {
	switch f := m.method; f.Method {
	case Deliver, GetOK:
		t.delivered(ch, m)
	case Publish:
		t.publish(ch, m)
	case Return:
		t.counts.Returned++
		for n := ch.oldest; n <= ch.published; n++ {
			if p := ch.waiting[n]; p != nil && !p.returned && p.id == m.header.MessageID && p.key == f.Key &&
				p.exchange == f.Exchange {
				p.returned = true
				break
			}
		}
	}
}
