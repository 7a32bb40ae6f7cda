package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// What a Trace makes of each frame.

func (t *Trace) delivered(ch *channel, m *message) {
	d := &delivery{queue: m.method.Queue}
	ch.newest = max(ch.newest, m.method.Tag)
	ch.open[m.method.Tag] = d
	switch {
	case d.queue == streamResult:
		key, _ := about(m.body)
		t.task(key).ended = true
	case d.queue == queueAssign || d.queue == queueAssignHigh || d.queue == queueReassign ||
		strings.HasPrefix(d.queue, prefixLane) || strings.HasPrefix(d.queue, "agent.") && d.queue != "agent.status":
		d.key, d.attempt = about(m.body)
		d.hash = hashKey(m.body)
		if d.queue == queueAssign || d.queue == queueAssignHigh || strings.HasPrefix(d.queue, prefixLane) {
			d.attempt = 0
		}
		task := t.task(d.key)
		if strings.HasPrefix(d.queue, prefixLane) { // if its move was not seen, it was
			task.laned = max(task.laned, 1)
		}
		if task.outstanding++; task.outstanding == 1 {
			task.came = t.now
		}
		t.counts.Delivered++
	}
}

func (t *Trace) publish(ch *channel, m *message) {
	f := m.method
	t.counts.Published[f.Key]++
	ch.published++
	p := &publication{exchange: f.Exchange, key: f.Key, id: m.header.MessageID, at: t.now}
	switch {
	case f.Exchange == "" && strings.HasPrefix(f.Key, prefixLane):
		p.task, _ = about(m.body)
	case f.Exchange == "" && f.Key == queueDead:
		p.task = hashKey(m.body)
	case f.Exchange == exchangeEvents && strings.HasPrefix(f.Key, keyFailed), f.Exchange == "" && f.Key == keyFailed,
		m.header.Type == "task.dispatch":
		p.task, p.attempt = about(m.body)
	}
	if m.header.Type == "task.dispatch" {
		t.checkJournal(p)
	}
	if ch.confirming {
		ch.waiting[ch.published] = p
	}
}

// checkJournal holds a dispatch to "no journal confirm, no dispatch": since the task
// came to the client something must have been written, and confirmed.
func (t *Trace) checkJournal(p *publication) {
	if !t.Journal {
		return
	}
	task := t.tasks[p.task]
	if task == nil || task.outstanding == 0 {
		return // decided for a lease that has no delivery behind it
	}
	if came := task.came; came >= t.journalled {
		t.violated("WAL",
			"%s was dispatched (attempt %d) and nothing that was written to the journal since it came had been confirmed",
			p.task, p.attempt)
	}
}

// confirm is the broker's answer to publications.
func (t *Trace) confirm(ch *channel, f *Frame) {
	first := f.Tag
	if f.Multiple {
		first = ch.oldest
	}
	last := f.Tag
	if f.Multiple && f.Tag == 0 {
		last = ch.published
	}
	for n := first; n <= last; n++ {
		p := ch.waiting[n]
		if p == nil {
			continue
		}
		delete(ch.waiting, n)
		switch {
		case f.Method == Nack:
			t.counts.Nacked++
		case !p.returned:
			t.confirmed(p)
		}
	}
	for ch.oldest <= ch.published && ch.waiting[ch.oldest] == nil {
		ch.oldest++
	}
}

func (t *Trace) confirmed(p *publication) {
	t.counts.Confirmed[p.key]++
	if p.key == streamJournal {
		t.journalled = max(t.journalled, p.at)
	}
	if p.task == "" {
		return
	}
	task := t.task(p.task)
	if strings.HasPrefix(p.key, prefixLane) {
		task.laned++
		return
	}
	if p.attempt > 0 && p.key != keyFailed && !strings.HasPrefix(p.key, keyFailed) {
		task.dispatched = max(task.dispatched, p.attempt)
	} else {
		task.failed = true
	}
}

// settle is the client's word on deliveries.
func (t *Trace) settle(ch *channel, f *Frame) {
	if _, open := ch.open[f.Tag]; !open && f.Tag != 0 {
		t.violated("S15", "%s of the delivery %d, which its channel does not hold (the newest was %d)", settling(f), f.Tag,
			ch.newest)
	}
	tags := []uint64{f.Tag}
	if f.Multiple {
		tags = tags[:0]
		for tag := range ch.open {
			if f.Tag == 0 || tag <= f.Tag {
				tags = append(tags, tag)
			}
		}
		slices.Sort(tags)
	}
	for _, tag := range tags {
		if d := ch.open[tag]; d != nil {
			delete(ch.open, tag)
			t.settled(d, f)
		}
	}
}

func (t *Trace) settled(d *delivery, f *Frame) {
	if d.key == "" {
		return
	}
	task := t.task(d.key)
	task.outstanding--
	if f.Method != Ack {
		t.counts.Refused++
		return
	}
	t.counts.Acked++
	if strings.HasPrefix(d.queue, prefixLane) {
		task.laned--
	}
	if task.settledFor(d) || task.outstanding > 0 {
		return
	}
	if parked := t.tasks[d.hash]; parked != nil && parked.failed {
		return
	}
	t.violated("S2",
		"%s of %s was acknowledged, and neither a dispatch of it beyond attempt %d nor a failure had been confirmed",
		printable(d.key), d.queue, d.attempt)
}

// settledFor tells whether a delivery has led to what the broker has confirmed.
func (t *traceTask) settledFor(d *delivery) bool {
	return t.failed || t.ended || t.dispatched > d.attempt || t.laned > 0
}

func settling(f *Frame) string {
	switch f.Method {
	case Ack:
		return "a basic.ack"
	case Nack:
		return "a basic.nack"
	default:
		return "a basic.reject"
	}
}

func printable(k taskKey) string {
	if body, ok := strings.CutPrefix(string(k), "sha256:"); ok {
		return fmt.Sprintf("the message with the SHA-256 %x…", body[:6])
	}
	return string(k)
}
