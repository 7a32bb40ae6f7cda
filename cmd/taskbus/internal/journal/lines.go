package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/journal"
)

// entry is one thing that happened, as the journal has it.
type entry struct {
	Offset int64 `json:"offset"`
	// Record is its number; 0 for what is no record of its own.
	Record uint64    `json:"record,omitempty"`
	Epoch  uint64    `json:"epoch"`
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"`
	// Void: its writer did not lead any more.
	Void bool `json:"void,omitempty"`
	// Task is empty where nothing but its key is known; for records of quotas TaskKey is that of
	// the reservation.
	Task    string `json:"task_id,omitempty"`
	TaskKey string `json:"task_key,omitempty"`
	Agent   string `json:"agent_id,omitempty"`
	Text    string `json:"text"`

	record coordinator.Record
}

// task is how people read which task it is.
func (l *entry) task() string {
	if l.Task == "" && l.TaskKey != "" {
		return "#" + l.TaskKey[:8]
	}
	return l.Task
}

// concerns reports whether it is about the task of that key, or about a batch with that task.
func (l *entry) concerns(key coordinator.TaskKey) bool {
	if sealed, is := l.record.(*coordinator.BatchSealed); is && slices.Contains(sealed.Tasks, key) {
		return true
	}
	return l.TaskKey == keyText(key)
}

// teller puts messages of the journal into words, in their order. It keeps the ids of the tasks and the agents of the
// reservations that are open: most records have no more than a key.
type teller struct {
	epoch uint64
	open  map[coordinator.TaskKey]openTask
	// parts and records of the snapshot that is being written.
	parts, records int
	joiner         journal.Joiner
}

type openTask struct {
	id    coordinator.TaskID
	agent coordinator.AgentID
}

func newTeller() *teller {
	return &teller{open: map[coordinator.TaskKey]openTask{}}
}

// linesOf says what a message says; a damaged one says so. The records of a snapshot are
// not news, and left out. The error is a *journal.VersionError.
func (t *teller) linesOf(e journal.Exported) ([]entry, error) {
	body, err := t.joiner.Take(e.Body)
	if err != nil {
		return damagedLine(e.Offset, err)
	}
	if body == nil {
		return nil, nil // a piece of a message, of which its last makes a line
	}
	m, err := journal.Decode(body)
	if err != nil {
		return damagedLine(e.Offset, err)
	}
	line := entry{Offset: e.Offset, Epoch: m.Header.Epoch, At: m.At, Kind: m.Kind.String(),
		Void: m.Header.Epoch < t.epoch}
	t.epoch = max(t.epoch, m.Header.Epoch)
	switch m.Kind {
	case journal.KindBatch:
		return t.batch(m, line), nil
	case journal.KindEpoch:
		line.Text = fmt.Sprintf("%s leads in epoch %d", cmp.Or(m.Epoch.Instance, "a coordinator"), m.Header.Epoch)
		if m.Epoch.Address != "" {
			line.Text += ", " + m.Epoch.Address
		}
		if m.Epoch.Version != "" {
			line.Text += ", taskbus " + m.Epoch.Version
		}
		if m.Epoch.Agents != "" {
			line.Text += ", agents.yaml " + m.Epoch.Agents
		}
		if m.Epoch.Quotas != "" {
			line.Text += ", quotas.yaml " + m.Epoch.Quotas
		}
		if m.Epoch.Lost != nil {
			line.Text += ", an earlier journal is lost"
		}
	case journal.KindSnapshot:
		if !t.part(m, &line) {
			return nil, nil
		}
	case journal.KindInputs:
		line.Text = "recorded for replay: " + cli.Count(m.Count, "input")
	}
	return []entry{line}, nil
}

// damagedLine is what can be said of a message that cannot be read.
func damagedLine(offset int64, err error) ([]entry, error) {
	damaged, ok := err.(*journal.CorruptError)
	if !ok {
		if other, ok := err.(*journal.VersionError); ok {
			other.Offset = offset
		}
		return nil, err
	}
	return []entry{{Offset: offset, Kind: "damaged", Text: "cannot be read: " + damaged.Reason}}, nil
}

// part is the line of a snapshot's beginning and its end.
func (t *teller) part(m *journal.Message, line *entry) bool {
	if m.Chunk.Number == 0 {
		t.parts, t.records = 0, 0
	}
	t.parts++
	t.records += m.Count
	switch {
	case m.Chunk.Last:
		line.Text = fmt.Sprintf("a snapshot is complete: %s in %s", cli.Count(t.records, "record"),
			cli.Count(t.parts, "part"))
	case m.Chunk.Number == 0:
		line.Text = fmt.Sprintf("a snapshot begins, of all before record %d", m.First)
	default:
		return false
	}
	return true
}

func (t *teller) batch(m *journal.Message, common entry) []entry {
	lines := make([]entry, 0, len(m.Records))
	for i, r := range m.Records {
		line := common
		line.Record, line.record = m.First+uint64(i), r
		line.Kind = recordKind(r)
		t.record(&line, r)
		lines = append(lines, line)
	}
	return lines
}

// recordKind is the name of a record's type in small letters: "lease_changed".
func recordKind(r coordinator.Record) string {
	return snakeCase(strings.TrimPrefix(fmt.Sprintf("%T", r), "*coordinator."))
}

// record puts one into words.
func (t *teller) record(line *entry, r coordinator.Record) {
	switch r := r.(type) {
	case *coordinator.Assigned:
		t.begin(line, r.Task.ID, r.Agent)
		line.Text = assignedText(r)
	case *coordinator.BatchSealed:
		if len(r.Tasks) > 0 { // the batch is named after its dispatch
			t.byKey(line, r.Tasks[0])
		}
		line.Text = fmt.Sprintf("%s share batch %s", cli.Count(len(r.Tasks), "task"), r.Batch)
	case *coordinator.Settled:
		t.byKey(line, r.Key)
		line.Text = "in its agent's queue"
		switch {
		case r.Attempt == 0:
			line.Text = "a message of it was acknowledged"
		case r.Nowhere:
			line.Text = "acknowledged: the task had ended by then"
		}
	case *coordinator.Readdressed:
		t.byKey(line, r.Key)
		line.Text = "its end is to be told in " + r.ReplyTo
	case *coordinator.Renewed:
		t.byKey(line, r.Key)
		line.Text = "its agent reports progress: its time begins anew"
	case *coordinator.Doubted:
		t.byKey(line, r.Key)
		line.Text = cli.Count(r.Messages, "message") + " of it may be delivered again"
	case *coordinator.LeaseChanged:
		t.byKey(line, r.Key)
		line.Text = leaseText(r)
	case *coordinator.Remembered:
		t.byKey(line, r.Key)
		line.Task, line.Agent = cmp.Or(string(r.ID), line.Task), cmp.Or(string(r.Agent), line.Agent)
		line.Text = fateText(r)
		t.end(line, r.Key)
	case *coordinator.Owed:
		t.begin(line, r.Task.ID, "")
		line.Text = "has failed, to be announced: " + r.Failure.Reason.String()
	case *coordinator.EndedBefore:
		t.begin(line, r.Task.ID, "")
		line.Text = "has ended, perhaps to be announced again"
	case *coordinator.TaskBefore:
		t.begin(line, r.Task.ID, "")
		line.Text = "is shown as " + r.State
	case *coordinator.Paid:
		t.byKey(line, r.Key)
		line.Text = "its failure has been announced"
		t.end(line, r.Key)
	case *coordinator.QuotaReserved:
		if !line.Void {
			t.open[r.Key] = openTask{agent: r.Agent}
		}
		line.TaskKey, line.Agent, line.Text = keyText(r.Key), string(r.Agent), reservedText(r)
	case *coordinator.QuotaExtended:
		t.byKey(line, r.Key)
		line.Text = "more quota is set aside: " + cli.UsedText(&r.More)
	case *coordinator.QuotaEnded:
		t.byKey(line, r.Key)
		if line.Text = endedText(r); r.Late != nil {
			line.Agent = string(r.Late.Agent)
		}
		t.end(line, r.Key)
	case *coordinator.PoolHeard:
		line.Text = heardText(r)
	case *coordinator.QuotaTold:
		line.Text = fmt.Sprintf("announced: %d%% of %s of %s are used or set aside", r.Percent, r.Dimension, r.Node)
	case *coordinator.ShareBefore:
		line.Text = "the turn of group " + r.Group + " has moved while a task of it waits"
	case *coordinator.QuotaControlled:
		line.Text = controlledText(r)
	case *coordinator.LaneKnown:
		line.Text = "lane " + r.Lane + " is empty"
		if r.Known {
			line.Text = "lane " + r.Lane + " may hold tasks"
		}
	default:
		line.Agent, line.Text = agentText(r)
	}
}

// begin is about a task that is open from now on, by its id.
func (t *teller) begin(line *entry, id coordinator.TaskID, agent coordinator.AgentID) {
	key := coordinator.KeyOf(id)
	line.Task, line.TaskKey, line.Agent = string(id), keyText(key), string(agent)
	if !line.Void {
		t.open[key] = openTask{id, agent}
	}
}

// byKey is about the task or reservation of a key. Its id and agent are known while it is open.
func (t *teller) byKey(line *entry, key coordinator.TaskKey) {
	known := t.open[key]
	line.Task, line.TaskKey, line.Agent = string(known.id), keyText(key), string(known.agent)
}

// end is about a task that is open no more.
func (t *teller) end(line *entry, key coordinator.TaskKey) {
	if !line.Void {
		delete(t.open, key)
	}
}
