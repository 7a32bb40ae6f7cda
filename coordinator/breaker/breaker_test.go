package breaker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story plays a Set by lines of text, at one capability:
//
//	fault 0 t1      agent 0 fails task t1, which was dispatched just now
//	late 0 t1       the same of a dispatch that was stamped by `stamp`
//	faults 0 5      agent 0 fails five tasks that no agent failed before
//	success 0, lateSuccess 0, trip 0, probe 0 t, release 0 t, forgive 0 t,
//	supply 3, wait 30s
//
// and holds what it hears of changes against Allowed.
type story struct {
	t     *testing.T
	s     *Set
	now   time.Time
	stamp uint64
	tasks int
	heard map[Pair]bool // Allowed, by what has been told
	said  string        // answer of the latest line
}

const gpu = "gpu"

func newStory(t *testing.T, supply int, settings Settings) *story {
	st := &story{t: t, s: New(settings), now: start, heard: map[Pair]bool{}}
	st.hear(st.s.Supply(gpu, supply))
	return st
}

func pair(agent int) Pair { return Pair{agent, gpu} }

// hear takes note of changes, and finds what has changed without being told.
func (st *story) hear(changed []Pair) {
	st.t.Helper()
	for _, p := range changed {
		st.heard[p] = st.s.Allowed(p)
	}
	for agent := range 40 {
		p := pair(agent)
		told, ever := st.heard[p]
		if allowed := st.s.Allowed(p); allowed != (told || !ever) {
			st.t.Errorf("agent %d: allowed is %v, which nobody has been told", agent, allowed)
		}
	}
}

func (st *story) play(lines ...string) {
	st.t.Helper()
	for _, line := range lines {
		var task string
		var agent int
		verb, rest, _ := strings.Cut(line, " ")
		fmt.Sscanf(rest, "%d %s", &agent, &task)
		id := coordinator.TaskID(task)
		switch verb {
		case "fault":
			st.hear(st.s.Fault(st.now, pair(agent), st.s.Generation(), id))
		case "late":
			st.hear(st.s.Fault(st.now, pair(agent), st.stamp, id))
		case "faults":
			var n int
			fmt.Sscan(task, &n)
			for range n {
				st.tasks++
				st.hear(st.s.Fault(st.now, pair(agent), st.s.Generation(), coordinator.TaskID(fmt.Sprint("task ", st.tasks))))
			}
		case "success":
			st.hear(st.s.Success(st.now, pair(agent), st.s.Generation(), id))
		case "lateSuccess":
			st.hear(st.s.Success(st.now, pair(agent), st.stamp, id))
		case "trip":
			st.hear(st.s.Trip(st.now, pair(agent)))
		case "probe":
			taken, changed := st.s.Probe(pair(agent), id)
			st.hear(changed)
			st.said = fmt.Sprint(taken)
		case "release":
			st.hear(st.s.Release(pair(agent), id))
		case "forgive":
			st.hear(st.s.Forgive(st.now, pair(agent), id))
		case "supply":
			st.hear(st.s.Supply(gpu, agent))
		case "wait":
			d, err := time.ParseDuration(rest)
			if err != nil {
				st.t.Fatal(err)
			}
			st.now = st.now.Add(d)
			st.hear(st.s.Advance(st.now))
		case "stamp":
			st.stamp = st.s.Generation()
		default:
			st.t.Fatalf("no such line: %s", line)
		}
	}
}

// text describes the agents whose breaker is not closed: its state, how long it is
// still open, whether a probe is under way, whether ejection is ignored.
func (st *story) text() string {
	var parts []string
	for agent := range 40 {
		look := st.s.Look(st.now, pair(agent))
		if look.State == Closed {
			continue
		}
		part := fmt.Sprintf("%d %s", agent, look.State)
		if look.State == Open {
			part += fmt.Sprintf(" %v", look.Until.Sub(st.now))
		}
		if look.Probing {
			part += " probing"
		}
		if look.Ignored {
			part += " ignored"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// TestRules: each rule with what leads up to it. Ten agents offer the capability,
// so that one of them may be ejected; the base is 30 s.
func TestRules(t *testing.T) {
	lines := func(l ...string) []string { return l }
	tests := []struct {
		name string
		play []string
		want string
	}{
		{"nothing", nil, ""},
		{"four faults in a row", lines("faults 0 4"), ""},
		{"five", lines("faults 0 5"), "0 open 30s"},
		{"a success in between", lines("faults 0 4", "success 0", "faults 0 4"), ""},
		{"the others' successes do not help", lines("faults 0 4", "success 1", "faults 0 1"), "0 open 30s"},
		{"a task counts once", lines("faults 0 3", "fault 0 x", "fault 0 x", "fault 0 x", "fault 0 x", "fault 0 x"), ""},
		{"five agents fail one task", lines("fault 0 x", "fault 1 x", "fault 2 x", "fault 3 x", "fault 4 x"), ""},
		{"the posterior test", lines("trip 0"), "0 open 30s"},

		{"open for 30 s", lines("faults 0 5", "wait 29s"), "0 open 1s"},
		{"then half-open", lines("faults 0 5", "wait 30s"), "0 half_open"},
		{"for as long as nobody tries it", lines("faults 0 5", "wait 24h"), "0 half_open"},
		{"its probe", lines("faults 0 5", "wait 30s", "probe 0 x"), "0 half_open probing"},
		{"succeeds", lines("faults 0 5", "wait 30s", "probe 0 x", "success 0"), ""},
		{"fails: 2 × 30 s", lines("faults 0 5", "wait 30s", "probe 0 x", "fault 0 x"), "0 open 1m0s"},
		{"is withdrawn", lines("faults 0 5", "wait 30s", "probe 0 x", "release 0 x"), "0 half_open"},
		{"what is withdrawn is another task", lines("faults 0 5", "wait 30s", "probe 0 x", "release 0 y"),
			"0 half_open probing"},
		{"the second probe is refused and frees nothing", lines("faults 0 5", "wait 30s", "probe 0 x", "probe 0 y",
			"release 0 y"), "0 half_open probing"},

		// The multiplier: 30 s × times opened, less one for each 30 s spent closed.
		{"opened again at once: 2 × 30 s", lines("faults 0 5", "wait 30s", "success 0", "faults 0 5"), "0 open 1m0s"},
		{"29 s after it closed: the same", lines("faults 0 5", "wait 30s", "success 0", "wait 29s", "faults 0 5"),
			"0 open 1m0s"},
		{"30 s after it closed: 1 × 30 s", lines("faults 0 5", "wait 30s", "success 0", "wait 30s", "faults 0 5"),
			"0 open 30s"},
		{"three times, 30 s after: (3 - 1 + 1) × 30 s",
			lines("faults 0 5", "wait 30s", "faults 0 1", "wait 60s", "faults 0 1", "wait 90s", "success 0", "wait 30s",
				"faults 0 5"), "0 open 1m30s"},
		{"never longer than 300 s", lines("faults 0 5", "wait 5m", "faults 0 1", "wait 5m", "faults 0 1", "wait 5m",
			"faults 0 1", "wait 5m",
			"faults 0 1", "wait 5m", "faults 0 1", "wait 5m", "faults 0 1", "wait 5m", "faults 0 1", "wait 5m",
			"faults 0 1", "wait 5m", "faults 0 1", "wait 5m", "faults 0 1", "wait 5m", "faults 0 1"), "0 open 5m0s"},

		// Dispatches from before.
		{"a late fault: 30 s from now", lines("stamp", "faults 0 5", "wait 20s", "late 0 x"), "0 open 30s"},
		{"but never a shorter time", lines("stamp", "faults 0 5", "wait 30s", "faults 0 1", "wait 10s", "late 0 x"),
			"0 open 50s"},
		{"and the multiplier stays 1: 2 × 30 s the next time", lines("stamp", "faults 0 5", "late 0 x", "late 0 y",
			"wait 30s", "faults 0 1"), "0 open 1m0s"},
		{"a late success does not close it", lines("stamp", "faults 0 5", "lateSuccess 0"), "0 open 30s"},
		{"nor when half-open", lines("stamp", "faults 0 5", "wait 30s", "lateSuccess 0"), "0 half_open"},
		{"a late fault does not reopen it", lines("stamp", "faults 0 5", "wait 30s", "late 0 x"), "0 half_open"},
		{"late faults are not of the closed one", lines("stamp", "faults 0 5", "wait 30s", "success 0", "late 0 a",
			"late 0 b", "late 0 c", "late 0 d", "late 0 e"), ""},
		{"a late success does not clear its faults", lines("stamp", "faults 0 5", "wait 30s", "success 0", "faults 0 4",
			"lateSuccess 0", "faults 0 1"), "0 open 1m0s"},
		{"after a day all that is forgotten", lines("stamp", "faults 0 5", "wait 30s", "success 0", "wait 24h", "late 0 a",
			"late 0 b", "late 0 c", "late 0 d", "late 0 e"), "0 open 30s"},
		{"and the faults since then stay", lines("stamp", "faults 0 5", "wait 30s", "success 0", "faults 0 1", "wait 24h",
			"late 0 a", "late 0 b", "late 0 c", "late 0 d"), "0 open 30s"},
		{"the probe is of its own time, whatever its stamp", lines("stamp", "faults 0 5", "wait 30s", "probe 0 x",
			"lateSuccess 0 x"), ""},

		// Whose fault it was.
		{"forgiven before it opens: 4 + 1 - 1", lines("faults 0 3", "fault 0 x", "forgive 0 x", "faults 0 1"), ""},
		{"and 4 + 1 opens it", lines("faults 0 3", "fault 0 x", "forgive 0 x", "faults 0 2"), "0 open 30s"},
		{"forgiven after: 5 - 1", lines("faults 0 4", "fault 0 x", "forgive 0 x"), ""},
		{"as if it had never opened: 1 × 30 s", lines("faults 0 4", "fault 0 x", "forgive 0 x", "faults 0 1"), "0 open 30s"},
		{"and what was dispatched before counts again", lines("stamp", "faults 0 4", "fault 0 x", "forgive 0 x", "late 0 y"),
			"0 open 30s"},
		{"but not what it had closed upon", lines("stamp", "faults 0 5", "wait 30s", "success 0", "faults 0 4", "fault 0 x",
			"forgive 0 x", "late 0 y"), ""},
		{"six faults, one forgiven: 5", lines("stamp", "faults 0 4", "fault 0 x", "late 0 y", "forgive 0 x"), "0 open 30s"},
		{"forgiven while half-open", lines("faults 0 4", "fault 0 x", "wait 30s", "forgive 0 x"), ""},
		{"the probe that failed is forgiven", lines("faults 0 5", "wait 30s", "probe 0 x", "fault 0 x", "wait 20s",
			"forgive 0 x"), "0 half_open"},
		{"it did not count: 2 × 30 s the next time", lines("faults 0 5", "wait 30s", "fault 0 x", "forgive 0 x",
			"faults 0 1"), "0 open 1m0s"},
		{"forgiven when it is half-open again: the same", lines("faults 0 5", "wait 30s", "fault 0 x", "wait 60s",
			"forgive 0 x", "faults 0 1"), "0 open 1m0s"},
		{"what the posterior test opened ends by itself", lines("faults 0 3", "fault 0 x", "trip 0", "forgive 0 x"),
			"0 open 30s"},
		{"a task it never failed", lines("faults 0 5", "forgive 0 x", "forgive 7 x"), "0 open 30s"},

		// Never everybody: of ten, one.
		{"the second stays", lines("faults 0 5", "faults 1 9"), "0 open 30s"},
		{"until the first is half-open, then its next fault", lines("faults 0 5", "faults 1 9", "wait 30s", "faults 1 1"),
			"0 half_open, 1 open 30s"},
		{"a half-open one cannot reopen meanwhile, and goes on one at a time",
			lines("faults 0 5", "wait 30s", "faults 1 5", "probe 0 x", "fault 0 x"), "0 half_open, 1 open 30s"},
		{"of 19, one", lines("supply 19", "faults 0 5", "faults 1 5"), "0 open 30s"},
		{"of 20, two", lines("supply 20", "faults 0 5", "faults 1 5", "faults 2 5"), "0 open 30s, 1 open 30s"},
		{"of two, one", lines("supply 2", "faults 0 5", "faults 1 5"), "0 open 30s"},
		{"of two, one is left that is closed", lines("supply 2", "faults 0 5", "wait 30s", "faults 1 5"), "0 half_open"},
		{"which does not keep the half-open one from reopening", lines("supply 2", "faults 0 5", "wait 30s", "faults 0 1"),
			"0 open 1m0s"},
		{"of three, too", lines("supply 3", "faults 0 5", "wait 30s", "faults 1 5", "wait 10s", "faults 2 5"),
			"0 half_open, 1 open 20s"},
		{"the only one", lines("supply 1", "faults 0 20", "trip 0"), ""},
		{"of nobody", lines("supply 0", "faults 0 20", "trip 0"), ""},

		// Ejection ignored: 1 of 2 is not more than half, 1 of 1 is.
		{"the fleet shrinks to the one", lines("supply 2", "faults 0 5", "supply 1"), "0 open 30s ignored"},
		{"and grows again", lines("supply 2", "faults 0 5", "supply 1", "supply 2"), "0 open 30s"},
		{"half is not more than half", lines("supply 20", "faults 0 5", "faults 1 5", "supply 4"), "0 open 30s, 1 open 30s"},
		{"2 of 3 is", lines("supply 20", "faults 0 5", "faults 1 5", "supply 3"), "0 open 30s ignored, 1 open 30s ignored"},
		{"until one is half-open", lines("supply 20", "faults 0 5", "wait 20s", "faults 1 5", "supply 3", "wait 10s"),
			"0 half_open, 1 open 20s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStory(t, 10, Settings{})
			st.play(tt.play...)
			if got := st.text(); got != tt.want {
				t.Errorf("\n got  %s\n want %s", got, tt.want)
			}
		})
	}
}

// TestAllowed: what the states mean for the next task.
func TestAllowed(t *testing.T) {
	st := newStory(t, 10, Settings{})
	expect := func(want bool, lines ...string) {
		t.Helper()
		if st.play(lines...); st.s.Allowed(pair(0)) != want {
			t.Errorf("after %v: allowed %v", lines, !want)
		}
	}
	expect(true)
	expect(false, "faults 0 5")
	if !st.s.Allowed(pair(1)) || !st.s.Allowed(Pair{0, "go"}) || !st.s.Allowed(Pair{-1, gpu}) {
		t.Error("another agent or capability is not allowed")
	}
	if got := st.s.Refused(); !slices.Equal(got, []Pair{pair(0)}) {
		t.Errorf("refused %v", got)
	}
	expect(false, "wait 29s", "probe 0 x")
	if st.said != "false" {
		t.Error("an open breaker was probed")
	}
	expect(true, "wait 1s")
	expect(false, "probe 0 x")
	if st.said != "true" {
		t.Error("the probe was not taken")
	}
	expect(false, "probe 0 y")
	if st.said != "false" {
		t.Error("a second probe was taken")
	}
	expect(true, "release 0 x")
	expect(false, "probe 0 y")
	expect(true, "supply 1") // the only one left
	expect(false, "supply 2")
	expect(true, "success 0 y")
	if st.play("probe 0 z"); st.said != "false" {
		t.Error("a closed breaker needs no probe")
	}
}

// TestPanicByConfiguration: with a maximum share of 1, three of four are ejected,
// one stays closed; 3 of 4 is more than half, so no agent is refused.
func TestPanicByConfiguration(t *testing.T) {
	st := newStory(t, 4, Settings{MaxShare: 1})
	st.play("faults 0 5", "faults 1 5")
	if got := st.s.Refused(); len(got) != 2 { // 2 of 4 is half
		t.Errorf("refused %v, want two", got)
	}
	st.play("faults 2 5", "faults 3 9")
	if got, want := st.text(), "0 open 30s ignored, 1 open 30s ignored, 2 open 30s ignored"; got != want ||
		len(st.s.Refused()) != 0 {
		t.Errorf("%s; refused %v", got, st.s.Refused())
	}
	st.play("wait 30s")
	if got := st.text(); got != "0 half_open, 1 half_open, 2 half_open" {
		t.Error(got)
	}
}

func TestNextDeadline(t *testing.T) {
	st := newStory(t, 30, Settings{})
	expect := func(want time.Duration, lines ...string) {
		t.Helper()
		st.play(lines...)
		if at, ok := st.s.NextDeadline(); !ok || at.Sub(start) != want {
			t.Errorf("after %v: %v, %v, want %v", lines, at.Sub(start), ok, want)
		}
	}
	if at, ok := st.s.NextDeadline(); ok {
		t.Errorf("nothing is open, and the next deadline is %v", at)
	}
	st.play("faults 0 4")
	if at, ok := st.s.NextDeadline(); ok {
		t.Errorf("nothing is open yet, and the next deadline is %v", at)
	}
	expect(30*time.Second, "faults 0 1")
	expect(30*time.Second, "wait 10s", "faults 1 5")
	expect(40*time.Second, "wait 1s", "fault 0 late") // agent 0 at 41 s, agent 1 at 40 s
	expect(41*time.Second, "wait 29s")
	expect(24*time.Hour+41*time.Second, "wait 1s", "success 0", "success 1") // to forget
	if st.play("wait 24h"); st.s.deadlines.Len() != 0 || len(st.s.groups[gpu].breakers) != 0 {
		t.Errorf("after a day there are %d deadlines, %d breakers", st.s.deadlines.Len(), len(st.s.groups[gpu].breakers))
	}
}

// TestLook shows what people see.
func TestLook(t *testing.T) {
	st := newStory(t, 10, Settings{})
	st.play("faults 0 5", "wait 30s", "success 0", "faults 0 2")
	if got, want := st.s.Look(st.now, pair(0)), (Status{Opened: 1, Faults: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := st.s.Look(st.now.Add(30*time.Second), pair(0)), (Status{Faults: 2}); got != want {
		t.Errorf("a base period later %+v, want %+v", got, want)
	}
	if got := st.s.Look(st.now, Pair{3, "unheard of"}); got != (Status{}) {
		t.Errorf("%+v", got)
	}
}

// TestRenumber: breakers go with their agents.
func TestRenumber(t *testing.T) {
	st := newStory(t, 30, Settings{})
	st.play("faults 0 5", "faults 1 5", "faults 2 5", "faults 3 4")
	st.s.Renumber([]int{-1, 2, 3, 0}) // agent 1 has left
	if got := st.s.Refused(); len(got) != 0 {
		t.Errorf("%v are refused before anybody has said who is there", got)
	}
	st.s.Supply(gpu, 30)
	if got, want := st.text(), "1 open 30s, 3 open 30s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := st.s.Refused(); !slices.Equal(got, []Pair{pair(1), pair(3)}) {
		t.Errorf("refused %v", got)
	}
	if changed := st.s.Advance(start.Add(30 * time.Second)); !slices.Equal(changed, []Pair{pair(1), pair(3)}) {
		t.Errorf("changed %v, in that order", changed)
	}
	if st.s.Fault(start.Add(31*time.Second), pair(2), st.s.Generation(), "x"); st.s.Look(start, pair(2)).State != Open {
		t.Error("the four faults were lost")
	}
	st = newStory(t, 30, Settings{})
	st.play("faults 0 5", "faults 1 5", "faults 2 5")
	st.s.Renumber([]int{2, 1, 0})
	st.s.Supply(gpu, 30)
	if changed := st.s.Advance(start.Add(30 * time.Second)); !slices.Equal(changed, []Pair{pair(0), pair(1), pair(2)}) {
		t.Errorf("changed %v, not in the order of the new numbers", changed)
	}
	st.s.Renumber(nil)
	if _, ok := st.s.NextDeadline(); ok || !st.s.Quiet() || len(st.s.Refused()) != 0 {
		t.Error("an empty fleet remembers")
	}
	if len(st.s.groups) != 0 {
		t.Error("a capability that nobody offers is remembered")
	}
}

// TestAway: an agent that has left takes no place among those that may be ejected.
func TestAway(t *testing.T) {
	st := newStory(t, 20, Settings{}) // two of twenty
	st.play("faults 0 5", "faults 1 5", "faults 2 5")
	if got, want := st.text(), "0 open 30s, 1 open 30s"; got != want {
		t.Fatalf("%s, want %s: the third finds no room", got, want)
	}
	st.s.Away(pair(0), true)
	st.s.Supply(gpu, 19) // one of nineteen
	if st.play("faults 2 1"); st.s.Look(st.now, pair(2)).State != Closed {
		t.Error("1 is still there, and ejected")
	}
	st.s.Away(pair(1), true)
	st.s.Supply(gpu, 18)
	if st.play("faults 2 1"); st.s.Look(st.now, pair(2)).State != Open {
		t.Error("of those who are there nobody is ejected, and there is no room all the same")
	}
	// One comes back, while its breaker is open: that counts again.
	st.s.Away(pair(0), false)
	if got := st.s.groups[gpu].open; got != 2 {
		t.Errorf("%d open, want 2", got)
	}
	// It was half-open when it left for good: of two that are left one may be ejected.
	st = newStory(t, 3, Settings{})
	st.play("faults 0 5", "wait 30s")
	st.s.Away(pair(0), true)
	st.s.Supply(gpu, 2)
	if st.play("faults 1 5"); st.s.Look(st.now, pair(1)).State != Open {
		t.Error("a probe that nobody will make protects somebody else for ever")
	}
}
