package dead

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"unicode/utf8"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// List lists what is in task.dead (see httpapi.Source).
func (q *Queue) List(ctx context.Context, s Session, f view.DeadFilter) (l view.DeadList, err error) {
	none := func(*view.DeadMessage) bool { return false }
	err = q.hold(ctx, s, none, func(all []*letter, more bool) {
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

// Get gives one message, with its body if that is asked for; found is false when it is not there.
func (q *Queue) Get(ctx context.Context, s Session, key string, body bool) (m view.DeadMessage, found bool, err error) {
	is := func(m *view.DeadMessage) bool { return m.Key == key }
	err = q.hold(ctx, s, is, func(all []*letter, _ bool) {
		i := slices.IndexFunc(all, func(l *letter) bool { return is(&l.DeadMessage) })
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

// Resend publishes messages anew, and takes those out of task.dead of which the broker has confirmed that.
func (q *Queue) Resend(ctx context.Context, s Session, keys []string) (view.DeadDone, error) {
	return q.act(ctx, s, keys, func(chosen []*letter, done *view.DeadDone) {
		type sent struct {
			*letter
			answer <-chan bus.Outcome
		}
		var under []sent
		for _, l := range chosen {
			if l.ResendTo == "" {
				done.Kept = append(done.Kept, view.DeadKept{Key: l.Key, Why: l.ResendNot})
				continue
			}
			p, err := q.again(&l.delivery, l.ResendTo)
			var answer <-chan bus.Outcome
			if err == nil {
				answer, err = s.Send(p)
			}
			if err != nil {
				done.Kept = append(done.Kept, view.DeadKept{Key: l.Key, Why: messages.Clean(err.Error(), messages.MaxText)})
				continue
			}
			under = append(under, sent{l, answer})
		}
		for _, one := range under {
			outcome := await(ctx, s, one.answer)
			if outcome != bus.Confirmed {
				why := fmt.Sprintf("%s did not take it (%s)", one.ResendTo, outcome)
				if outcome == bus.Unknown {
					why = "the broker has not confirmed it in time: there may be a copy in " + one.ResendTo
				}
				done.Kept = append(done.Kept, view.DeadKept{Key: one.Key, Why: why})
				continue
			}
			failpoint.Hit(failpoint.AfterConfirmBeforeAck)
			one.ack(s)
			done.Done = append(done.Done, one.Key)
		}
	})
}

// Drop takes messages out of the queue for good.
func (q *Queue) Drop(ctx context.Context, s Session, keys []string) (view.DeadDone, error) {
	return q.act(ctx, s, keys, func(chosen []*letter, done *view.DeadDone) {
		for _, l := range chosen {
			l.ack(s)
			done.Done = append(done.Done, l.Key)
		}
	})
}

// act lets do work on the messages of these keys. What is not there is said so.
func (q *Queue) act(ctx context.Context, s Session, keys []string,
	do func(chosen []*letter, done *view.DeadDone)) (done view.DeadDone, err error) {
	missing := make(map[string]bool, len(keys))
	for _, key := range keys {
		missing[key] = true
	}
	wanted := func(m *view.DeadMessage) bool { _, is := missing[m.Key]; return is }
	err = q.hold(ctx, s, wanted, func(all []*letter, _ bool) {
		chosen := slices.DeleteFunc(slices.Clone(all), func(l *letter) bool { return !wanted(&l.DeadMessage) })
		for _, l := range chosen {
			missing[l.Key] = false
		}
		do(chosen, &done)
	})
	if err != nil {
		return done, err
	}
	for _, key := range keys {
		if missing[key] {
			done.Kept = append(done.Kept, view.DeadKept{Key: key, Why: "no message of this key is in task.dead (any more)"})
		}
	}
	return done, nil
}
