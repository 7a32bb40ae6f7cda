package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// answersPrefetch is how many answers the broker may have sent that are not printed yet.
const answersPrefetch = 100

// outcomes are what becomes of the tasks of one run, as their answers tell.
type outcomes struct {
	queue   string // the run's own, to which the answers go
	app     *cli.App
	decoder *messages.Decoder
	ack     func(bus.Tag)
	changed chan struct{} // capacity 1: there was an answer

	mu       sync.Mutex
	awaited  map[coordinator.TaskID]int // by how many lines
	lines    map[int]coordinator.TaskID // published, and not known to be refused by the broker
	sum      outcomeSummary
	printErr error // the first
}

// outcomeSummary counts them.
type outcomeSummary struct {
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Unanswered int `json:"unanswered"`
}

func (s *outcomeSummary) bad() bool { return s != nil && s.Failed+s.Unanswered > 0 }

// newOutcomes returns what awaits nothing yet.
func newOutcomes(a *cli.App, set *schemas.Set) *outcomes {
	largest := messages.Limits{MaxBytes: maxLine, MaxOutput: maxLine} // however the coordinator is configured
	return &outcomes{
		app: a, decoder: messages.NewDecoder(set, largest),
		changed: make(chan struct{}, 1), awaited: make(map[coordinator.TaskID]int), lines: make(map[int]coordinator.TaskID),
	}
}

// await notes that the task of a line is about to be published.
func (o *outcomes) await(line int, id coordinator.TaskID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited[id]++
	o.lines[line] = id
}

// published hears whether the broker has the task of a line: without it there will be no answer.
func (o *outcomes) published(line int, confirmed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id, known := o.lines[line]
	delete(o.lines, line)
	if !known || confirmed {
		return
	}
	if n := o.awaited[id]; n > 1 {
		o.awaited[id]--
	} else {
		delete(o.awaited, id)
	}
}

// left is how many are not answered yet.
func (o *outcomes) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.awaited)
}

// answered takes a message of the run's own queue. An answer that comes again, or to another task, counts for nothing.
func (o *outcomes) answered(d bus.Delivery) {
	defer o.ack(d.Tag)
	var id coordinator.TaskID
	var text string
	good := false
	switch d.Type {
	case schemas.TaskCompleted:
		m, refusal := o.decoder.DecodeTaskCompleted(d.Body)
		if refusal != nil {
			return
		}
		id, text, good = m.TaskID, completedText(m), m.Outcome == messages.Succeeded
	case schemas.AssignmentFailed:
		m, refusal := o.decoder.DecodeAssignmentFailed(d.Body)
		if refusal != nil {
			return
		}
		id, text = m.TaskID, fmt.Sprintf("%s  failed  %s: %s", m.TaskID, m.ReasonCode, m.Reason)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, awaited := o.awaited[id]; !awaited {
		return
	}
	delete(o.awaited, id)
	if good {
		o.sum.Succeeded++
	} else {
		o.sum.Failed++
	}
	if err := o.print(text, d.Body); o.printErr == nil {
		o.printErr = err
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// print prints one answer: a line of text, or the message as it came, on one line.
func (o *outcomes) print(text string, body []byte) error {
	if o.app.Output != cli.OutputJSON {
		return o.app.Text(func(p *cli.Page) { p.Line("%s", text) })
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := o.app.Out.Write(line.Bytes())
	return err
}

// completedText says how a task ended: its id, outcome and agent, and what was found out or went wrong.
func completedText(m *messages.TaskCompleted) string {
	said := m.Error
	switch {
	case said != "":
	case m.OutputRef != nil:
		said = m.OutputRef.URI
	default:
		said = string(m.Output)
	}
	return fmt.Sprintf("%s  %s  %s  %s", m.TaskID, m.Outcome, m.AgentID, said)
}

// summary counts what was answered so far, and what was not.
func (o *outcomes) summary() (*outcomeSummary, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sum
	s.Unanswered = len(o.awaited)
	return &s, o.printErr
}
