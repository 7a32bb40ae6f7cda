package journal

import (
	"fmt"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/journal"
	"taskbus/messages"
)

// message is one message with all that is in it.
type message struct {
	Offset         int64     `json:"offset"`
	Kind           string    `json:"kind"`
	Version        uint8     `json:"format_version"`
	Bytes          int       `json:"bytes"`
	Epoch          uint64    `json:"epoch"`
	At             time.Time `json:"at"`
	First          uint64    `json:"first"`
	Count          int       `json:"count"`
	ResultOffset   int64     `json:"result_offset"`
	SnapshotOffset int64     `json:"snapshot_offset"`
	Leader         *leader   `json:"leader,omitempty"`
	Snapshot       *part     `json:"snapshot,omitempty"`
	Piece          *piece    `json:"piece,omitempty"`
	Records        []record  `json:"records,omitempty"`
}

func newMessage(e journal.Exported, m *journal.Message, limit int) message {
	h := m.Header
	p := message{
		Offset: e.Offset, Kind: h.Kind.String(), Version: h.Version, Bytes: len(e.Body), Epoch: h.Epoch, At: h.At,
		First: h.First, Count: h.Count, ResultOffset: h.ResultOffset, SnapshotOffset: h.SnapshotOffset,
	}
	switch {
	case m.Epoch != nil:
		p.Leader = newLeader(*m.Epoch, h.At)
	case m.Chunk != nil:
		p.Leader = newLeader(m.Chunk.Leader, m.Chunk.Since)
		p.Snapshot = &part{Name: m.Chunk.Snapshot, Number: m.Chunk.Number, Last: m.Chunk.Last}
	case m.Piece != nil:
		p.Piece = &piece{Of: m.Piece.Of.String(), From: m.Piece.From, Size: m.Piece.Size}
	}
	for i, r := range m.Records[:min(limit, len(m.Records))] {
		number := uint64(0) // those of a snapshot have none
		if h.Kind == journal.KindBatch {
			number = h.First + uint64(i)
		}
		p.Records = append(p.Records, newRecord(e.Offset, number, h, false, r))
	}
	return p
}

// leader is the leader, since then.
type leader struct {
	Instance string    `json:"instance"`
	Address  string    `json:"address"`
	Version  string    `json:"version"`
	Nonce    string    `json:"nonce"`
	Since    time.Time `json:"since"`
}

func newLeader(e journal.Epoch, since time.Time) *leader {
	return &leader{Instance: e.Instance, Address: e.Address, Version: e.Version, Nonce: e.Nonce, Since: since}
}

// part is which part of which snapshot a message is.
type part struct {
	Name   string `json:"name"`
	Number int    `json:"part"`
	Last   bool   `json:"last"`
}

// piece is which bytes of which message a piece has.
type piece struct {
	Of   string `json:"of"`
	From int    `json:"from"`
	Size int    `json:"size"`
}

// record is one record with all its fields.
type record struct {
	Offset int64             `json:"offset"`
	Number uint64            `json:"record,omitempty"`
	Epoch  uint64            `json:"epoch"`
	At     time.Time         `json:"at"`
	Kind   string            `json:"kind"`
	Void   bool              `json:"void,omitempty"`
	Fields map[string]string `json:"fields"`

	fields []recordField
}

func newRecord(offset int64, number uint64, h journal.Header, void bool, r coordinator.Record) record {
	j := record{Offset: offset, Number: number, Epoch: h.Epoch, At: h.At, Kind: recordKind(r), Void: void,
		Fields: map[string]string{}, fields: fieldsOf(r)}
	for _, f := range j.fields {
		j.Fields[f.name] = f.value
	}
	return j
}

// print shows a record: a heading, then a line for each field.
func (j *record) print(p *cli.Page) {
	heading := j.Kind
	if j.Number > 0 {
		heading = fmt.Sprintf("record %d: %s", j.Number, j.Kind)
	}
	if j.Void {
		heading += " (void)"
	}
	p.Line("%s", heading)
	for _, f := range j.fields {
		p.Line("  %-22s %s", f.name, messages.Clean(f.value, messages.MaxText))
	}
}
