package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/schemas"
)

// submit publishes every line as it stands, and sees it confirmed.
func submit(ctx context.Context, b bus.Bus, lines [][]byte, accounts *ledger) error {
	settled := make(chan bus.Outcome, len(lines))
	session, err := b.Open(ctx, bus.SessionSpec{
		Name: "taskbus-demo-producer", Topology: bus.Topology{Mode: bus.Off},
		OnSettled: func(_ uint64, o bus.Outcome) { settled <- o },
	})
	if err != nil {
		return fmt.Errorf("connect the producer: %w", err)
	}
	defer closeSession(session)
	for i, line := range lines {
		accounts.expect(taskID(line))
		err := session.Publish(bus.Publication{
			Token: uint64(i), Key: queueOf(line),
			Properties: bus.Properties{ContentType: "application/json", Type: schemas.TaskAssign,
				Timestamp: time.Now()},
			Body: line,
		})
		if err != nil {
			return fmt.Errorf("publish task %d: %w", i+1, err)
		}
	}
	for range lines {
		select {
		case o := <-settled:
			if o != bus.Confirmed {
				return fmt.Errorf("the broker did not confirm a task: %s", o)
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the broker's confirms: %w", ctx.Err())
		}
	}
	return nil
}

// queueOf is where a line is published: by its priority, and with the rest where that is not one.
func queueOf(line []byte) string {
	var m struct {
		Priority *int `json:"priority"`
	}
	if json.Unmarshal(line, &m) != nil || m.Priority == nil || *m.Priority > int(coordinator.PriorityCritical) {
		return bus.QueueAssign
	}
	return bus.AssignQueue(*m.Priority)
}

// run keeps one demo's tasks apart from those that an interrupted one left behind,
// which would else be taken for the originals of its copies.
type run string

func newRun() run {
	var id [3]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return run(runMark + hex.EncodeToString(id[:]))
}

// runMark begins what a run adds to its task ids.
const runMark = ":demo-"

// rename adds the run to a line's task id; a line without one stays as it is.
func (r run) rename(line []byte) []byte {
	id := taskID(line)
	if id == "" {
		return line
	}
	return bytes.Replace(line, []byte(`"task_id":"`+string(id)+`"`), []byte(`"task_id":"`+string(id)+string(r)+`"`), 1)
}

// shown is a task id as it stands in the file.
func shown(id coordinator.TaskID) string {
	name, _, _ := strings.Cut(string(id), runMark)
	return name
}

// taskID reads the id out of a line; empty when there is none.
func taskID(line []byte) coordinator.TaskID {
	var m struct {
		TaskID coordinator.TaskID `json:"task_id"`
	}
	if json.Unmarshal(line, &m) != nil {
		return ""
	}
	return m.TaskID
}

// awaitAll waits until every task has its outcome.
func awaitAll(ctx context.Context, l *ledger, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for len(l.open()) > 0 {
		select {
		case <-l.changed:
		case <-timeout.C:
			return nil // the summary says which
		case <-ctx.Done():
			return fmt.Errorf("interrupted before every task had its outcome: %w", ctx.Err())
		}
	}
	return nil
}
