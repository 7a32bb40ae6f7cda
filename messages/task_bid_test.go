package messages

import (
	"reflect"
	"strings"
	"testing"
)

// bids is the corpus of task.bid messages.
var bids = []struct {
	name, body    string
	path, keyword string
}{
	{"smallest", bid(), "", ""},
	{"white space", " " + strings.ReplaceAll(bid(), ",", "\n, ") + "\n", "", ""},
	{"every field", bid(`"relevance":0.5,"correlation_id":"trace_1"`), "", ""},
	{"the ends of the ranges", strings.NewReplacer("0.75", "1", `"active_tasks":1`, `"active_tasks":1000000`, "42.5",
		"1e9").Replace(bid(`"relevance":1`)), "", ""},
	{"nothing at all", strings.NewReplacer("0.75", "0", `"active_tasks":1`, `"active_tasks":0`, "42.5", "0").
		Replace(bid(`"relevance":0`)), "", ""},
	{"negative zeros", strings.NewReplacer("0.75", "-0", "42.5", "-0.0").Replace(bid(`"relevance":-0`)), "", ""},
	{"integer written as a float", strings.Replace(bid(), `"active_tasks":1`, `"active_tasks":1.0`, 1), "", ""},
	{"unknown field", bid(`"offer":{"price":1}`), "", ""},
	{"version 1", bid(`"message_version":1`), "", ""},
	{"version 2", bid(`"message_version":2`), "/message_version", "const"},
	{"escaped id", strings.Replace(bid(), "a-1", `\u0061-1`, 1), "", ""},

	{"fitness above 1", strings.Replace(bid(), "0.75", "1.0000001", 1), "/fitness", "maximum"},
	{"fitness in per cent", strings.Replace(bid(), "0.75", "75", 1), "/fitness", "maximum"},
	{"negative fitness", strings.Replace(bid(), "0.75", "-0.1", 1), "/fitness", "minimum"},
	{"fitness NaN", strings.Replace(bid(), "0.75", "NaN", 1), "/fitness", "syntax"},
	{"fitness Infinity", strings.Replace(bid(), "0.75", "Infinity", 1), "/fitness", "syntax"},
	{"fitness NaN as text", strings.Replace(bid(), "0.75", `"NaN"`, 1), "/fitness", "type"},
	{"fitness null", strings.Replace(bid(), "0.75", "null", 1), "/fitness", "type"},
	{"fitness beyond float64", strings.Replace(bid(), "0.75", "9e308", 1), "", "number"},
	{"fitness with an absurd exponent", strings.Replace(bid(), "0.75", "1e9999999", 1), "/fitness", "number"},
	{"fitness of 65 digits", strings.Replace(bid(), "0.75", "0."+strings.Repeat("1", 63), 1), "/fitness", "number"},
	{"fitness twice", bid(`"fitness":1`), "/fitness", "duplicateKey"},
	{"fitness twice, once escaped", bid(`"\u0066itness":1`), "/fitness", "duplicateKey"},
	{"fitness in another letter case", bid(`"Fitness":1`), "/Fitness", "letterCase"},
	{"no fitness", strings.Replace(bid(), "fitness", "fit", 1), "", "required"},
	{"relevance above 1", bid(`"relevance":2`), "/relevance", "maximum"},
	{"negative relevance", bid(`"relevance":-1`), "/relevance", "minimum"},
	{"half a task", strings.Replace(bid(), `"active_tasks":1`, `"active_tasks":1.5`, 1), "/active_tasks", "type"},
	{"fewer than no tasks", strings.Replace(bid(), `"active_tasks":1`, `"active_tasks":-1`, 1), "/active_tasks",
		"minimum"},
	{"a million and one tasks", strings.Replace(bid(), `"active_tasks":1`, `"active_tasks":1000001`, 1), "/active_tasks",
		"maximum"},
	{"done before it began", strings.Replace(bid(), "42.5", "-1", 1), "/estimated_duration_seconds", "minimum"},
	{"more than 31 years", strings.Replace(bid(), "42.5", "1000000001", 1), "/estimated_duration_seconds", "maximum"},
	{"no estimate", strings.Replace(bid(), "estimated_", "", 1), "", "required"},
	{"no auction", strings.Replace(bid(), `"auction_id":"t-1.1",`, "", 1), "", ""},
	{"an empty auction id", strings.Replace(bid(), "t-1.1", "", 1), "/auction_id", "pattern"},
	{"no task", strings.Replace(bid(), `"task_id":"t-1",`, "", 1), "", "required"},
	{"auction id of 161", strings.Replace(bid(), "t-1.1", strings.Repeat("x", 161), 1), "/auction_id", "pattern"},
	{"task id with a space", strings.Replace(bid(), `"t-1"`, `"t 1"`, 1), "/task_id", "pattern"},
	{"reserved agent", strings.Replace(bid(), "a-1", "status", 1), "/agent_id", "not"},
	{"empty trace id", bid(`"correlation_id":""`), "/correlation_id", "pattern"},
	{"another message type", strings.Replace(bid(), "task.bid", "task.claim", 1), "/message_type", "const"},
	{"cut off", strings.TrimSuffix(bid(), "}"), "", "syntax"},
	{"not JSON", "me!", "", "type"},
}

func TestTaskBidCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range bids {
		t.Run(c.name, func(t *testing.T) {
			m, refusal := d.DecodeTaskBid([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			if (m == nil) == (refusal == nil) {
				t.Fatalf("exactly one of message and refusal is expected, got %v and %v", m, refusal)
			}
			checkTaskBid(t, d, []byte(c.body))
		})
	}
}

func TestOrdinaryBidsTakeTheFastPath(t *testing.T) {
	d := newDecoder(t)
	for _, c := range bids {
		switch c.name {
		case "smallest", "white space", "every field", "the ends of the ranges", "nothing at all", "unknown field",
			"version 1", "no auction":
			if _, ok := d.fastTaskBid([]byte(c.body)); !ok {
				t.Errorf("task.bid %q is valid and plain, but not for the fast path", c.name)
			}
		}
	}
	if _, ok := d.fastTaskBid(AppendTaskBid(nil, &TaskBid{TaskID: "t-1", AuctionID: "t-1.1", AgentID: "a-1",
		Fitness: 2.0 / 3, CorrelationID: "trace"})); !ok {
		t.Error("what an agent sends is not for the fast path")
	}
}

func FuzzTaskBid(f *testing.F) {
	d := newDecoder(f)
	for _, c := range bids {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskBid(t, d, body) })
}

// checkTaskBid: what the fast path accepts the slow path accepts with an equal value,
// and what is accepted can be sent again.
func checkTaskBid(t tester, d *Decoder, body []byte) {
	t.Helper()
	fast, ok := d.fastTaskBid(body)
	slow, refusal := d.slowTaskBid(body)
	if requireAgreement(t, body, fast, ok, slow, refusal); refusal != nil {
		return
	}
	// What is next to nothing is sent as nothing, and then stays it.
	again := func(m *TaskBid) *TaskBid {
		got, refusal := d.DecodeTaskBid(AppendTaskBid(nil, m))
		if refusal != nil {
			t.Fatalf("sent again it is refused: %s\n%s", refusal.Text, body)
		}
		return got
	}
	if second := again(slow); !reflect.DeepEqual(again(second), second) || second.TaskID != slow.TaskID ||
		second.HasRelevance != slow.HasRelevance {
		t.Fatalf("sent again it is another bid:\n%+v\n%+v", slow, second)
	}
}
