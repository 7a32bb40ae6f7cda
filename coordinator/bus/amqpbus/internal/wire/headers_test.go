package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// rawFrame is a frame as it stands on the wire.
func rawFrame(kind byte, payload string) string {
	head := []byte{kind, 0, 1}
	head = binary.BigEndian.AppendUint32(head, uint32(len(payload)))
	return string(head) + payload + "\xce"
}

// contentHeader is the payload of a content header with these properties; more is
// what follows the headers.
func contentHeader(flags uint16, properties string) string {
	fixed := "\x00\x3c\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x05"
	return fixed + string(binary.BigEndian.AppendUint16(nil, flags)) + properties
}

// long is a value behind its length in four bytes, short in one.
func long(s string) string  { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s }
func short(s string) string { return string(rune(len(s))) + s }

// nestedTables is a header table with this many tables inside each other.
func nestedTables(levels int) string {
	fields := short("end") + "t\x01"
	for range levels {
		fields = short("in") + "F" + long(fields)
	}
	return long(fields)
}

func nestedArrays(levels int) string {
	value := "V"
	for range levels {
		value = "A" + long(value)
	}
	return long(short("in") + value)
}

func TestHeadersTheLibraryCannotReadAreTakenOut(t *testing.T) {
	all := short("a") + "t\x01" + short("b") + "b\x01" + short("c") + "B\x01" + short("d") + "s\x00\x01" + short("e") +
		"u\x00\x01" +
		short("f") + "I\x00\x00\x00\x01" + short("g") + "i\x00\x00\x00\x01" + short("h") + "f\x00\x00\x00\x01" + short("i") +
		"D\x02\x00\x00\x00\x01" +
		short("j") + "l\x00\x00\x00\x00\x00\x00\x00\x01" + short("k") + "d\x00\x00\x00\x00\x00\x00\x00\x01" + short("l") +
		"T\x00\x00\x00\x00\x00\x00\x00\x01" +
		short("m") + "S" + long("text") + short("n") + "x" + long("bytes") + short("o") + "V" + short("p") + "F" +
		long("") + short("q") + "A" + long("VV")
	for _, tt := range []struct {
		name, table string
		kept        bool
	}{
		{"none", long(""), true},
		{"every type", long(all), true},
		{"32 tables", nestedTables(32), true},
		{"33 tables", nestedTables(33), false},
		{"32 arrays", nestedArrays(32), true},
		{"33 arrays", nestedArrays(33), false},
		{"8,192 fields", long(strings.Repeat(short("")+"V", 8192)), true},
		{"8,193 fields", long(strings.Repeat(short("")+"V", 8193)), false},
		{"8,192 elements", long(short("a") + "A" + long(strings.Repeat("V", 8192))), true},
		{"8,193 elements", long(short("a") + "A" + long(strings.Repeat("V", 8193))), false},
		{"an unknown type", long(short("a") + "?"), false},
		{"a value that is cut off", long(short("a") + "l\x00"), false},
		{"a text longer than the table", long(short("a") + "S\x00\x00\x00\x09text"), false},
		{"a key without a value", long(short("a")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const flags = flagContentType | flagContentCoding | flagHeaders | 1<<12
			before, after := short("application/json")+short("utf-8"), "\x02"
			stream := rawFrame(1, "deliver") + rawFrame(2, contentHeader(flags, before+tt.table+after)) + rawFrame(3, "12345")
			want, dropped := stream, 0
			if !tt.kept {
				want = rawFrame(1, "deliver") + rawFrame(2, contentHeader(flags&^flagHeaders, before+after)) + rawFrame(3, "12345")
			}
			g := &headerGuard{in: bufio.NewReader(strings.NewReader(stream)), dropped: func() { dropped++ }}
			got, err := io.ReadAll(g)
			if err != nil || string(got) != want {
				t.Errorf("read %q, %v, want %q", got, err, want)
			}
			if kept := dropped == 0; kept != tt.kept {
				t.Errorf("kept %t, want %t", kept, tt.kept)
			}
		})
	}
}

// Whatever the frames and however they are cut up on the way, what the guard need
// not touch goes through byte for byte.
func TestGuardPassesEverythingElseThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		for range rapid.IntRange(0, 20).Draw(t, "frames") {
			switch kind := rapid.SampledFrom([]byte{1, 2, 3, 8}).Draw(t, "type"); kind {
			case 2:
				levels := rapid.IntRange(0, 32).Draw(t, "levels")
				stream.WriteString(rawFrame(2, contentHeader(flagHeaders, nestedTables(levels))))
			default:
				stream.WriteString(rawFrame(kind, string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"))))
			}
		}
		var in io.Reader = bytes.NewReader(stream.Bytes())
		if rapid.Bool().Draw(t, "byte by byte") {
			in = iotest.OneByteReader(in)
		}
		g := &headerGuard{in: bufio.NewReaderSize(in, 64), dropped: func() { t.Fatal("headers were taken out") }}
		var got []byte
		for space := make([]byte, rapid.IntRange(1, 100).Draw(t, "space")); ; {
			n, err := g.Read(space)
			got = append(got, space[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, stream.Bytes()) {
			t.Fatalf("read %q, want %q", got, stream.Bytes())
		}
	})
}

// Nothing that is at hand waits for what is not.
func TestGuardDoesNotHoldBack(t *testing.T) {
	whole, header := rawFrame(1, "deliver"), rawFrame(2, contentHeader(flagHeaders, long("")))
	near, far := io.Pipe()
	defer far.Close()
	go func() { _, _ = far.Write([]byte(whole + header[:10])) }() // ends with the test
	g := &headerGuard{in: bufio.NewReader(near), dropped: func() {}}
	got := make([]byte, 4096)
	n, err := g.Read(got)
	if err != nil || string(got[:n]) != whole {
		t.Fatalf("read %q, %v, want the whole frame %q", got[:n], err, whole)
	}
}
