package service

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// Looking into task.dead, and what operators do with its messages. Each request consumes the queue for a moment, holds
// all of it unacknowledged, acts on some of it and gives the rest back. A message leaves the queue by an
// acknowledgement alone: of one that is sent again after the broker has confirmed the new one. Whatever ends the
// process in between leaves at most a copy.

const (
	// deadScan is how many messages one request looks at.
	deadScan = 20_000
	// deadQuiet is after how long without a message the end of the queue is assumed where the broker counts none,
	// deadPatience where it counts more than have come.
	deadQuiet    = 500 * time.Millisecond
	deadPatience = 2 * time.Second
	// deadRenewed is after how many deliveries a message is put into the queue anew: a quorum queue drops what it has
	// delivered more often than its limit (1,000), and every look is a delivery.
	deadRenewed = 500
	// deadGiveBack bounds what is done after the request has ended.
	deadGiveBack = 5 * time.Second
)

const headerDeliveryCount = "x-delivery-count" // set by quorum queues

// deadLetter is one message of task.dead in hand. The body of delivery is kept only where it is wanted.
type deadLetter struct {
	view.DeadMessage
	delivery bus.Delivery
	settled  bool
}

// deadReader collects what a consumer of task.dead is given. Handle is called by the consumer's goroutine.
type deadReader struct {
	r    *session
	want func(*view.DeadMessage) bool // reports which messages keep their body
	mu   sync.Mutex
	all  []*deadLetter
	over bool
	came chan struct{} // capacity 1
}

func (c *deadReader) Handle(d bus.Delivery) {
	l := &deadLetter{DeadMessage: c.r.describeDead(&d), delivery: d}
	c.mu.Lock()
	over := c.over
	if !over {
		if !c.want(&l.DeadMessage) && deliveries(&d) < deadRenewed {
			l.delivery.Body = nil
		}
		c.all = append(c.all, l)
	}
	c.mu.Unlock()
	if over {
		c.r.bus.Requeue(d.Tag)
		return
	}
	select {
	case c.came <- struct{}{}:
	default:
	}
}

func (c *deadReader) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// end takes what has been collected; what still comes goes back.
func (c *deadReader) end() []*deadLetter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.all
}

// withDead holds the messages of task.dead while act works on them, and gives back what it has not settled.
func (s *Service) withDead(ctx context.Context, want func(*view.DeadMessage) bool,
	act func(r *session, all []*deadLetter, more bool)) error {
	r, err := s.leading()
	if err != nil {
		return err
	}
	select {
	case s.deadInHand <- struct{}{}:
		defer func() { <-s.deadInHand }()
	case <-ctx.Done():
		return errors.New("another request has the messages in hand; try again")
	}
	if state := s.state.read(); state.state == stateBlocked {
		return fmt.Errorf("%s; try again when it has passed", state.detail)
	}
	c := &deadReader{r: r, want: want, came: make(chan struct{}, 1)}
	depth, err := r.bus.Depth(ctx, bus.QueueDead)
	if err != nil {
		return fmt.Errorf("count its messages: %w", err)
	}
	ended := make(chan error, 1)
	err = r.bus.Subscribe(ctx, bus.Subscription{
		Queue: bus.QueueDead, Prefetch: deadScan, OnEnded: func(err error) { ended <- err }, Handle: c.Handle,
	})
	if err != nil {
		return fmt.Errorf("consume it: %w", err)
	}
	err = c.wait(ctx, depth.Ready, ended)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadGiveBack)
	defer cancel()
	_, _ = r.bus.Unsubscribe(after, bus.QueueDead) // of a session that has ended nothing is left
	all := c.end()
	if err == nil {
		act(r, all, depth.Ready > len(all))
	}
	for _, l := range all {
		r.giveDeadBack(after, l)
	}
	return err
}

// wait returns when the queue has been read to its end, or as far as it is read.
func (c *deadReader) wait(ctx context.Context, ready int, ended <-chan error) error {
	for {
		n := c.count()
		if n >= deadScan || ready > 0 && n >= ready {
			return nil
		}
		quiet := deadPatience
		if ready == 0 || n >= ready {
			quiet = deadQuiet
		}
		timer := time.NewTimer(quiet)
		select {
		case <-c.came:
			timer.Stop()
		case <-timer.C:
			return nil
		case err := <-ended:
			timer.Stop()
			return fmt.Errorf("its consumer was ended: %w; try again", err)
		case <-c.r.bus.Done():
			timer.Stop()
			return errors.New("the session with the broker has ended; try again")
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w after %d messages; try again", ctx.Err(), n)
		}
	}
}

// giveDeadBack returns a message to the queue: as it is, or as a new one where the queue would soon drop it.
func (r *session) giveDeadBack(ctx context.Context, l *deadLetter) {
	switch {
	case l.settled:
		return
	case deliveries(&l.delivery) >= deadRenewed && r.publishDead(ctx, renewed(&l.delivery)) == bus.Confirmed:
		r.bus.Ack(l.delivery.Tag)
	default:
		r.bus.Requeue(l.delivery.Tag)
	}
}

// renewed returns the message as it is, but for the headers of the broker that cannot be published.
func renewed(d *bus.Delivery) bus.Publication {
	p := bus.Publication{Key: bus.QueueDead, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration = "", 0
	p.Headers = make(map[string]any)
	for _, name := range []string{messages.HeaderReason, messages.HeaderReasonCode, messages.HeaderSourceQueue, messages.HeaderTask, messages.HeaderTried,
		messages.HeaderDeathReason, messages.HeaderDeathQueue, messages.HeaderTraceParent, messages.HeaderTraceState} {
		if v := messages.TextHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p
}

func deliveries(d *bus.Delivery) int64 {
	n, _ := d.Headers[headerDeliveryCount].(int64)
	return n
}

// publishing is a publication for which a request awaits the answer.
type publishing chan bus.Outcome // capacity 1

func (p publishing) settled(_ *session, outcome bus.Outcome) { p <- outcome }

// beginDead hands a publication to the broker; its outcome comes later.
func (r *session) beginDead(p bus.Publication) (publishing, error) {
	answer := make(publishing, 1)
	p.Token = r.issue(answer)
	if err := r.bus.Publish(p); err != nil {
		r.tickets.Redeem(p.Token)
		return nil, err
	}
	return answer, nil
}

// await returns the broker's answer, or Unknown when ctx ends before.
func (p publishing) await(ctx context.Context, r *session) bus.Outcome {
	select {
	case outcome := <-p:
		return outcome
	case <-r.bus.Done():
	case <-ctx.Done():
	}
	return bus.Unknown
}

func (r *session) publishDead(ctx context.Context, p bus.Publication) bus.Outcome {
	answer, err := r.beginDead(p)
	if err != nil {
		return bus.Unknown
	}
	return answer.await(ctx, r)
}

// deadKey names a message by what it says and where it comes from; renewing it does not change that.
func deadKey(d *bus.Delivery) string {
	h := xxhash.New()
	_, _ = h.Write(d.Body) // never fails
	for _, part := range []string{d.MessageID, messages.TextHeader(d.Headers, messages.HeaderSourceQueue),
		messages.TextHeader(d.Headers, messages.HeaderDeathQueue)} {
		_, _ = h.WriteString("\x00" + part)
	}
	var at [8]byte
	if !d.Timestamp.IsZero() {
		binary.BigEndian.PutUint64(at[:], uint64(d.Timestamp.Unix()))
	}
	_, _ = h.Write(at[:])
	return fmt.Sprintf("%016x", h.Sum64())
}

// describeDead returns what can be said of a message, all but its body.
func (r *session) describeDead(d *bus.Delivery) view.DeadMessage {
	says := r.s.decoder.Sketch(d.Body)
	header := func(name string) string { return messages.TextHeader(d.Headers, name) }
	m := view.DeadMessage{
		Key: deadKey(d), ReasonCode: header(messages.HeaderReasonCode), Reason: header(messages.HeaderReason),
		SourceQueue: cmp.Or(header(messages.HeaderSourceQueue), header(messages.HeaderDeathQueue)),
		MessageType: cmp.Or(says.MessageType, d.Type), TaskID: says.TaskID, TaskType: says.TaskType,
		CorrelationID: cmp.Or(d.CorrelationID, says.CorrelationID), MessageID: d.MessageID, AppID: d.AppID,
		ReplyTo:   d.ReplyTo,
		Timestamp: d.Timestamp, Bytes: len(d.Body),
	}
	if m.ReasonCode == "" {
		m.ReasonCode = messages.TextHeader(d.Headers, messages.HeaderDeathReason)
	}
	if m.Reason == "" && m.ReasonCode != "" {
		m.Reason = "the broker has moved it here: " + brokerSays(m.ReasonCode)
	}
	m.ResendTo, m.ResendNot = r.resendTo(d, &m)
	httpapi.CleanDead(&m)
	return m
}

// brokerSays puts a reason of the broker's into words.
func brokerSays(reason string) string {
	switch reason {
	case "delivery_limit":
		return "it was delivered as often as its queue allows and never acknowledged"
	case "expired":
		return "it waited longer than its expiration, or its queue's, allows"
	case "maxlen":
		return "its queue was full"
	case "rejected":
		return "its consumer rejected it"
	default:
		return messages.Clean(reason, 64)
	}
}

// resendTo returns the queue to which a message can be sent again, or why there is none.
func (r *session) resendTo(d *bus.Delivery, m *view.DeadMessage) (queue, not string) {
	switch {
	case d.Type == outbox.TypeStub:
		return "", "it only stands for a message that could not be kept"
	case m.MessageType == schemas.TaskDispatch && messages.TextHeader(d.Headers, messages.HeaderTask) != "":
		return bus.QueueAssign, ""
	case m.SourceQueue == bus.QueueAssign, m.SourceQueue == bus.QueueAssignHigh, m.SourceQueue == bus.QueueRequest:
		return m.SourceQueue, ""
	case bus.LaneOf(m.SourceQueue) != "":
		return bus.QueueAssign, ""
	case m.MessageType == schemas.TaskAssign:
		return bus.QueueAssign, ""
	default:
		return "", "it is neither a task nor a request; publish it where it belongs and drop it here"
	}
}

// again is the publication that sends a message again. A dispatch becomes the task that it was made of, which begins
// anew: with all its tries, for every agent.
func (r *session) again(d *bus.Delivery, to string) (bus.Publication, error) {
	p := bus.Publication{Key: to, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration = "", 0
	p.Headers = make(map[string]any)
	if header := messages.TextHeader(d.Headers, messages.HeaderTask); header != "" {
		m, refusal := r.s.decoder.DecodeReturned(d.Body, header, "")
		if refusal != nil {
			return p, fmt.Errorf("the task cannot be read out of the dispatch: %s", refusal.Text)
		}
		p.Body = messages.AppendTaskAssign(make([]byte, 0, len(m.Payload)+1024), m.Task, m.Payload)
		p.Type, p.MessageID, p.CorrelationID, p.ReplyTo = schemas.TaskAssign, string(m.Task.ID), m.Task.TraceID,
			m.Task.ReplyTo
	}
	for _, name := range []string{messages.HeaderTraceParent, messages.HeaderTraceState} {
		if v := messages.TextHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p, nil
}

// DeadLetters lists what is in task.dead (see httpapi.Source).
func (s *Service) DeadLetters(ctx context.Context, f view.DeadFilter) (l view.DeadList, err error) {
	err = s.withDead(ctx, func(*view.DeadMessage) bool { return false },
		func(_ *session, all []*deadLetter, more bool) {
			l.Scanned, l.More = len(all), more
			for _, d := range all {
				if !selects(f, &d.DeadMessage) {
					continue
				}
				if l.Matched++; l.Matched <= f.Limit {
					l.Messages = append(l.Messages, d.DeadMessage)
				}
			}
		})
	return l, err
}

func selects(f view.DeadFilter, m *view.DeadMessage) bool {
	return (f.Reason == "" || f.Reason == m.ReasonCode) &&
		(f.Type == "" || f.Type == m.TaskType || f.Type == m.MessageType) &&
		(f.ID == "" || f.ID == m.TaskID || f.ID == m.MessageID || f.ID == m.Key)
}

// DeadLetter gives one message (see httpapi.Source).
func (s *Service) DeadLetter(
	ctx context.Context, key string, body bool,
) (m view.DeadMessage, found bool, err error) {
	is := func(m *view.DeadMessage) bool { return m.Key == key }
	err = s.withDead(ctx, is, func(_ *session, all []*deadLetter, _ bool) {
		i := slices.IndexFunc(all, func(l *deadLetter) bool { return is(&l.DeadMessage) })
		if i < 0 {
			return
		}
		m, found = all[i].DeadMessage, true
		switch text := all[i].delivery.Body; {
		case !body:
		case utf8.Valid(text):
			m.Body = string(text)
		default:
			m.Body, m.Base64 = base64.StdEncoding.EncodeToString(text), true
		}
	})
	return m, found, err
}

// ResendDead publishes messages anew (see httpapi.Source).
func (s *Service) ResendDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return s.actOnDead(ctx, "sent again", keys, func(r *session, chosen []*deadLetter, done *view.DeadDone) {
		type sent struct {
			*deadLetter
			publishing
		}
		var under []sent
		for _, l := range chosen {
			if l.ResendTo == "" {
				done.Kept = append(done.Kept, view.DeadKept{Key: l.Key, Why: l.ResendNot})
				continue
			}
			p, err := r.again(&l.delivery, l.ResendTo)
			var answer publishing
			if err == nil {
				answer, err = r.beginDead(p)
			}
			if err != nil {
				done.Kept = append(done.Kept, view.DeadKept{Key: l.Key, Why: messages.Clean(err.Error(), messages.MaxText)})
				continue
			}
			under = append(under, sent{l, answer})
		}
		for _, one := range under {
			outcome := one.await(ctx, r)
			if outcome != bus.Confirmed {
				why := fmt.Sprintf("%s did not take it (%s)", one.ResendTo, outcome)
				if outcome == bus.Unknown {
					why = "the broker has not confirmed it in time: there may be a copy in " + one.ResendTo
				}
				done.Kept = append(done.Kept, view.DeadKept{Key: one.Key, Why: why})
				continue
			}
			failpoint.Hit(failpoint.AfterConfirmBeforeAck)
			one.ack(r)
			done.Done = append(done.Done, one.Key)
		}
	})
}

// DropDead takes messages out of the queue for good (see httpapi.Source).
func (s *Service) DropDead(ctx context.Context, keys []string) (view.DeadDone, error) {
	return s.actOnDead(ctx, "dropped", keys, func(r *session, chosen []*deadLetter, done *view.DeadDone) {
		for _, l := range chosen {
			l.ack(r)
			done.Done = append(done.Done, l.Key)
		}
	})
}

// ack takes the message out of task.dead.
func (l *deadLetter) ack(r *session) {
	r.bus.Ack(l.delivery.Tag)
	l.settled = true
}

// actOnDead lets act work on the messages of these keys. What is not there is said so.
func (s *Service) actOnDead(ctx context.Context, what string, keys []string,
	act func(r *session, chosen []*deadLetter, done *view.DeadDone)) (done view.DeadDone, err error) {
	missing := make(map[string]bool, len(keys))
	for _, key := range keys {
		missing[key] = true
	}
	wanted := func(m *view.DeadMessage) bool { _, is := missing[m.Key]; return is }
	err = s.withDead(ctx, wanted, func(r *session, all []*deadLetter, _ bool) {
		chosen := slices.DeleteFunc(slices.Clone(all), func(l *deadLetter) bool { return !wanted(&l.DeadMessage) })
		for _, l := range chosen {
			missing[l.Key] = false
		}
		act(r, chosen, &done)
	})
	if err != nil {
		return done, err
	}
	for _, key := range keys {
		if missing[key] {
			done.Kept = append(done.Kept, view.DeadKept{Key: key, Why: "no message of this key is in task.dead (any more)"})
		}
	}
	s.log.Info().Int("messages", len(done.Done)).Int("kept", len(done.Kept)).Msg("messages of task.dead were " + what)
	return done, nil
}
