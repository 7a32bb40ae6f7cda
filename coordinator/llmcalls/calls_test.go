package llmcalls

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/estimates"
)

var epoch = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// waits is a task that goes before every call up to a priority; nil: there is none.
type waits struct {
	until  coordinator.Priority
	before bool
}

func (w *waits) Ahead(_ time.Time, _ fairshare.Charge, priority int) (fairshare.Verdict, bool) {
	if !w.before || priority > int(w.until) {
		return fairshare.Verdict{}, false
	}
	return fairshare.Verdict{Node: "pool", Dimension: coordinator.DimRequests, Limit: fairshare.LimitRate}, true
}

// ten are quotas of 10 requests a day, half of them for each of x and y, that a minute sets aside.
func ten() *coordinator.Policy {
	q := &coordinator.Quotas{
		ReservationTTL: time.Minute,
		Nodes: []coordinator.QuotaNode{
			{ID: "pool", Name: "pool", Kind: coordinator.QuotaPool, Parent: -1, Weight: 1},
			{ID: "pool/x", Name: "x", Kind: coordinator.QuotaGroup, Weight: 1},
		},
	}
	q.Nodes[0].Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
		Nominal: 10, Period: coordinator.Period{Unit: coordinator.PerDay},
	}
	return &coordinator.Policy{Quotas: q}
}

type desk struct {
	Leases
	t     *testing.T
	now   time.Time
	waits waits
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, now: epoch}
	l, p := fairshare.NewLedger(), ten()
	l.Install(epoch, p.Quotas)
	d.Leases = New(l, estimates.New(), &d.waits)
	d.Under(p)
	return d
}

func call(op coordinator.CallOp, id string, requests float64) coordinator.Call {
	return coordinator.Call{
		Op: op, Key: coordinator.KeyOf(coordinator.TaskID(id)), Group: "x", Priority: coordinator.PriorityNormal,
		Usage: coordinator.Usage{Requests: requests},
	}
}

// asks wants the states of the answers, and the types of the records that they leave.
func (d *desk) asks(
	states []coordinator.CallState, records string, calls ...coordinator.Call,
) []coordinator.CallAnswer {
	d.t.Helper()
	answered, out := d.Answer(d.now, &coordinator.CallAsked{Token: 7, Calls: calls})
	if answered.Token != 7 || len(answered.Answers) != len(states) {
		d.t.Fatalf("%d answers under %d", len(answered.Answers), answered.Token)
	}
	for i, a := range answered.Answers {
		if a.State != states[i] {
			d.t.Errorf("call %d is %v (%+v), want %v", i, a.State, a.Lacks, states[i])
		}
	}
	var got []string
	for _, r := range out.Records {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", r), "*coordinator."))
	}
	if text := strings.Join(got, " "); text != records {
		d.t.Errorf("recorded %q, want %q", text, records)
	}
	return answered.Answers
}

func states(s ...coordinator.CallState) []coordinator.CallState { return s }

// TestLeaseOfACall: what is reserved stands until it is settled, and for as long as quotas.yaml says.
func TestLeaseOfACall(t *testing.T) {
	d := newDesk(t)
	a := d.asks(states(coordinator.CallGranted), "QuotaReserved", call(coordinator.CallReserve, "1", 4))
	if !a[0].Until.Equal(epoch.Add(time.Minute)) {
		t.Errorf("it stands until %v", a[0].Until)
	}
	again := call(coordinator.CallReserve, "1", 4)
	if a := d.asks(states(coordinator.CallGranted), "", again); !a[0].Standing {
		t.Error("what stands is reserved again")
	}
	d.asks(states(coordinator.CallRefused), "", call(coordinator.CallReserve, "2", 7)) // 4 + 7 > 10
	d.asks(states(coordinator.CallNever), "", call(coordinator.CallReserve, "2", 11))
	settle := call(coordinator.CallSettle, "1", 2)
	settle.Meant = coordinator.UsageExact
	d.asks(states(coordinator.CallGranted), "QuotaEnded", settle)
	if n := len(d.out.Settled); n != 1 || d.out.Settled[0].Ended.Used[coordinator.DimRequests] != 2 {
		t.Errorf("%d are settled: %+v", n, d.out.Settled)
	}
	d.asks(states(coordinator.CallUnknown), "", call(coordinator.CallRelease, "3", 0))
	d.asks(states(coordinator.CallGranted), "QuotaReserved", call(coordinator.CallReserve, "2", 8)) // 2 + 8
}

// TestAllOrNothing: of calls that are asked about together none stands if one is refused.
func TestAllOrNothing(t *testing.T) {
	d := newDesk(t)
	d.asks(states(coordinator.CallPutBy, coordinator.CallRefused), "",
		call(coordinator.CallReserve, "1", 6), call(coordinator.CallReserve, "2", 6))
	d.asks(states(coordinator.CallGranted, coordinator.CallGranted), "QuotaReserved QuotaReserved",
		call(coordinator.CallReserve, "1", 4), call(coordinator.CallReserve, "2", 6))
}

// TestTasksGoFirst: a call stands back behind a task that waits, unless its priority is higher.
func TestTasksGoFirst(t *testing.T) {
	d := newDesk(t)
	d.waits = waits{coordinator.PriorityNormal, true}
	a := d.asks(states(coordinator.CallRefused), "", call(coordinator.CallReserve, "1", 1))
	if a[0].Lacks == nil || a[0].Lacks.Limit != "rate" {
		t.Errorf("it lacks %+v", a[0].Lacks)
	}
	high := call(coordinator.CallReserve, "1", 1)
	high.Priority = coordinator.PriorityHigh
	d.asks(states(coordinator.CallGranted), "QuotaReserved", high)
}

// TestExpire: a lease whose end was not reported is free again.
func TestExpire(t *testing.T) {
	d := newDesk(t)
	d.asks(states(coordinator.CallGranted), "QuotaReserved", call(coordinator.CallReserve, "1", 10))
	d.now = epoch.Add(time.Minute)
	key, due := d.ledger.Due(d.now)
	charge, _, _ := d.ledger.Find(key)
	out := d.Expire(d.now, key, &charge)
	ended, is := out.Records[0].(*coordinator.QuotaEnded)
	if !due || len(out.Records) != 1 || !is || ended.How != coordinator.QuotaExpired {
		t.Errorf("due %v, recorded %+v", due, out.Records)
	}
	d.asks(states(coordinator.CallGranted), "QuotaReserved", call(coordinator.CallReserve, "2", 10))
}

// TestNamesAreBounded: each agent and day has mostNames names that quotas.yaml does not have.
func TestNamesAreBounded(t *testing.T) {
	l := fairshare.NewLedger()
	l.Install(epoch, ten().Quotas)
	var n names
	kept := func(now time.Time, i int) bool {
		return n.note(now, l, &fairshare.Charge{Agent: "a", Model: fmt.Sprint("m", i)})
	}
	for i := range mostNames {
		if !kept(epoch, i) {
			t.Fatalf("name %d is one too many", i)
		}
	}
	if kept(epoch, mostNames) || !kept(epoch, 0) {
		t.Error("one more is kept, or one that is known is not")
	}
	if !kept(epoch.Add(12*time.Hour), mostNames) { // midnight
		t.Error("the next day has no names of its own")
	}
}
