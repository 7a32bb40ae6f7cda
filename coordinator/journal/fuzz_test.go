package journal

import (
	"fmt"
	"runtime"
	"testing"

	"taskbus/coordinator"
)

// expectModest has a message decoded with no more allocated than mostAllocated times its size, what the allocator
// rounds up, and a little: fields that are zero take up no bytes, and Go's values are larger than their encoding.
func expectModest(t *testing.T, body []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = Decode(body)
	runtime.ReadMemStats(&after)
	if used, most := after.TotalAlloc-before.TotalAlloc,
		uint64(mostAllocated*len(body)*5/4+2*allocatedAnyway); used > most {
		t.Errorf("%d bytes allocated for a message of %d", used, len(body))
	}
}

// The values that are largest for their encoding, a message full of each.
func TestDecodeAllocatesLittle(t *testing.T) {
	many := func(r coordinator.Record) []byte {
		records := make([]coordinator.Record, 5000)
		for i := range records {
			records[i] = r
		}
		return AppendBatch(nil, Header{}, records)
	}
	label := coordinator.AgentSpec{Labels: map[string]string{"a": "a"}}
	for name, body := range map[string][]byte{
		"tasks":        many(&coordinator.Owed{Task: &coordinator.Task{Labels: label.Labels}}),
		"agents":       many(&coordinator.Joined{Agents: []coordinator.AgentSpec{label, label, label, label}}),
		"names":        many(&coordinator.Assigned{Tried: make([]coordinator.AgentID, 100)}),
		"the smallest": many(&coordinator.Tracked{}),
		"ids":          many(&coordinator.Remembered{}),
		"strings": seal(append([]byte{FormatVersion, byte(KindBatch), 0},
			make([]byte, 100_000)...)),
		"a list too long":  later(11, func(c *coder) { c.write(1<<3 | wireBytes); c.part(func() { c.write(1 << 40) }) }),
		"a count too high": seal([]byte{FormatVersion, byte(KindBatch), 3, 3 << 3, 0xfe, 0x7f}),
	} {
		t.Run(name, func(t *testing.T) { expectModest(t, body) })
	}
}

// FuzzDecode has a right checksum put on anything. Whatever it is, nothing panics, and
// what is allocated is bounded.
func FuzzDecode(f *testing.F) {
	_, messages := goldenMessages()
	for _, body := range messages {
		f.Add(body[versionAt:])
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		body := seal(rest)
		expectModest(t, body)
		m, err := Decode(body)
		if err != nil {
			return
		}
		if _, err := DecodeHeader(body); err != nil {
			t.Errorf("the header alone: %v", err)
		}
		if m.Kind != KindBatch {
			return
		}
		again, err := Decode(AppendBatch(nil, m.Header, m.Records))
		if err != nil {
			t.Fatalf("written and read again: %v", err)
		}
		again.Version = m.Version
		if a, b := fmt.Sprintf("%+v", again.Header), fmt.Sprintf("%+v", m.Header); a != b ||
			len(again.Records) != len(m.Records) {
			t.Errorf("written and read again: %s, was %s", a, b)
		}
	})
}
