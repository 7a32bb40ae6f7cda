package journal

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// Whatever is written is read again, and reading allocates nothing that the writer's
// records share.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := anyHeader(t)
		var records []coordinator.Record
		for range rapid.IntRange(0, 6).Draw(t, "records") {
			records = append(records, anyRecord(t))
		}
		chunk := Chunk{Snapshot: "s", Number: rapid.IntRange(0, 9).Draw(t, "chunk"), Last: rapid.Bool().Draw(t, "last"),
			Leader: Epoch{"nonce", "host-1", "10.0.0.1:8551", "1.4.0", rapid.SampledFrom(someTexts).Draw(t, "agents"),
				rapid.SampledFrom(someTexts).Draw(t, "quotas"), nil}, Since: anyTime(t)}
		if rapid.Bool().Draw(t, "lost") {
			chunk.Leader.Lost = &Loss{At: anyTime(t), Evidence: []string{"marks"}, Budgets: rapid.SampledFrom(someTexts).
				Draw(t, "budgets"), Restored: rapid.Bool().Draw(t, "restored")}
		}

		want := Message{Header: h, Records: records}
		want.Kind, want.Version, want.Count = KindBatch, FormatVersion, len(records)
		same(t, AppendBatch(nil, h, records), want)

		want.Kind, want.Chunk = KindSnapshot, &chunk
		same(t, AppendSnapshot([]byte("before")[6:], h, chunk, records), want)

		want = Message{Header: h, Epoch: &chunk.Leader}
		want.Kind, want.Version = KindEpoch, FormatVersion
		same(t, AppendEpoch(nil, h, *want.Epoch), want)
	})
}

func same(t *rapid.T, body []byte, want Message) {
	t.Helper()
	got, err := Decode(body)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	for i, r := range want.Records {
		if i < len(got.Records) && !reflect.DeepEqual(got.Records[i], r) {
			t.Fatalf("record %d: read\n%+v\nwritten\n%+v", i, got.Records[i], r)
		}
	}
	if !reflect.DeepEqual(*got, want) {
		t.Fatalf("read   %+v\nwritten %+v", *got, want)
	}
	head, err := DecodeHeader(body)
	if err != nil || head != want.Header {
		t.Fatalf("header %+v, %v; want %+v", head, err, want.Header)
	}
	head, chunk, ok, err := DecodeChunk(body)
	if err != nil || head != want.Header || ok != (want.Chunk != nil) || ok && !reflect.DeepEqual(chunk, *want.Chunk) {
		t.Fatalf("chunk %+v %+v %v %v", head, chunk, ok, err)
	}
}

// Every type of record has a place in the format: a new one that this package does
// not know fails here, not in production.
func TestEveryRecordHasAPlace(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "../record.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var declared, known []string
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv != nil && f.Name.Name == "record" {
			declared = append(declared, f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
		}
	}
	for _, r := range recordTypes[1:] {
		known = append(known, strings.TrimPrefix(reflect.TypeOf(r).String(), "*coordinator."))
	}
	slices.Sort(declared)
	slices.Sort(known)
	if !slices.Equal(declared, known) {
		t.Errorf("coordinator/record.go has the records %q, the format %q: give the new one a number in recordTypes",
			declared, known)
	}
}

// A record that refers to no task is written with an empty one: what is in the
// journal can always be read.
func TestRecordWithoutATask(t *testing.T) {
	m, err := Decode(AppendBatch(nil, Header{First: 1}, []coordinator.Record{&coordinator.Assigned{Agent: "a"}}))
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Records[0].(*coordinator.Assigned); r.Agent != "a" || r.Task == nil || r.Task.ID != "" {
		t.Errorf("read %+v", r)
	}
}

// seal makes a message of raw bytes after the checksum: version, kind, and what
// follows.
func seal(rest []byte) []byte {
	body := append([]byte(magic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(body[len(magic):], crc32.Checksum(rest, castagnoli))
	return append(body, rest...)
}

// later is a message of a later version of taskbus: a batch with this record, as that
// version writes it.
func later(kind byte, write func(c *coder)) []byte {
	var c coder
	c.begin(goldenAt)
	write(&c)
	c.finish(kind)
	return c.appendMessage(nil, Header{Kind: KindBatch, Count: 1, At: goldenAt}, nil)
}

// fieldsOf writes the fields of a record.
func fieldsOf(c *coder, r coordinator.Record) {
	records.of(r).fields.write(c, reflect.ValueOf(r).UnsafePointer())
}

// What a later version adds is passed over; what it would be wrong to pass over is refused, and so is what an
// earlier version has written otherwise.
func TestOtherVersions(t *testing.T) {
	settled := goldenRecords()[1].(*coordinator.Settled)
	earlier, err := hex.DecodeString(strings.TrimSpace(settledOfVersion1))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		body []byte
		want string // of the error; empty: the record settled
	}{
		{"more fields", later(2, func(c *coder) {
			c.write(99<<3 | wireBytes)
			c.part(func() { c.write(7) })
			fieldsOf(c, settled)
			c.write(17<<3 | wireVarint)
			c.write(1 << 40)
			c.write(18<<3 | wireFixed)
			c.writeWord(1)
		}), ""},
		{"one more field, and a string of its own", later(2, func(c *coder) {
			fieldsOf(c, settled)
			c.write(99<<3 | wireVarint)
			c.write(c.reference("new"))
		}), ""},
		{"a kind of record", later(byte(len(recordTypes)), func(c *coder) { c.write(1) }), fmt.Sprintf(
			"kind of record %d, and this version of taskbus knows them up to %d", len(recordTypes), len(recordTypes)-1)},
		{"a kind of message", seal([]byte{FormatVersion, 77, 0}),
			"kind of message 77, and this version of taskbus knows them up to 5"},
		{"a later version of the format", seal([]byte{FormatVersion + 1, 1, 0xff}),
			"format version 3, and this version of taskbus knows them up to 2: a newer version of taskbus wrote it; " +
				"start that version, or a later one"},
		{"the first version of the format", earlier,
			"format version 1, and this version of taskbus reads only 2: an older version of taskbus wrote it; " +
				"start that version, or begin with an empty journal (docs/howto/backup.md, \"When the journal cannot be read\")"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode(c.body)
			var other *VersionError
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "":
				if m.Count != 1 {
					t.Errorf("read %d records", m.Count)
				}
				if r := m.Records[0].(*coordinator.Settled); *r != *settled {
					t.Errorf("read %+v, want %+v", r, settled)
				}
			case !errors.As(err, &other) || !strings.Contains(err.Error(), c.want):
				t.Errorf("error %v, want a VersionError with %q", err, c.want)
			}
		})
	}
}

// settledOfVersion1 is a batch with a Settled, as format version 1 had it.
//
//go:embed testdata/settled-1.txt
var settledOfVersion1 string

// Tasks grow within the records that hold them, and what an earlier version has not written is zero.
func TestOtherFieldsOfATask(t *testing.T) {
	body := later(13, func(c *coder) {
		c.write(1<<3 | wireBytes)
		c.part(func() {
			c.write(1<<3 | wireBytes)
			c.part(func() { c.body = append(c.body, "task-1"...) })
			c.write(99<<3 | wireVarint)
			c.write(98)
		})
	})
	m, err := Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	if want := (&coordinator.Owed{Task: &coordinator.Task{ID: "task-1"}}); !reflect.DeepEqual(m.Records[0],
		coordinator.Record(want)) {
		t.Errorf("read %+v, want %+v", m.Records[0], want)
	}
}

// A single bit that is wrong, or a byte that is missing, is noticed.
func TestDamageIsNoticed(t *testing.T) {
	_, messages := goldenMessages()
	for _, body := range messages {
		for bit := range 8 * len(body) {
			bad := slices.Clone(body)
			bad[bit/8] ^= 1 << (bit % 8)
			expectCorrupt(t, bad)
		}
		for n := range len(body) {
			expectCorrupt(t, body[:n])
		}
		expectCorrupt(t, append(slices.Clone(body), 0))
	}
}

// Values that cannot be are refused though the checksum is right.
func TestImpossibleValues(t *testing.T) {
	key := coordinator.TaskKey{1, 2}
	field := func(kind byte, tag uint64, write func(c *coder)) []byte {
		return later(kind, func(c *coder) { c.write(tag); write(c) })
	}
	huge := func(c *coder) { c.write(1 << 60) }
	for name, body := range map[string][]byte{
		"fate": AppendBatch(nil, Header{},
			[]coordinator.Record{&coordinator.Remembered{Key: key, Fate: coordinator.NumFates}}),
		"attribution": AppendBatch(nil, Header{},
			[]coordinator.Record{&coordinator.Learnt{Attribution: coordinator.NumAttributions}}),
		"order": AppendBatch(nil, Header{}, []coordinator.Record{&coordinator.Ordered{Order: 3}}),
		"state": AppendBatch(nil, Header{}, []coordinator.Record{&coordinator.BreakerChanged{State: 3}}),
		"reason": AppendBatch(nil, Header{},
			[]coordinator.Record{&coordinator.Remembered{Why: coordinator.Reason(len(coordinator.Reasons()) + 1)}}),
		"priority": AppendBatch(nil, Header{},
			[]coordinator.Record{&coordinator.Assigned{Task: &coordinator.Task{Priority: 4}}}),
		"length of a list":   field(11, 1<<3|wireBytes, func(c *coder) { c.part(func() { huge(c) }) }),
		"length of a text":   field(13, 1<<3|wireBytes, huge),
		"half a key":         field(14, 1<<3|wireBytes, func(c *coder) { c.part(func() { c.writeWord(key[0]) }) }),
		"number of a name":   field(10, 1<<3|wireVarint, huge),
		"another wire type":  field(10, 1<<3|wireFixed, func(c *coder) { c.writeWord(1) }),
		"no wire type":       field(10, 99<<3|5, func(*coder) {}),
		"a nanosecond":       field(2, 3<<3|wireBytes, func(c *coder) { c.part(func() { c.write(1); c.write(1 << 40) }) }),
		"more than it holds": seal([]byte{FormatVersion, byte(KindBatch), 2, 3 << 3, 4, 14, 0}),
		"a wrong offset":     AppendBatch(nil, Header{ResultOffset: -2}, nil),
	} {
		t.Run(name, func(t *testing.T) { expectCorrupt(t, body) })
	}
}

func expectCorrupt(t *testing.T, body []byte) {
	t.Helper()
	var damaged *CorruptError
	if _, err := Decode(body); !errors.As(err, &damaged) {
		t.Fatalf("%x: error %v, want a CorruptError", body, err)
	}
}
