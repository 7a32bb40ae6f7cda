package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/schemas"
)

// SubmitTask puts a task into the queue in which producers put theirs (see httpapi.Source). One that stands by does it
// as well: whichever leads reads it there.
func (s *Service) SubmitTask(ctx context.Context, t httpapi.Submission) (id string, err error) {
	p, task, err := s.submitted(&t)
	if err != nil {
		return "", err
	}
	id = string(task.TaskID)
	r := s.current.Load()
	switch {
	case r == nil:
		return id, s.withoutSession("cannot publish now; submit it to")
	case r.draining.Load():
		return id, errors.New("this coordinator is stopping")
	case r.outbox.Waiting() >= outbox.Most:
		return id, errors.New("too much waits to be published: the broker is slow, or holds publishers up")
	}
	if err := s.otherTask(ctx, task.TaskID, xxhash.Sum64(p.Body)); err != nil {
		return id, err
	}
	p.UserID = r.userID()
	return id, r.publishAwaited(ctx, p)
}

// submitted reads what a producer submits: as its message will be, but for what says which session sends it.
func (s *Service) submitted(t *httpapi.Submission) (p bus.Publication, m *messages.TaskAssign, err error) {
	id := "http-" + rand.Text()
	if t.Key != "" {
		sum := sha256.Sum256([]byte("idempotency key\n" + t.Key))
		id = "http-" + hex.EncodeToString(sum[:16])
	}
	body := messages.Completed(t.Body, messages.Missing{Name: "message_type", Value: `"` + schemas.TaskAssign + `"`},
		messages.Missing{Name: "task_id", Value: `"` + id + `"`})
	m, refusal := s.decoder.DecodeTaskAssign(body)
	if refusal == nil && len(m.Unknown) > 0 && s.config.Load().StrictMessages {
		refusal = s.decoder.RefuseUnknown(schemas.TaskAssign, m.Unknown[0])
	}
	switch {
	case refusal != nil:
		return p, nil, &httpapi.BadTask{Text: refusal.Text, TooLarge: refusal.Keyword == "size"}
	case t.Key != "" && string(m.TaskID) != id:
		return p, nil, &httpapi.BadTask{Text: "/task_id: Idempotency-Key stands for it; give one of the two"}
	}
	headers := make(map[string]any, 2)
	outbox.AddTrace(headers, &coordinator.Task{TraceParent: t.TraceParent, TraceState: t.TraceState})
	return bus.Publication{
		Key: bus.AssignQueue(int(m.Priority)),
		Properties: bus.Properties{
			ContentType: outbox.ContentJSON, Type: schemas.TaskAssign, MessageID: string(m.TaskID), AppID: outbox.AppID,
			Timestamp: s.now(), Headers: headers,
		},
		Body: body,
	}, m, nil
}

// otherTask is httpapi.ErrOtherTask when a task with this id and other content is known that stands in its way. The
// duplicate check has the last word: it hears of a task when that is read, and a standby of one that waits never.
func (s *Service) otherTask(ctx context.Context, id coordinator.TaskID, content uint64) error {
	var known *coordinator.Remembered
	err := s.loop.query(ctx, func(now time.Time, e *engine.Engine) { known = e.Known(now, id) })
	switch {
	case err != nil:
		return fmt.Errorf("ask the engine: %w", err)
	case known == nil || known.Content == content || known.Fate.MayComeAgain() ||
		known.Fate == coordinator.FateWithdrawn:
		return nil
	}
	return httpapi.ErrOtherTask
}

// TaskStory returns a task with its attempts (see httpapi.Source).
func (s *Service) TaskStory(ctx context.Context, id string) (view.TaskStory, bool) {
	return s.reading.Story(ctx, id)
}

// WatchTask tells of a task's changes (see httpapi.Source).
func (s *Service) WatchTask(id string) (news <-chan struct{}, stop func()) {
	w := s.history.Watch(coordinator.TaskID(id))
	return w.News, w.Stop
}

// TaskOutput returns what an agent has found out with a task (see httpapi.Source).
func (s *Service) TaskOutput(task, agent string) *coordinator.Output {
	return s.outputs.Of(coordinator.TaskID(task), coordinator.AgentID(agent))
}
