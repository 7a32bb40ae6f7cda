package messages

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"taskbus/schemas"
)

// progress builds a task.progress around further members.
func progress(members ...string) string {
	all := append([]string{`"message_type":"task.progress","task_id":"t-1","agent_id":"a-1",` +
		`"correlation_id":"trace_1","timestamp":"2026-01-31T23:59:59Z"`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// dataOf is an object of so many bytes.
func dataOf(bytes int) string { return `{"a":"` + strings.Repeat("x", bytes-len(`{"a":""}`)) + `"}` }

// progressCorpus are messages with their verdict; fast: ordinary ones, for the fast path.
var progressCorpus = []struct {
	name, body    string
	path, keyword string
	fast          bool
}{
	{"smallest", progress(), "", "", true},
	{"everything", progress(`"dispatch_id":"t-1.1","percent":42.5,"message":"page 3","data":{"page":3}`), "", "", true},
	{"white space", " " + strings.ReplaceAll(progress(`"data": { "a" : [1,  2] } `), ",", "\n, ") + "\n", "", "", true},
	{"nothing yet", progress(`"percent":0,"data":{}`), "", "", true},
	{"done", progress(`"percent":100`), "", "", true},
	{"unknown field", progress(`"phase":"reading"`), "", "", true},
	{"version 1", progress(`"message_version":1`), "", "", true},
	{"message beyond ASCII", progress(`"message":"Größe"`), "", "", true},
	{"message of 512 characters of two bytes", progress(`"message":"` + strings.Repeat("ä", 512) + `"`), "", "", true},
	{"message of several lines", progress(`"message":"one\ntwo"`), "", "", false},
	{"message that is escaped", progress(`"message":"\u0061"`), "", "", false},
	{"data of 4,096 bytes", progress(`"data":` + dataOf(4096)), "", "", true},
	{"digits beyond a float in data", progress(`"data":{"n":12345678901234567890}`), "", "", true},

	{"data of 4,097 bytes", progress(`"data":` + dataOf(4097)), "/data", "size", false},
	{"data is a list", progress(`"data":[1]`), "/data", "type", false},
	{"data is null", progress(`"data":null`), "/data", "type", false},
	{"key twice in data", progress(`"data":{"a":1,"a":2}`), "/data", "duplicateKey", false},
	{"message of 513", progress(`"message":"` + strings.Repeat("x", 513) + `"`), "/message", "maxLength", false},
	{"message is a number", progress(`"message":1`), "/message", "type", false},
	{"more than all", progress(`"percent":100.1`), "/percent", "maximum", false},
	{"less than nothing", progress(`"percent":-1`), "/percent", "minimum", false},
	{"percent in words", progress(`"percent":"42"`), "/percent", "type", false},
	{"version 2", progress(`"message_version":2`), "/message_version", "const", false},
	{"another type", strings.Replace(progress(), "task.progress", "task.result", 1), "/message_type", "const", false},
	{"no task", strings.Replace(progress(), "task_id", "task", 1), "", "required", false},
	{"reserved agent", strings.Replace(progress(), "a-1", "status", 1), "/agent_id", "not", false},
	{"letter case", progress(`"Percent":1`), "/Percent", "letterCase", false},
	{"not JSON", "hello", "", "type", false},
}

func TestTaskProgressCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range progressCorpus {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := d.DecodeTaskProgress([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			checkTaskProgress(t, d, []byte(c.body))
			if fast := d.fastTaskProgress([]byte(c.body)) != nil; fast != c.fast {
				t.Errorf("by the fast path: %v", fast)
			}
		})
	}
}

func FuzzTaskProgress(f *testing.F) {
	d := newDecoder(f)
	for _, c := range progressCorpus {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskProgress(t, d, body) })
}

// checkTaskProgress: the paths agree, and what is passed on says the same, with the very bytes of the data, or without
// them.
func checkTaskProgress(t tester, d *Decoder, body []byte) {
	t.Helper()
	original := bytes.Clone(body)
	fast := d.fastTaskProgress(body)
	slow, refusal := d.slowTaskProgress(body)
	if !bytes.Equal(original, body) {
		t.Fatal("decoding has changed the body")
	}
	requireAgreement(t, body, fast, fast != nil, slow, refusal)
	if refusal != nil {
		return
	}
	for _, data := range []bool{true, false} {
		passed := AppendTaskProgress(nil, slow.Progress(), "their-trace", data)
		m, refusal := d.DecodeTaskProgress(passed)
		if refusal != nil {
			t.Fatalf("what is passed on is refused: %s\n%s", refusal.Text, passed)
		}
		same := m.TaskID == slow.TaskID && m.AgentID == slow.AgentID && m.DispatchID == slow.DispatchID &&
			m.Message == slow.Message && (m.Percent == nil) == (slow.Percent == nil) && m.CorrelationID == "their-trace"
		if !same || data && !bytes.Equal(m.Data, slow.Data) || !data && m.Data != nil {
			t.Fatalf("%s\nis passed on as\n%s", body, passed)
		}
	}
}

// What the SDK sends fits the schema, and is read as it was meant.
func TestTaskProgressIsSentAsItIsRead(t *testing.T) {
	d, percent := newDecoder(t), 42.5
	m := TaskProgress{TaskID: "t-1", AgentID: "a-1", CorrelationID: "c", DispatchID: "t-1.1", Timestamp: at,
		Percent: &percent, Message: "page \"3\"", Data: json.RawMessage(`{"z": 1, "a":[12345678901234567890]}`)}
	body, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	requireFits(t, compiled(t), schemas.TaskProgress, body)
	got, refusal := d.DecodeTaskProgress(body)
	if refusal != nil {
		t.Fatal(refusal.Text)
	}
	if *got.Percent != percent || got.Message != m.Message || !bytes.Equal(got.Data, m.Data) ||
		!got.Timestamp.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%+v of %s", got, body)
	}
	m.Data = json.RawMessage(`{"a":`)
	if body, err = m.MarshalJSON(); err == nil {
		t.Errorf("half an object is sent: %s", body)
	}
}
