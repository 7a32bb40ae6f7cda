package messages

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"taskbus/schemas"
)

// The smallest message of each type that is told apart by its message_type.
const (
	aCancel  = `{"message_type":"task.cancel","task_id":"t-1"}`
	aClaim   = `{"message_type":"task.claim","agent_id":"a-1","claim_id":"c-1","max_items":8,"pending_items":0}`
	aBid     = `{"task_id":"t-1","auction_id":"t-1.1","fitness":0.75,"active_tasks":2,"estimated_duration_seconds":1.5}`
	someBids = `{"message_type":"task.bids","agent_id":"a-1","bids":[` + aBid + `]}`
	aOffer   = `{"task_id":"t-1","auction_id":"t-1.1","task_type":"build","required_capabilities":[],` +
		`"bid_window_ms":500,"attempt":1}`
	anAuction = `{"message_type":"task.available","agent_id":"a-1","offers":[` + aOffer + `]}`
	anAward   = `{"message_type":"task.awarded","task_id":"t-1","auction_id":"t-1.1","agent_id":"a-1",` +
		`"dispatch_id":"t-1.1"}`
	aRefusal = `{"message_type":"task.bid_rejected","task_id":"t-1","auction_id":"t-1.1","agent_id":"a-1","reason":"lost"}`
	aFleet   = `{"agents":3,"pending_items":49,"unclaimed_items":0,"capacity_items_per_second":28,` +
		`"target_drain_seconds":1.75,"fair_share_items":28}`
	aGrant = `{"message_type":"task.granted","agent_id":"a-1","claim_id":"c-1","granted":8,"fleet":` + aFleet + `}`
)

// last moves message_type to the end, as a program may that sorts its keys.
func last(body string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(body, "{"), ",")
	return "{" + strings.TrimSuffix(rest, "}") + "," + kind + "}"
}

func TestTypesAreToldApart(t *testing.T) {
	d := newDecoder(t)
	request := func(body []byte) (any, *Refusal) { return d.DecodeRequest(body) }
	control := func(body []byte) (any, *Refusal) { return d.DecodeControl(body) }
	for _, c := range []struct {
		name, body string
		decode     func([]byte) (any, *Refusal)
		want       any
	}{
		{"a cancel to the coordinator", aCancel, request, &TaskCancel{}},
		{"a bid", bid(), request, &TaskBid{}},
		{"bids", someBids, request, &TaskBids{}},
		{"a claim", aClaim, request, &TaskClaim{}},
		{"a cancel to an agent", aCancel, control, &TaskCancel{}},
		{"an auction", anAuction, control, &TaskAvailable{}},
		{"an award", anAward, control, &TaskAwarded{}},
		{"a bid that has not won", aRefusal, control, &BidRejected{}},
		{"a grant", aGrant, control, &TaskGranted{}},
	} {
		escaped := strings.Replace(c.body, `"task.`, `"\u0074ask.`, 1)
		for _, body := range []string{c.body, last(c.body), " " + c.body, escaped,
			strings.Replace(c.body, "message_type", `message\u005ftype`, 1)} {
			got, refusal := c.decode([]byte(body))
			if refusal != nil {
				t.Errorf("%s: refused: %s\n%s", c.name, refusal.Text, body)
			} else if reflect.TypeOf(got) != reflect.TypeOf(c.want) {
				t.Errorf("%s: read as %T, want %T", c.name, got, c.want)
			}
		}
	}
}

// A refusal of what does not belong there says what does.
func TestOtherTypesAreRefused(t *testing.T) {
	d := newDecoder(t)
	const requests, controls = "task.cancel, task.bid, task.bids or task.claim",
		"task.cancel, task.available, task.awarded, task.bid_rejected or task.granted"
	const missing = "the message: message_type is missing; expected "
	request := func(body []byte) (bool, *Refusal) { m, refusal := d.DecodeRequest(body); return m == nil, refusal }
	control := func(body []byte) (bool, *Refusal) { m, refusal := d.DecodeControl(body); return m == nil, refusal }
	for _, c := range []struct {
		name, body    string
		decode        func([]byte) (bool, *Refusal)
		path, keyword string
		text          string // of the refusal; empty: any
	}{
		{"a task on task.request", assign(), request, "/message_type", "enum", "/message_type: expected " + requests},
		{"an award on task.request", anAward, request, "/message_type", "enum", "/message_type: expected " + requests},
		{"a bid on a control queue", bid(), control, "/message_type", "enum", "/message_type: expected " + controls},
		{"a type of a later version", `{"message_type":"task.pause","task_id":"t-1"}`, control, "/message_type", "enum",
			"/message_type: expected " + controls},
		{"a type that is a number", `{"message_type":1}`, request, "/message_type", "enum", "/message_type: expected " +
			requests},
		{"no type", `{"task_id":"t-1"}`, request, "", "required", missing + requests},
		{"two types", strings.Replace(bid(), "{", `{"message_type":"task.cancel",`, 1), request, "/message_type",
			"duplicateKey", ""},
		{"two types, the second one last", strings.TrimSuffix(aClaim, "}") + `,"message_type":"task.cancel"}`, request,
			"/message_type", "duplicateKey", ""},
		{"a type in another letter case", strings.Replace(aClaim, "message_type", "Message_Type", 1), request,
			"/Message_Type", "letterCase", ""},
		{"two, of which one in another letter case", strings.TrimSuffix(aClaim, "}") + `,"Message_Type":"task.cancel"}`,
			request, "/Message_Type", "letterCase", ""},
		{"a fault behind the type", aCancel + "}", request, "", "syntax", ""},
		{"a fault before the type", `{"x":NaN,"message_type":"task.cancel","task_id":"t-1"}`, request, "/x", "syntax", ""},
		{"not JSON", "hello", request, "", "type", ""},
		{"nothing", "", control, "", "syntax", ""},
		{"a byte order mark", "\xef\xbb\xbf" + aGrant, control, "", "syntax", ""},
		{"too large", `{"message_type":"task.bid","x":"` + strings.Repeat("x", 1<<20) + `"}`, request, "", "size", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			none, refusal := c.decode([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			if !none {
				t.Error("there is a message beside the refusal")
			}
			if c.text != "" && refusal.Text != c.text {
				t.Errorf("refused with %q, want %q", refusal.Text, c.text)
			}
		})
	}
	if _, refusal := d.DecodeRequest(
		[]byte(assign(`"correlation_id":"trace_1"`))); refusal.MessageType != schemas.TaskAssign || refusal.TaskID != "t-1" ||
		refusal.CorrelationID != "trace_1" {
		t.Errorf("the refusal of a task says %+v; want its type, its id and its trace id", refusal)
	}
}

// A refused bid names its auction, if it is clear which one: its agent can be told.
func TestRefusalNamesTheAuction(t *testing.T) {
	d := newDecoder(t)
	bad := func(auction string) string {
		return `{"message_type":"task.bid","auction_id":` + auction + `,"task_id":"t-1","agent_id":"a-1","fitness":2}`
	}
	for _, c := range []struct{ name, body, want string }{
		{"against the schema", bad(`"t-1.1"`), "t-1.1"},
		{"cut off behind it", bad(`"t-1.1"`)[:70], "t-1.1"},
		{"escaped", bad(`"t\u002d1.1"`), "t-1.1"},
		{"as long as may be", bad(`"` + strings.Repeat("x", 160) + `"`), strings.Repeat("x", 160)},
		{"longer", bad(`"` + strings.Repeat("x", 161) + `"`), ""},
		{"no id", bad(`"t 1"`), ""},
		{"a number", bad("1"), ""},
		{"given twice", bad(`"t-1.1","auction_id":"t-1.1"`), ""},
		{"cut off within", bad(`"t-1.1"`)[:45], ""},
		{"a claim has none", `{"message_type":"task.claim","auction_id":"t-1.1"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := d.DecodeRequest([]byte(c.body))
			if refusal == nil {
				t.Fatal("accepted")
			}
			if refusal.AuctionID != c.want {
				t.Errorf("auction %q, want %q", refusal.AuctionID, c.want)
			}
		})
	}
}

// Every limit of the messages of auctions and claims but task.bid, which has a corpus
// of its own.
func TestMarketCorpus(t *testing.T) {
	d := newDecoder(t)
	in := func(body, from, to string) string {
		if !strings.Contains(body, from) {
			t.Fatalf("%s is not in %s", from, body)
		}
		return strings.Replace(body, from, to, 1)
	}
	offers := func(n int) string {
		return in(anAuction, aOffer, strings.TrimSuffix(strings.Repeat(aOffer+",", n), ","))
	}
	bidsFor := func(n int) string {
		return in(someBids, aBid, strings.TrimSuffix(strings.Repeat(aBid+",", n), ","))
	}
	more := func(body, member string) string { return strings.TrimSuffix(body, "}") + "," + member + "}" }
	offer := func(member string) string { return in(anAuction, aOffer, more(aOffer, member)) }
	long := func(n int) string { return `"` + strings.Repeat("ä", n) + `"` }
	for _, c := range []struct {
		name, body    string
		path, keyword string
	}{
		{"claim: every field", more(aClaim, `"capacity_items_per_second":16.5,"wait_seconds":60`), "", ""},
		{"claim: the slowest agent", more(aClaim, `"capacity_items_per_second":1e-9`), "", ""},
		{"claim: does not wait", more(aClaim, `"wait_seconds":0`), "", ""},
		{"claim: for nothing", in(aClaim, `"max_items":8`, `"max_items":0`), "/max_items", "minimum"},
		{"claim: 10,001 items", in(aClaim, `"max_items":8`, `"max_items":10001`), "/max_items", "maximum"},
		{"claim: half an item", in(aClaim, `"max_items":8`, `"max_items":0.5`), "/max_items", "type"},
		{"claim: negative pending", in(aClaim, `"pending_items":0`, `"pending_items":-1`), "/pending_items", "minimum"},
		{"claim: a billion and one pending", in(aClaim, `"pending_items":0`, `"pending_items":1000000001`), "/pending_items",
			"maximum"},
		{"claim: no pending", in(aClaim, `pending`, `open`), "", "required"},
		{"claim: no capacity", more(aClaim, `"capacity_items_per_second":0`), "/capacity_items_per_second", "not"},
		{"claim: negative capacity", more(aClaim, `"capacity_items_per_second":-1`), "/capacity_items_per_second", "not"},
		{"claim: capacity beyond the most", more(aClaim, `"capacity_items_per_second":1000000001`),
			"/capacity_items_per_second", "maximum"},
		{"claim: capacity beyond float64", more(aClaim, `"capacity_items_per_second":9e308`), "", "number"},
		{"claim: capacity NaN", more(aClaim, `"capacity_items_per_second":NaN`), "/capacity_items_per_second", "syntax"},
		{"claim: capacity of text", more(aClaim, `"capacity_items_per_second":"8"`), "/capacity_items_per_second", "type"},
		{"claim: waits more than a minute", more(aClaim, `"wait_seconds":60.1`), "/wait_seconds", "maximum"},
		{"claim: waits less than nothing", more(aClaim, `"wait_seconds":-1`), "/wait_seconds", "minimum"},
		{"claim: twice as many", more(aClaim, `"max_items":16`), "/max_items", "duplicateKey"},
		{"claim: claim id with a space", in(aClaim, "c-1", "c 1"), "/claim_id", "pattern"},
		{"claim: reserved agent", in(aClaim, "a-1", "a-1.control"), "/agent_id", "not"},

		{"bids: 256", bidsFor(256), "", ""},
		{"bids: 257", bidsFor(257), "/bids", "maxItems"},
		{"bids: none", in(someBids, aBid, ""), "/bids", "minItems"},
		{"bids: one that is none", in(someBids, aBid, "7"), "/bids/0", "type"},
		{"bids: every field of one", in(someBids, aBid, more(aBid, `"relevance":1,"correlation_id":"trace_1"`)), "", ""},
		{"bids: an agent within one is nothing known", in(someBids, aBid, more(aBid, `"agent_id":7,"message_type":7`)), "",
			""},
		{"bids: no fitness", in(someBids, "fitness", "fit"), "/bids/0", "required"},
		{"bids: fitness beyond 1", in(someBids, "0.75", "1.01"), "/bids/0/fitness", "maximum"},
		{"bids: negative tasks", in(someBids, `"active_tasks":2`, `"active_tasks":-1`), "/bids/0/active_tasks", "minimum"},
		{"bids: no agent", in(someBids, "agent_id", "agent"), "", "required"},
		{"bids: fitness twice", in(someBids, aBid, more(aBid, `"fitness":1`)), "/bids", "duplicateKey"},

		{"offers: 256", offers(256), "", ""},
		{"offers: 257", offers(257), "/offers", "maxItems"},
		{"offers: none", in(anAuction, aOffer, ""), "/offers", "minItems"},
		{"offers: one that is none", in(anAuction, aOffer, "7"), "/offers/0", "type"},
		{"offer: every field",
			offer(`"description":"a\nb","priority":3,"deadline":"2030-01-01T00:00:00Z","correlation_id":"trace_1"`), "", ""},
		{"offer: no window", in(anAuction, "500", "0"), "/offers/0/bid_window_ms", "minimum"},
		{"offer: a window of more than a minute", in(anAuction, "500", "60001"), "/offers/0/bid_window_ms", "maximum"},
		{"offer: half a millisecond", in(anAuction, "500", "0.5"), "/offers/0/bid_window_ms", "type"},
		{"offer: attempt 0", in(anAuction, `"attempt":1`, `"attempt":0`), "/offers/0/attempt", "minimum"},
		{"offer: no capabilities told", in(anAuction, `"required_capabilities":[],`, ""), "/offers/0", "required"},
		{"offer: 257 capabilities", in(anAuction, "[],", quoted(257, "gpu")+","), "/offers/0/required_capabilities",
			"maxItems"},
		{"offer: description of 2,048", offer(`"description":` + long(2048)), "", ""},
		{"offer: description of 2,049", offer(`"description":` + long(2049)), "/offers/0/description", "maxLength"},
		{"offer: priority 4", offer(`"priority":4`), "/offers/0/priority", "maximum"},
		{"offer: 30th of February", offer(`"deadline":"2026-02-30T00:00:00Z"`), "/offers/0/deadline", "calendar"},
		{"offer: two windows", offer(`"bid_window_ms":1`), "/offers", "duplicateKey"},

		{"award: every field", more(anAward, `"correlation_id":"trace_1"`), "", ""},
		{"award: dispatch id of 161", in(anAward, `"dispatch_id":"t-1.1"`, `"dispatch_id":"`+strings.Repeat("x", 161)+`"`),
			"/dispatch_id", "pattern"},
		{"award: no dispatch", in(anAward, "dispatch_id", "dispatch"), "", "required"},

		{"bid_rejected: every field", more(aRefusal, `"correlation_id":"trace_1"`), "", ""},
		{"bid_rejected: of no auction", in(aRefusal, `"auction_id":"t-1.1",`, ""), "", ""},
		{"bid_rejected: another reason", in(aRefusal, "lost", "unlucky"), "/reason", "enum"},
		{"bid_rejected: no reason", in(aRefusal, "reason", "why"), "", "required"},

		{"grant: every field", more(aGrant, `"reason":"fair part"`), "", ""},
		{"grant: nothing", in(aGrant, `"granted":8`, `"granted":0`), "", ""},
		{"grant: fewer than nothing", in(aGrant, `"granted":8`, `"granted":-1`), "/granted", "minimum"},
		{"grant: no fleet", in(aGrant, "fleet", "others"), "", "required"},
		{"grant: a fleet without capacity told", in(aGrant, "capacity_items_per_second", "capacity"), "/fleet", "required"},
		{"grant: negative target", in(aGrant, "1.75", "-1"), "/fleet/target_drain_seconds", "minimum"},
		{"grant: target NaN", in(aGrant, "1.75", "NaN"), "/fleet", "syntax"},
		{"grant: absurd share", in(aGrant, `"fair_share_items":28`, `"fair_share_items":1e16`), "/fleet/fair_share_items",
			"maximum"},
		{"grant: endless reason", more(aGrant, `"reason":`+long(2049)), "/reason", "maxLength"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, control := d.DecodeControl([]byte(c.body))
			_, request := d.DecodeRequest([]byte(c.body))
			refusal := control
			if strings.HasPrefix(c.name, "claim") || strings.HasPrefix(c.name, "bids") {
				refusal = request
			}
			checkVerdict(t, refusal, c.path, c.keyword)
		})
	}
}

// Whatever comes, it is one of the types or a reasoned refusal.
func FuzzChoose(f *testing.F) {
	d := newDecoder(f)
	for _, body := range []string{aCancel, aClaim, anAuction, anAward, aRefusal, aGrant, bid(), last(bid()),
		`{"message_type":"x"}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, refusal := d.DecodeRequest(body)
		if (request == nil) == (refusal == nil) {
			t.Fatalf("exactly one of message and refusal is expected, got %v and %v", request, refusal)
		}
		if refusal != nil {
			requireSound(t, refusal)
		}
		control, refusal := d.DecodeControl(body)
		if (control == nil) == (refusal == nil) {
			t.Fatalf("exactly one of message and refusal is expected, got %v and %v", control, refusal)
		}
		if refusal != nil {
			requireSound(t, refusal)
			return
		}
		var sent []byte
		switch m := control.(type) {
		case *TaskAvailable:
			sent, _ = AppendTaskAvailable(nil, m.AgentID, m.Offers)
		case *TaskAwarded:
			sent = AppendTaskAwarded(nil, m)
		case *BidRejected:
			sent = AppendBidRejected(nil, m)
		case *TaskGranted:
			sent = AppendTaskGranted(nil, m)
		default:
			return
		}
		if again, refusal := d.DecodeControl(sent); refusal != nil || fmt.Sprintf("%T", again) != fmt.Sprintf("%T", control) {
			t.Fatalf("sent again it is %T, %+v\n%s", again, refusal, sent)
		}
	})
}
