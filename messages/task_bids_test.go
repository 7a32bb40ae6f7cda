package messages

import (
	"reflect"
	"strings"
	"testing"
)

// checkTaskBids: what the fast path accepts the slow path accepts with equal values.
func checkTaskBids(t tester, d *Decoder, body []byte) {
	t.Helper()
	fast, ok := d.fastTaskBids(body)
	slow, refusal := d.slowTaskBids(body)
	requireAgreement(t, body, fast, ok, slow, refusal)
}

func FuzzTaskBids(f *testing.F) {
	d := newDecoder(f)
	for _, body := range []string{someBids, strings.Replace(someBids, aBid, aBid+","+aBid, 1),
		withField(someBids, "bids", "[]")} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskBids(t, d, body) })
}

func TestSeveralBidsTakeTheFastPath(t *testing.T) {
	d := newDecoder(t)
	body, _ := AppendTaskBids(nil, "a-1",
		[]TaskBid{{TaskID: "t-1", AuctionID: "t-1.1", Fitness: 2.0 / 3, CorrelationID: "trace"},
			{TaskID: "t-2", AuctionID: "x", HasRelevance: true}, {TaskID: "t-3"}})
	for _, body := range []string{string(body), someBids, strings.Replace(someBids, "{", "{ ", 1),
		withField(someBids, "x", `[1]`)} {
		if _, ok := d.fastTaskBids([]byte(body)); !ok {
			t.Errorf("valid and plain, but not for the fast path: %s", body)
		}
	}
}

// More than one message may hold: the rest is given back, in order.
func TestBidsThatDoNotFit(t *testing.T) {
	bids := make([]TaskBid, MaxBids+2)
	for i := range bids {
		bids[i] = TaskBid{TaskID: "t-1", AuctionID: "t-1.1", AgentID: "a-1", ActiveTasks: i}
	}
	body, rest := AppendTaskBids(nil, "a-1", bids)
	got, refusal := newDecoder(t).DecodeTaskBids(body)
	if refusal != nil || !reflect.DeepEqual(got.Bids, bids[:MaxBids]) || !reflect.DeepEqual(rest, bids[MaxBids:]) {
		t.Errorf("%d bids in the message, %d left: %+v", len(got.Bids), len(rest), refusal)
	}
}
