package controls_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/service/internal/controls"
	"taskbus/coordinator/view"
)

// The pool has 1,000 tokens a month: 600 for rich, 300 for poor, so 100 that no group has.
const books = `
pool: {limits: {total_tokens: {amount: 1000, per: month}}}
groups:
  - {id: rich, limits: {total_tokens: {amount: 600, per: month}}}
  - {id: poor, limits: {total_tokens: {amount: 300, per: month}}}
`

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// desk is a set of controls with a leader that journals at once, unless busy or away is set.
type desk struct {
	*controls.Controls
	t     *testing.T
	away  error         // of Lead
	busy  chan struct{} // a change is said to be made here, and waits for as much back; nil: it does not
	news  []string      // ids of controls that were said not to fit any more
	calls int           // of Change
}

func newDesk(t *testing.T, quotasYAML string) *desk {
	t.Helper()
	d := &desk{t: t}
	d.Controls = controls.New(controls.Options{
		InForce: func(_ *config.Config, news []quotas.Suspended) {
			for _, one := range news {
				d.news = append(d.news, one.ID)
			}
		},
		Lead: func() (controls.Leader, error) { return d, d.away },
		Now:  func() time.Time { return noon },
	})
	d.Under(configOf(t, quotasYAML))
	return d
}

func configOf(t *testing.T, quotasYAML string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte("agents:\n  a1: {capabilities: [code], max_concurrent_tasks: 1}\n"), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if quotasYAML == "" {
		return c
	}
	q, err := quotas.Parse([]byte(quotasYAML), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c.WithQuotas(q)
}

// Change is that of a leader: what stands is in the engine's order, which is that of coming.
func (d *desk) Change(set []coordinator.QuotaControl, remove []string,
	prepared *controls.Prepared) ([]coordinator.QuotaControl, error) {
	d.calls++
	if d.busy != nil {
		d.busy <- struct{}{}
		<-d.busy
	}
	after := slices.DeleteFunc(slices.Clone(d.State().Standing), func(one coordinator.QuotaControl) bool {
		return slices.Contains(remove, one.ID) ||
			slices.ContainsFunc(set, func(o coordinator.QuotaControl) bool { return o.ID == one.ID })
	})
	d.Stand(append(after, set...), prepared)
	return set, nil
}

func (d *desk) set(node, tokens string) error {
	_, _, err := d.Control(context.Background(), view.QuotaChange{Node: node, By: "ann", Reason: "a test",
		Values: []view.QuotaValue{{Key: "total_tokens.amount", Value: tokens}}})
	return err
}

// limit is the budget of tokens of a node as it is in force.
func (d *desk) limit(node string) string {
	d.t.Helper()
	for _, n := range d.State().Config.Policy().Quotas.Nodes {
		if n.ID == node {
			return quotas.DescribeLimit(coordinator.DimTotalTokens, n.Budgets[coordinator.DimTotalTokens])
		}
	}
	d.t.Fatalf("there is no node %s", node)
	return ""
}

// refused fails the test unless the change was refused with these words, and nothing has changed.
func (d *desk) refused(err error, words string, standing int) {
	d.t.Helper()
	var bad *httpapi.BadControl
	if !errors.As(err, &bad) || !strings.Contains(bad.Why, words) {
		d.t.Errorf("got %v, want a refusal with %q", err, words)
	}
	if n := len(d.State().Standing); n != standing {
		d.t.Errorf("%d controls stand after a refusal, want %d", n, standing)
	}
}

func TestAChangeIsInForceWhenTheLeaderHasIt(t *testing.T) {
	d := newDesk(t, books)
	if err := d.set("pool/poor", "400"); err != nil { // 600 + 400 = 1,000: just fits
		t.Fatal(err)
	}
	if got := d.limit("pool/poor"); !strings.Contains(got, "400") {
		t.Errorf("the budget in force is %s, want 400 tokens", got)
	}
	if err := d.set("pool/poor", "400"); err != nil || d.calls != 1 {
		t.Errorf("the same once more: %v, %d changes made, want 1", err, d.calls)
	}
	d.refused(d.set("pool/poor", "401"), "", 1)
	d.refused(d.set("pool/nobody", "1"), "", 1)
	if got := d.limit("pool/poor"); !strings.Contains(got, "400") {
		t.Errorf("after a refusal the budget is %s, want 400 tokens", got)
	}
}

// A refused boost says how much there is: 1,000 - 600 - 300 = 100.
func TestARefusedBoostSaysWhatIsLeft(t *testing.T) {
	d := newDesk(t, books)
	boost := func(by string, preview bool) (view.QuotaChanged, error) {
		answer, _, err := d.Control(context.Background(), view.QuotaChange{Node: "pool/poor", Boost: true, By: "ann",
			Preview: preview, For: time.Hour, Values: []view.QuotaValue{{Key: "total_tokens.amount", Value: by}}})
		return answer, err
	}
	_, err := boost("+101", false)
	d.refused(err, "at most +100 is left for pool/poor", 0)
	_, err = boost("+101", true)
	d.refused(err, "at most +100 is left for pool/poor", 0)
	answer, err := boost("+100", true)
	if err != nil || len(answer.Moves) == 0 || len(d.State().Standing) != 0 || d.calls != 0 {
		t.Errorf("a preview: %v, moves %v, %d stand", err, answer.Moves, len(d.State().Standing))
	}
	if answer, err = boost("+100", false); err != nil || len(answer.Controls) != 1 ||
		!answer.Controls[0].Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("a boost for an hour: %+v, %v", answer.Controls, err)
	}
}

func TestWhatIsOverWhenItBeginsIsRefused(t *testing.T) {
	d := newDesk(t, books)
	_, _, err := d.Control(context.Background(), view.QuotaChange{Node: "pool/poor", Until: noon,
		Values: []view.QuotaValue{{Key: "total_tokens.amount", Value: "1"}}})
	d.refused(err, "it would have ended at 2030-01-01T12:00:00Z already", 0)
}

// While one change waits for the journal, another waits for it, as long as its caller does.
func TestOneChangeAtATime(t *testing.T) {
	d := newDesk(t, books)
	d.busy = make(chan struct{})
	first := make(chan error)
	go func() { first <- d.set("pool/poor", "400") }()
	<-d.busy // it is in the leader's hands
	gone, leave := context.WithCancel(context.Background())
	leave()
	_, _, err := d.Control(gone, view.QuotaChange{Node: "pool/rich",
		Values: []view.QuotaValue{{Key: "total_tokens.amount", Value: "600"}}})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another change is being made") {
		t.Errorf("the second: %v", err)
	}
	d.busy <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// A group that is removed takes with it what was said about it, but not the agents that belong to it.
func TestRemovingAGroup(t *testing.T) {
	d := newDesk(t, books)
	register := func(agent bool, id, entry string) error {
		_, _, err := d.Register(context.Background(), view.QuotaEntry{Agent: agent, ID: id, Entry: entry, By: "ann"})
		return err
	}
	for _, err := range []error{
		register(false, "guests", `{"limits": {"total_tokens": {"amount": 50, "per": "month"}}}`), d.set("pool/guests", "60"),
		register(true, "a1", `{"group_id": "guests"}`),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.Unregister(context.Background(), false, "guests")
	d.refused(err, "remove the agents and groups that belong to a group before the group itself", 3)
	if _, err := d.Unregister(context.Background(), true, "a1"); err != nil {
		t.Fatal(err)
	}
	answer, err := d.Unregister(context.Background(), false, "guests")
	if err != nil || len(answer.Removed) != 2 || len(d.State().Standing) != 0 {
		t.Errorf("removed %+v, %v; %d stand", answer.Removed, err, len(d.State().Standing))
	}
	for id, want := range map[string]error{"rich": httpapi.ErrOfFile, "guests": httpapi.ErrNoControl} {
		if _, err := d.Unregister(context.Background(), false, id); !errors.Is(err, want) {
			t.Errorf("removing %s: %v, want %v", id, err, want)
		}
	}
}

// New files under which a control does not fit any more suspend it, which is said once; it stands on, and counts
// again when it fits.
func TestFilesUnderWhichAControlDoesNotFit(t *testing.T) {
	d := newDesk(t, books)
	if err := d.set("pool/poor", "400"); err != nil {
		t.Fatal(err)
	}
	smaller := strings.Replace(books, "amount: 1000", "amount: 900", 1) // 600 + 400 > 900
	for range 2 {
		if _, _, err := d.Adopt(configOf(t, smaller)); err != nil {
			t.Fatal(err)
		}
	}
	if list := d.List().Controls; len(list) != 1 || list[0].Suspended == "" || len(d.news) != 1 {
		t.Errorf("%+v; said %d times, want once", list, len(d.news))
	}
	if got := d.limit("pool/poor"); !strings.Contains(got, "300") {
		t.Errorf("the budget in force is %s, want the file's 300", got)
	}
	d.Under(configOf(t, books))
	if got := d.limit("pool/poor"); !strings.Contains(got, "400") {
		t.Errorf("the budget in force is %s, want 400 again", got)
	}
}

func TestWithoutQuotasLeaderOrJournal(t *testing.T) {
	none := newDesk(t, "")
	if err := none.set("pool", "1"); !errors.Is(err, httpapi.ErrNoQuotas) || none.List().Configured {
		t.Errorf("without quotas.yaml: %v", err)
	}
	d := newDesk(t, books)
	d.away = errors.New("another coordinator leads")
	if err := d.set("pool/poor", "400"); !errors.Is(err, d.away) || d.calls != 0 {
		t.Errorf("without a leader: %v", err)
	}
	d.away = controls.ErrNoJournal
	_, _, err := d.Control(context.Background(), view.QuotaChange{Node: "pool/poor", Correct: true,
		Values: []view.QuotaValue{{Key: "total_tokens", Value: "-5"}}})
	if err == nil || !strings.Contains(err.Error(), "corrections are kept in the journal") {
		t.Errorf("a correction without a journal: %v", err)
	}
}
