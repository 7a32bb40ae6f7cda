package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
)

// setQuota changes settings of a node, given as key and value.
func (r *rig) setQuota(node string, keysAndValues ...string) (view.QuotaChanged, error) {
	q := view.QuotaChange{Node: node, By: "ann", Reason: "a test"}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		q.Values = append(q.Values, view.QuotaValue{Key: keysAndValues[i], Value: keysAndValues[i+1]})
	}
	return r.control(q)
}

// control makes a change and lets it take effect.
func (r *rig) control(q view.QuotaChange) (view.QuotaChanged, error) {
	r.t.Helper()
	changed, err := r.service.ControlQuota(context.Background(), q)
	r.settle()
	return changed, err
}

func (r *rig) mustSet(node string, keysAndValues ...string) view.QuotaChanged {
	r.t.Helper()
	changed, err := r.setQuota(node, keysAndValues...)
	if err != nil {
		r.t.Fatal(err)
	}
	return changed
}

// standing lists the controls by id, target, key and value; those that are suspended with an
// exclamation mark.
func (r *rig) standing() (list []string) {
	r.t.Helper()
	c, err := r.service.QuotaControls(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range c.Controls {
		text := fmt.Sprintf("%s %s %s %s", one.Kind, one.Target, one.Key, one.Value)
		if one.Suspended != "" {
			text = "! " + text
		}
		list = append(list, text)
	}
	return list
}

func (r *rig) stands(want ...string) {
	r.t.Helper()
	if got := r.standing(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("there stand\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// limitOf is the nominal budget of total tokens of a node.
func (r *rig) limitOf(node string) float64 {
	r.t.Helper()
	for _, b := range r.quotas(view.QuotaSelection{Node: node})[node].Budgets {
		if b.Dimension == "total_tokens" {
			return b.Limit
		}
	}
	r.t.Fatalf("%s has no budget of total_tokens", node)
	return 0
}

// Usage that was told wrongly is put right: what waits for it has started when the answer is there, the log says by
// operator and reason, and nothing stands. What makes no sense is refused.
func TestQuotaCorrection(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.task("t-1", "build", usage(300, 100, "poor"))
		r.result("a1", "t-1", "succeeded", `,"usage":{"requests":1,"input_tokens":1e15}`)
		r.task("t-2", "build", usage(200, 50, "poor")) // waits
		correct := func(node, key, value string) (view.QuotaChanged, error) {
			return r.control(view.QuotaChange{Node: node, Correct: true,
				Values: []view.QuotaValue{{Key: key, Value: value}}, By: "ann", Reason: "it lied"})
		}
		for _, c := range [][3]string{
			{"pool/nobody", "total_tokens", "-1"}, {"pool/poor", "cost_usd", "-1"}, {"pool/poor", "tokens", "-1"},
			{"pool/poor", "concurrency", "-1"},
			{"pool/poor", "total_tokens", "0"}, {"pool/poor", "total_tokens", "-1.5"}, {"pool/poor", "total_tokens", "-10%"},
			{"pool/poor", "total_tokens", "NaN"}, {"pool/poor", "total_tokens", "1e300"},
		} {
			var bad *httpapi.BadControl
			if _, err := correct(c[0], c[1], c[2]); !errors.As(err, &bad) {
				t.Errorf("%v: %v", c, err)
			}
		}
		before := r.quotas(view.QuotaSelection{})["pool/poor/a1"].Budgets[0].Used
		changed, err := correct("pool/poor/a1", "total_tokens", "-1600")
		if err != nil || len(changed.Controls) != 1 || changed.Controls[0].Kind != "correct" ||
			changed.Nodes[0].Budgets[0].Used != before-1600 {
			t.Errorf("%v, %+v, of %v", err, changed, before)
		}
		if n := len(r.in("agent.a1")); n != 2 {
			t.Errorf("%d tasks were given away after the correction, want 2", n)
		}
		// The answer says what has moved: first all that is used, then nothing. Each has an id of its own.
		left := fmt.Sprint("-", before-1600)
		ids := map[string]bool{changed.Controls[0].ID: true}
		for _, c := range [][2]string{{"-5900", left}, {"-5901", "0"}} {
			changed, err = correct("pool/poor/a1", "total_tokens", c[0])
			if err != nil || changed.Controls[0].Value != c[1] || changed.Controls[0].Asked != c[0] ||
				changed.Nodes[0].Budgets[0].Used != 0 {
				t.Errorf("%s: %v, %+v, want %s moved", c[0], err, changed, c[1])
			}
			ids[changed.Controls[0].ID] = true
		}
		if len(ids) != 3 {
			t.Errorf("three corrections have the ids %v", ids)
		}
		r.stands()
		if text := r.log.String(); !strings.Contains(text,
			`"kind":"correct","target":"pool/poor/a1","key":"total_tokens","value":"-1600","by":"ann","reason":"it lied",`+
				`"message":"the quotas are changed"`) {
			t.Errorf("not logged:\n%s", text)
		}
	})
}

// A limit that is raised has acted when the answer is there: what waits for it has started.
func TestQuotaSetActsAtOnce(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.task("t-1", "build", usage(700, 210, "poor")) // 910 of 1,000
		r.task("t-2", "build", usage(200, 50, "poor"))  // 250 more wait
		if n := len(r.in("agent.a1")); n != 1 {
			t.Fatalf("%d tasks were given away, want 1", n)
		}
		changed := r.mustSet("pool/poor", "total_tokens.amount", "2000", "weight", "4")
		if n := len(r.in("agent.a1")); n != 2 {
			t.Errorf("%d tasks were given away after the change, want 2", n)
		}
		if len(changed.Controls) != 2 || len(changed.Nodes) != 1 || changed.Nodes[0].Weight != 4 ||
			changed.Nodes[0].Budgets[0].Limit != 2000 {
			t.Errorf("answered %+v", changed)
		}
		r.stands("set pool/poor total_tokens.amount 2000", "set pool/poor weight 4")
		if text := r.log.String(); !strings.Contains(text,
			`"target":"pool/poor","key":"weight","value":"4","by":"ann","reason":"a test","message":"the quotas are changed"`) {
			t.Errorf("not logged:\n%s", text)
		}
		// The same again is no other control, and says when it was said first.
		first := changed.Controls[0].At
		r.pass(time.Minute)
		if again := r.mustSet("pool/poor", "total_tokens.amount", "2000"); !again.Controls[0].At.Equal(first) {
			t.Errorf("made again at %v, and at %v before", again.Controls[0].At, first)
		}
		r.stands("set pool/poor total_tokens.amount 2000", "set pool/poor weight 4")
		// And back: 1,160 are used of 1,000, and nothing more may be.
		for _, c := range changed.Controls {
			if _, err := r.service.UncontrolQuota(context.Background(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		r.stands()
		if got := r.limitOf("pool/poor"); got != 1000 {
			t.Errorf("limit %v after all was taken back, want the file's 1000", got)
		}
	})
}

// What does not fit is refused, and nothing has changed: not the quotas, not the list, not the
// journal.
func TestQuotaSetThatDoesNotFit(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		for _, c := range []struct {
			node, key, value, want string
		}{
			{"pool/nobody", "weight", "1", "no node of the quota trees is called pool/nobody"},
			{"pool/poor", "weight", "-1", "must be a whole number from 0 to 1000000, not -1"},
			{"pool/poor/a1", "total_tokens.amount", "1001", "less than those below it have of their own"},
			{"openai", "requests.lend", "1", "nothing above it"},
		} {
			_, err := r.setQuota(c.node, c.key, c.value)
			var bad *httpapi.BadControl
			if !errors.As(err, &bad) || !strings.Contains(bad.Why, c.want) {
				t.Errorf("%s %s=%s: %v, want %q", c.node, c.key, c.value, err, c.want)
			}
		}
		// One of two that does not fit is both.
		if _, err := r.setQuota("pool/poor", "total_tokens.amount", "2000", "weight", "x"); err == nil {
			t.Error("half of a change was made")
		}
		r.stands()
		if got := r.limitOf("pool/poor"); got != 1000 {
			t.Errorf("limit %v, want 1000", got)
		}
		if _, err := r.control(view.QuotaChange{Node: "pool", Until: time.Now().Add(-time.Second),
			Values: []view.QuotaValue{{Key: "weight", Value: "1"}}}); err == nil ||
			!strings.Contains(err.Error(), "would have ended") {
			t.Errorf("one that is over: %v", err)
		}
		// What stands must go on fitting: poor/a1 has 900 of poor's 1,000.
		r.mustSet("pool/poor/a1", "total_tokens.amount", "900")
		_, err := r.setQuota("pool/poor", "total_tokens.amount", "800")
		if err == nil || !strings.Contains(err.Error(), "less than those below it have of their own (a1 900)") {
			t.Errorf("a limit below what is promised: %v", err)
		}
	})
}

// A boost beyond what the node above has says what would fit: poor/a1 has 600 of poor's 1,000 and a2 shares the
// rest by weight, which gives way. 400 more fit.
func TestBoostThatDoesNotFit(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.mustSet("pool/poor/a1", "total_tokens.amount", "600")
		boost := view.QuotaChange{Node: "pool/poor/a1", Boost: true, For: time.Hour,
			Values: []view.QuotaValue{{Key: "total_tokens", Value: "+5000"}}}
		if _, err := r.control(boost); err == nil ||
			!strings.HasSuffix(err.Error(), "; at most +400 is left for pool/poor/a1") {
			t.Errorf("%v", err)
		}
		// One that stands gives way to it.
		boost.Values[0].Value = "+100"
		if _, err := r.control(boost); err != nil {
			t.Error(err)
		}
		boost.Values[0].Value = "+5000"
		if _, err := r.control(boost); err == nil ||
			!strings.HasSuffix(err.Error(), "; at most +400 is left for pool/poor/a1") {
			t.Errorf("while a boost stands: %v", err)
		}
		boost.Values[0].Value = "+400"
		if _, err := r.control(boost); err != nil {
			t.Error(err)
		}
	})
}

// A preview says what a boost takes and from where, and changes nothing: of poor's 1,000 a1 has 600, and
// 400 are given to none.
func TestBoostIsPreviewed(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.mustSet("pool/poor/a1", "total_tokens.amount", "600")
		boost := view.QuotaChange{Node: "pool/poor/a1", Boost: true, For: time.Hour, Preview: true,
			Values: []view.QuotaValue{{Key: "total_tokens", Value: "+100"}}}
		changed, err := r.control(boost)
		if err != nil {
			t.Fatal(err)
		}
		today := r.service.now().UTC().Format(time.DateOnly)
		want := []view.QuotaMove{
			{Node: "pool/poor", Spare: true, Dimension: "total_tokens", Period: today, Before: 400, After: 300},
			{Node: "pool/poor/a1", Dimension: "total_tokens", Period: today, Before: 600, After: 700},
		}
		if !slices.Equal(changed.Moves, want) {
			t.Errorf("got %+v, want %+v", changed.Moves, want)
		}
		if got := r.limitOf("pool/poor/a1"); got != 600 {
			t.Errorf("the preview has changed it to %v", got)
		}
		boost.Values[0].Value = "+5000"
		if _, err := r.control(boost); err == nil ||
			!strings.HasSuffix(err.Error(), "; at most +400 is left for pool/poor/a1") {
			t.Errorf("what does not fit is refused by the preview, too: %v", err)
		}
	})
}

// A boost ends by itself, at its time, and the log says so.
func TestBoostEndsByItself(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		boost := view.QuotaChange{Node: "pool/poor", Boost: true, For: 2 * time.Hour,
			Values: []view.QuotaValue{{Key: "total_tokens", Value: "+50%"}}}
		changed, err := r.control(boost)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.limitOf("pool/poor"); got != 1500 {
			t.Errorf("limit %v with a boost of half of 1000", got)
		}
		if got := time.Until(changed.Controls[0].Until); got < 2*time.Hour-time.Second || got > 2*time.Hour {
			t.Errorf("it stands for %v", got)
		}
		r.pass(2*time.Hour - time.Minute)
		if got := r.limitOf("pool/poor"); got != 1500 {
			t.Errorf("limit %v before the boost is over", got)
		}
		r.pass(time.Minute)
		if got := r.limitOf("pool/poor"); got != 1000 {
			t.Errorf("limit %v after the boost, want 1000", got)
		}
		r.stands()
		if line := r.lineOf("a change to the quotas has ended"); line["target"] != "pool/poor" || line["value"] != "+50%" {
			t.Errorf("logged %v", line)
		}
	})
}

// Groups and agents come and go by the API; what is said about them goes with them.
func TestRegisterGroupsAndAgents(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		ctx := context.Background()
		put := func(agent bool, id, entry string) error {
			_, err := r.service.RegisterQuota(ctx, view.QuotaEntry{Agent: agent, ID: id, Entry: entry})
			return err
		}
		r.service.Reload(withLimits(r, limited+"unknown_callers: allow\n"), nil) // tasks may come before their group
		r.settle()
		r.task("t-1", "build", usage(10, 10, "new"))
		if err := put(true, "a2", `{"group_id":"new"}`); err == nil ||
			!strings.Contains(err.Error(), "no group is called new") {
			t.Errorf("an agent of no group: %v", err)
		}
		for range 2 { // twice is once
			if err := put(false, "new", `{"limits":{"total_tokens":{"amount":300,"per":"day"}}}`); err != nil {
				t.Fatal(err)
			}
		}
		if err := put(true, "a2", `{"group_id":"new","weight":0}`); err != nil {
			t.Fatal(err)
		}
		r.mustSet("pool/new", "weight", "6")
		r.task("t-2", "build", usage(200, 60, "new")) // 20 and 260 of 300: t-1 counts as well
		r.task("t-3", "build", usage(11, 10, "new"))
		if n := len(r.in("agent.a1")); n != 2 {
			t.Errorf("%d tasks were given away, want 2: the third is beyond the limit", n)
		}
		if err := put(false, "rich", "{}"); err == nil ||
			!strings.Contains(err.Error(), "quotas.yaml lists group rich itself") {
			t.Errorf("a group of the file: %v", err)
		}
		if _, err := r.service.UnregisterQuota(ctx, false, "rich"); !errors.Is(err, httpapi.ErrOfFile) {
			t.Errorf("removing a group of the file: %v", err)
		}
		if _, err := r.service.UnregisterQuota(ctx, true, "nobody"); !errors.Is(err, httpapi.ErrNoControl) {
			t.Errorf("removing an unknown agent: %v", err)
		}
		if _, err := r.service.UnregisterQuota(ctx, false, "new"); err == nil ||
			!strings.Contains(err.Error(), "(agent a2) stands, and would not fit any more") ||
			!strings.Contains(err.Error(), "remove the agents and groups that belong to a group before") {
			t.Errorf("removing a group with agents: %v", err)
		}
		if _, err := r.service.UnregisterQuota(ctx, true, "a2"); err != nil {
			t.Fatal(err)
		}
		gone, err := r.service.UnregisterQuota(ctx, false, "new")
		if err != nil || len(gone.Removed) != 2 || gone.Removed[1].Key != "weight" {
			t.Errorf("removed %+v, %v; want the group with its weight", gone.Removed, err)
		}
		r.settle()
		r.stands()
		if n := len(r.in("agent.a1")); n != 3 {
			t.Errorf("%d tasks were given away, want 3: the group has no limit any more", n)
		}
	})
}

// A file under which a change no longer fits counts all the same: the change is suspended, says
// why, and counts again when it fits again.
func TestReloadSuspendsWhatNoLongerFits(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.mustSet("pool/rich", "weight", "9")
		r.mustSet("pool/poor", "total_tokens.amount", "4000")
		without := strings.Replace(strings.Replace(limited,
			"  - {id: poor, weight: 1, limits: {total_tokens: {amount: 1000, per: day}}}\n", "", 1),
			"agents:\n  - {id: a1, group_id: poor}\n", "", 1)
		r.service.Reload(withLimits(r, without), nil)
		r.settle()
		r.stands("set pool/rich weight 9", "! set pool/poor total_tokens.amount 4000")
		if line :=
			r.lineOf(
				"a change to the quotas does not fit quotas.yaml as it is, and does not count; end it (taskbus quota unset), " +
					"or change the file"); !strings.Contains(fmt.Sprint(line["why"]), "pool/poor") {
			t.Errorf("logged %v", line)
		}
		if m := r.quotaMetrics(); m["taskbus_quota_controls standing"] != 1 || m["taskbus_quota_controls suspended"] != 1 {
			t.Errorf("by the metrics %v stand, %v are suspended", m["taskbus_quota_controls standing"],
				m["taskbus_quota_controls suspended"])
		}
		if got := r.quotas(view.QuotaSelection{Node: "pool/rich"})["pool/rich"].Weight; got != 9 {
			t.Errorf("the other change does not count: weight %d", got)
		}
		r.mustSet("pool/rich", "weight", "8") // others can be made meanwhile
		r.service.Reload(withLimits(r, limited), nil)
		r.settle()
		r.stands("set pool/rich weight 8", "set pool/poor total_tokens.amount 4000")
		if got := r.limitOf("pool/poor"); got != 4000 {
			t.Errorf("pool/poor has %v, want 4000", got)
		}
	})
}

// A coordinator that does not lead changes nothing.
func TestControlsWantALeader(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.broker.Cut()
		if _, err := r.service.ControlQuota(context.Background(),
			view.QuotaChange{Node: "pool/poor", Values: []view.QuotaValue{{Key: "weight", Value: "2"}}}); err == nil {
			t.Error("changed without a session")
		}
		r.pass(backoffMax)
		r.connect()
	})
	inRig(t, quotaFleet, func(r *rig) {
		if _, err := r.service.ControlQuota(context.Background(), view.QuotaChange{Node: "pool"}); !errors.Is(err,
			httpapi.ErrNoQuotas) {
			t.Errorf("without quotas.yaml: %v", err)
		}
	})
	inRig(t, quotaFleet+"journal: {enabled: false}\n", func(r *rig) {
		r.service.Reload(withLimits(r, limited), nil)
		r.settle()
		if _, err := r.setQuota("pool/poor", "weight", "2"); err == nil ||
			!strings.Contains(err.Error(), "kept in the journal") {
			t.Errorf("without a journal: %v", err)
		}
	})
}

// Several changes at one time are made one after the other: all of it stands, and what
// does not fit together with what came first is refused.
func TestControlsOneAfterTheOther(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		const all = 20
		errs := make([]error, all)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				// poor's 1,000 have room for three agents of 300; its a1, by weight, keeps 100.
				_, errs[i] = r.service.RegisterQuota(context.Background(), view.QuotaEntry{
					Agent: true, ID: fmt.Sprint("b", i), Entry: `{"group_id":"poor","initial_quota":300}`,
				})
			})
		}
		wg.Wait()
		r.settle()
		done := 0
		for _, err := range errs {
			var bad *httpapi.BadControl
			switch {
			case err == nil:
				done++
			case !errors.As(err, &bad) || !strings.Contains(bad.Why, "pool/poor has 1000 of total_tokens"):
				t.Errorf("refused for %v", err)
			}
		}
		if done != 3 || len(r.standing()) != 3 {
			t.Errorf("%d have been registered, %v stand; want 3", done, r.standing())
		}
	})
}
