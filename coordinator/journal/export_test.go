package journal

import (
	"bytes"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func sequence(messages []Exported, err error) iter.Seq2[Exported, error] {
	return func(yield func(Exported, error) bool) {
		for _, m := range messages {
			if !yield(m, nil) {
				return
			}
		}
		if err != nil {
			yield(Exported{}, err)
		}
	}
}

func readAll(file []byte) ([]Exported, error) {
	var all []Exported
	for m, err := range ReadExport(iotest.OneByteReader(bytes.NewReader(file))) {
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// An export is read as it was written; one that was cut off anywhere, or of which any
// bit is wrong, is refused.
func TestExport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages []Exported
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			body := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "body")
			messages = append(messages, Exported{rapid.Int64Range(0, 1<<40).Draw(t, "offset"), body})
		}
		var file bytes.Buffer
		n, err := WriteExport(&file, sequence(messages, nil))
		if err != nil || n != len(messages) {
			t.Fatalf("wrote %d, %v", n, err)
		}
		got, err := readAll(file.Bytes())
		if err != nil || !reflect.DeepEqual(got, messages) {
			t.Fatalf("read %v, %v; want %v", got, err, messages)
		}
		cut := rapid.IntRange(0, file.Len()-1).Draw(t, "cut")
		if _, err := readAll(file.Bytes()[:cut]); err == nil {
			t.Fatalf("cut off after %d of %d bytes, read without an error", cut, file.Len())
		}
		bit := rapid.IntRange(0, 8*file.Len()-1).Draw(t, "bit")
		file.Bytes()[bit/8] ^= 1 << (bit % 8)
		if _, err := readAll(file.Bytes()); err == nil {
			t.Fatalf("bit %d of %d is wrong, read without an error", bit, 8*file.Len())
		}
	})
}

// What could not be read from the journal makes no export that looks complete.
func TestExportThatFails(t *testing.T) {
	lost := errors.New("connection lost")
	var file bytes.Buffer
	if _, err := WriteExport(&file, sequence([]Exported{{1, []byte("m")}}, lost)); !errors.Is(err, lost) {
		t.Fatalf("error %v", err)
	}
	if got, err := readAll(file.Bytes()); err == nil {
		t.Errorf("read %v without an error", got)
	}
	full := errors.New("disk full")
	if _, err := WriteExport(failingWriter{full}, sequence([]Exported{{1, make([]byte, 1<<20)}}, nil)); !errors.Is(err,
		full) {
		t.Errorf("error %v", err)
	}
	for text, want := range map[string]string{
		"":                       "no export",
		"{\"json\": true}":       "no export",
		"TBJX\n\x02":             "version 2, and this version of taskbus knows them up to 1",
		"TBJX\n\x01\x01\xff\xff": "ends after 0 messages",
		"TBJX\n\x01":             "ends after 0 messages",
	} {
		if _, err := readAll([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
