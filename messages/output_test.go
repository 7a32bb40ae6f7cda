package messages

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// resultWith is a task.result with these fields at its end.
func resultWith(extra string) []byte {
	return []byte(`{"message_type":"task.result","task_id":"t-1","agent_id":"a-1","outcome":"succeeded",` +
		`"correlation_id":"trace-1","timestamp":"2026-11-21T09:48:10Z"` + extra + `}`)
}

// The bytes of an output reach the answer as they came, by both paths; unknown fields lead to the slow one.
func TestOutputIsPassedOnByteForByte(t *testing.T) {
	d := newDecoder(t)
	for _, output := range []string{`null`, `""`, `0`, `-1.50e+02`, `[ 1,2 , 3]`, "{\n\"b\" : 1,\t\"a\":{}}", `"\u00e9\n"`,
		`12345678901234567890123`, `true`} {
		for _, other := range []string{``, `,"duration_ms":1E0`, `,"attempt":1.0`} {
			var m TaskResult
			if refusal := d.DecodeTaskResult(resultWith(`,"output":`+output+other), &m); refusal != nil {
				t.Fatalf("%s%s: %s", output, other, refusal.Text)
			}
			c := &coordinator.Completed{Result: m.Result(), Attempt: 1, At: at}
			answer := AppendAnswer(nil, AppendTaskCompleted(nil, c), c.Result.Output)
			requireFits(t, compiled(t), "task.completed", answer)
			read, refusal := d.DecodeTaskCompleted(answer)
			if refusal != nil {
				t.Fatalf("%s: %s", answer, refusal.Text)
			}
			if string(m.Output) != output || string(read.Output) != output || read.OutputSize != int64(len(output)) {
				t.Errorf("%q%s came as %q, and is answered with %q of %d bytes", output, other, m.Output, read.Output,
					read.OutputSize)
			}
		}
	}
}

// An event says how large an output is, and its hash; it has neither the output nor where it is.
func TestEventHasNoOutput(t *testing.T) {
	d := newDecoder(t)
	const hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc: FIPS 180-2, B.1
	for extra, want := range map[string]string{
		``: `"attempt":1,"timestamp"`,
		`,"output":"abc"`: `"output_size":5,` +
			`"output_sha256":"6cc43f858fbb763301637b5af970e2a46b46f461f27e5a0f41e009c59b827b25"`,
		`,"output_ref":{"uri":"s3://secret","sha256":"` + hash + `","size":3}`: `"output_size":3,"output_sha256":"` + hash,
	} {
		var m TaskResult
		if refusal := d.DecodeTaskResult(resultWith(extra), &m); refusal != nil {
			t.Fatalf("%s: %s", extra, refusal.Text)
		}
		event := string(AppendTaskCompleted(nil, &coordinator.Completed{Result: m.Result(), Attempt: 1, At: at}))
		if !strings.Contains(event, want) || strings.Contains(event, "abc") || strings.Contains(event, "secret") {
			t.Errorf("%s: %s, want %s", extra, event, want)
		}
		requireFits(t, compiled(t), "task.completed", []byte(event))
	}
}

// An output of 10 bytes is passed on where 10 are allowed, and one of 11 is not, whatever stands beside it; a result
// may have MaxBytes beside its output.
func TestOutputLimit(t *testing.T) {
	d := NewDecoder(compiled(t), Limits{MaxBytes: 1000, MaxOutput: 10})
	for _, other := range []string{``, `,"attempt":1.0`, `,"x":"` + strings.Repeat("x", 800) + `"`} {
		for n, refused := range map[int]bool{10: false, 11: true} {
			var m TaskResult
			output := `"` + strings.Repeat("o", n-2) + `"`
			refusal := d.DecodeTaskResult(resultWith(`,"output":`+output+other), &m)
			if (refusal != nil) != refused {
				t.Errorf("%d bytes%.12s: %+v", n, other, refusal)
			}
			if refusal != nil && (refusal.Path != "/output" || refusal.Keyword != "size") {
				t.Errorf("%d bytes%.12s: refused at %q for %q", n, other, refusal.Path, refusal.Keyword)
			}
		}
	}
}

// A reference has its three parts, each in order; one that has not is refused at its place.
func TestOutputRef(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	d := newDecoder(t)
	for _, c := range []struct{ uri, hash, size, path string }{
		{`"s3://b/k?a=1"`, `"` + hash + `"`, `3`, ""},
		{`"s3://b/k"`, `"` + hash + `"`, `1e3`, ""},
		{`"x"`, `"` + hash + `"`, `0`, ""},
		{`""`, `"` + hash + `"`, `3`, "/output_ref/uri"},
		{`"a b"`, `"` + hash + `"`, `3`, "/output_ref/uri"},
		{`"` + strings.Repeat("u", 2049) + `"`, `"` + hash + `"`, `3`, "/output_ref/uri"},
		{`"x"`, `"` + strings.ToUpper(hash) + `"`, `3`, "/output_ref/sha256"},
		{`"x"`, `"` + hash[1:] + `"`, `3`, "/output_ref/sha256"},
		{`"x"`, `"` + hash + `"`, `-1`, "/output_ref/size"},
		{`"x"`, `"` + hash + `"`, `0.5`, "/output_ref/size"},
	} {
		body := resultWith(fmt.Sprintf(`,"output_ref":{"uri":%s,"sha256":%s,"size":%s}`, c.uri, c.hash, c.size))
		var m TaskResult
		refusal := d.DecodeTaskResult(body, &m)
		switch {
		case refusal != nil && refusal.Path != c.path:
			t.Errorf("%.200s: refused at %s: %s", body, refusal.Path, refusal.Text)
		case refusal == nil && (c.path != "" || m.OutputRef == nil || m.OutputRef.SHA256 != hash):
			t.Errorf("%.200s: %+v, want it refused at %q", body, m.OutputRef, c.path)
		}
		checkTaskResult(t, d, body)
	}
}

// What is refused for its output, or its size, is a failure of a task that is known; anything else is of no task.
func TestFailedByOutput(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct {
		body string
		want string // the error; empty: it says nothing of a task
	}{
		{string(resultWith(`,"output":{"a":1,"a":1}`)),
			"the agent's result cannot be passed on: /output: a key occurs twice"},
		{string(resultWith(`,"output":"` + strings.Repeat("x", 256<<10) + `"`)),
			"the agent's result cannot be passed on: /output: 262146 bytes, more than the 262144 allowed (max_output_bytes)"},
		{string(resultWith(`,"attempt":0`)), ""},
		{`{"output":{"a":1,"a":1},"task_id":"t-1","agent_id":"a-1"}`, ""},
		{`{"task_id":"t-1","agent_id":"status","output":}`, ""},
	} {
		var m TaskResult
		refusal := d.DecodeTaskResult([]byte(c.body), &m)
		if refusal == nil {
			t.Fatalf("%.200s is accepted", c.body)
		}
		is := FailedByOutput(refusal, &m)
		if is != (c.want != "") || is && (m.Outcome != Failed || m.TaskID != "t-1" || m.AgentID != "a-1" ||
			!strings.HasPrefix(m.Error, c.want)) {
			t.Errorf("%.200s: %v, %+v", c.body, is, m)
		}
	}
}
