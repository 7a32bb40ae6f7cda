// How a test of the planner is written: tasks join, the planner is asked, and its answers are words.
//
//	k := newKernel(t, 2, "a")            // two tasks may wait; group a has a lane
//	k.join(3, "a")                       // three do
//	want(t, k.relieve(), "record a", "move 3 to a")
package lanes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/fairshare/fairqueue"
)

// kernel stands for the engine: it has the tasks, and does what the planner says.
type kernel struct {
	t       failer
	p       *Planner
	policy  *coordinator.Policy
	now     time.Time
	session bool
	tasks   map[coordinator.Handle]*task
	last    coordinator.Handle
	wake    time.Time
	journal []*coordinator.LaneKnown
}

// failer is a test, or one try of rapid.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

type task struct {
	Ticket
	entry  Entry
	moving bool
}

// newKernel has a session and a policy of a room for so many waiting tasks (0: no bound) and these lanes.
func newKernel(t failer, room int, lanes ...string) *kernel {
	k := &kernel{
		t: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), session: true, tasks: make(map[coordinator.Handle]*task),
		policy: &coordinator.Policy{
			Lanes: append([]string{}, lanes...), LaneRoom: room, Settings: coordinator.Settings{MaxQueueSize: 1000},
		},
	}
	k.p = New(fairqueue.NewShares(), k)
	return k
}

func (k *kernel) Rules() *coordinator.Policy { return k.policy }
func (k *kernel) TakesTurns() bool           { return false }
func (k *kernel) Connected() bool            { return k.session }

func (k *kernel) Waiting() (n int) {
	for _, t := range k.tasks {
		if !t.moving {
			n++
		}
	}
	return n
}

func (k *kernel) First(of *Ticket, level int) (first Place, ok bool) {
	its := k.tasks[of.Handle].entry.Kind
	for _, t := range k.tasks {
		if its.Level = level; !t.moving && t.entry.Kind == its && (!ok || first.later(t.place())) {
			first, ok = t.place(), true
		}
	}
	return first, ok
}

func (k *kernel) Holds(lane string) bool {
	for _, t := range k.tasks {
		if t.entry.From == lane {
			return true
		}
	}
	return false
}

// kindOf is that of a task of normal priority of the group, for agents of the class.
func (k *kernel) kindOf(group, class string) Kind {
	return Kind{Base: k.policy.LaneOf(group), Group: group, Class: class, Level: 1}
}

// join has n tasks of a group wait, each later than all before it.
func (k *kernel) join(n int, group string) {
	for range n {
		k.enter(k.kindOf(group, ""), "")
	}
}

func (k *kernel) enter(kind Kind, from string) *task {
	k.last++
	t := &task{entry: Entry{Handle: k.last, Kind: kind, Due: int64(k.last), Arrival: uint64(k.last), From: from}}
	k.tasks[k.last] = t
	k.p.Join(&t.Ticket, t.entry)
	return t
}

// does carries out what the planner says.
func (k *kernel) does(actions []Action) (words []string) {
	for _, a := range actions {
		switch a.Verb {
		case Read:
			words = append(words, fmt.Sprintf("read %s: %d", a.Lane, a.Window))
		case Stop:
			words = append(words, "stop "+a.Lane)
		case Drop:
			words = append(words, "drop "+a.Lane)
		case Record:
			k.journal = append(k.journal, &coordinator.LaneKnown{Lane: a.Lane, Known: a.Known})
			if words = append(words, "record "+a.Lane); !a.Known {
				words[len(words)-1] = "record that nothing is in " + a.Lane
			}
		case Wake:
			k.wake = a.At
			words = append(words, fmt.Sprintf("wake in %v", a.At.Sub(k.now)))
		}
	}
	return words
}

// relieve moves what makes room in one event.
func (k *kernel) relieve() (words []string) {
	for n := 0; k.p.Crowded(k.now); n++ {
		m, actions := k.p.Relieve(k.now, n)
		if words = append(words, k.does(actions)...); m.Ticket == nil {
			break
		}
		words = append(words, k.move(m)...)
	}
	return words
}

func (k *kernel) move(m Move) []string {
	t := k.tasks[m.Ticket.Handle]
	words := k.does(k.p.Leave(k.now, m.Ticket))
	words = append(words, k.does(k.p.Begin(k.now, m))...)
	t.moving = true
	return append(words, fmt.Sprintf("move %d to %s", t.Handle, m.Lane))
}

// moved answers a move. A task that its lane has is gone; another waits again.
func (k *kernel) moved(h coordinator.Handle, outcome coordinator.PublishOutcome) []string {
	t := k.tasks[h]
	lane, _ := k.p.Moved(k.now, &t.Ticket, outcome)
	t.moving = false
	if outcome == coordinator.PublishConfirmed {
		delete(k.tasks, h)
		return k.does(k.p.Consider(k.now, lane))
	}
	k.p.Join(&t.Ticket, t.entry)
	return nil
}

func (k *kernel) seen(lane string, ready int) []string {
	return k.does(k.p.Seen(k.now, coordinator.LaneSeen{Lane: lane, Ready: ready}))
}

func (k *kernel) leave(h coordinator.Handle) []string {
	words := k.does(k.p.Leave(k.now, &k.tasks[h].Ticket))
	delete(k.tasks, h)
	return words
}

// overdue asks about a task that has been held for so long.
func (k *kernel) overdue(t *task, d time.Duration) []string {
	m, again, actions := k.p.Overdue(k.now, &t.Ticket, Held{Kind: t.entry.Kind, Came: k.now.Add(-d)})
	if m.Ticket == nil {
		return []string{fmt.Sprintf("ask again in %v", again.Sub(k.now))}
	}
	return append(k.does(actions), k.move(m)...)
}

// check compares the planner with what the kernel knows.
func (k *kernel) check() {
	k.t.Helper()
	moving, inLine := 0, 0
	for _, t := range k.tasks {
		if t.moving {
			moving++
		}
		if t.InLine() {
			inLine++
		}
	}
	if faults := k.p.Check(moving, inLine); faults != nil {
		k.t.Fatalf("%+v", faults)
	}
}

func want(t testing.TB, got []string, words ...string) {
	t.Helper()
	if !slices.Equal(got, words) {
		t.Errorf("the planner says %q, want %q", got, words)
	}
}

func TestTheLargestPartyMakesRoom(t *testing.T) {
	k := newKernel(t, 3, "a", "b")
	k.join(1, "b") // 1
	k.join(2, "a") // 2, 3
	want(t, k.relieve())
	k.join(1, "a") // 4: four wait, one too many; a has three of them, of which this goes last
	want(t, k.relieve(), "record a", "move 4 to a")
	k.join(1, "b") // 5: both have two, and a made room before
	want(t, k.relieve(), "move 3 to a")
	k.join(1, "b") // 6: b has three, a one, which is less than two thirds of it
	want(t, k.relieve(), "record b", "move 6 to b")
	k.check()
}

func TestHowManyMoveAtATime(t *testing.T) {
	k := newKernel(t, 1, "a")
	k.join(1+MaxMoving+5, "a")
	for n := 0; n < MaxMoving; n += MovesPerEvent {
		got := k.relieve()
		if got[0] == "record a" {
			got = got[1:]
		}
		if n+MovesPerEvent == MaxMoving { // the bound is met before the end of the event
			if len(got) != MovesPerEvent {
				t.Fatalf("after %d moves: %q", n, got)
			}
			break
		}
		if len(got) != MovesPerEvent+1 || got[MovesPerEvent] != "wake in 1ms" {
			t.Fatalf("after %d moves: %q", n, got)
		}
		want(t, k.relieve()) // until then
		k.now = k.wake
	}
	want(t, k.relieve())
	k.moved(coordinator.Handle(1+MaxMoving+5), coordinator.PublishConfirmed)
	if got := k.relieve(); len(got) != 1 {
		t.Errorf("with one move less under way: %q", got)
	}
	k.check()
}

func TestKindsOfLanes(t *testing.T) {
	k := newKernel(t, 1, "a")
	x, y := k.kindOf("a", "x"), k.kindOf("a", "y")
	k.enter(x, "")
	for range 3 {
		k.enter(x, "")
	}
	want(t, k.relieve(), "record a", "move 4 to a", "move 3 to a", "move 2 to a")
	for range 3 {
		k.enter(y, "") // 5, 6, 7: lane a is of x, and three are few: they share a lane with what else there is little of
	}
	want(t, k.relieve(), "record a~1", "move 7 to a~1", "move 6 to a~1", "move 5 to a~1")
	for range fewOfKind - 2 {
		k.enter(y, "") // 8 to 13: since none of the kind was left its count began anew
	}
	for range 3 {
		k.enter(y, "") // 14, 15, 16: nine are more than a few
	}
	if got := k.relieve(); got[0] != "record a~2" || got[1] != "move 16 to a~2" {
		t.Errorf("many of the kind: %q", got)
	}
	if lane, _ := k.p.LaneOf(y); lane != "a~2" {
		t.Errorf("y waits in %s", lane)
	}
	if lane, _ := k.p.LaneOf(k.kindOf("a", "z")); lane != "a~1" {
		t.Errorf("what there is little of waits in %s", lane)
	}
	k.check()
}

func TestRefusedMove(t *testing.T) {
	k := newKernel(t, 2, "a", "b")
	k.join(2, "a")
	k.join(1, "b")
	want(t, k.relieve(), "record a", "move 2 to a")
	k.moved(2, coordinator.PublishRejected)
	want(t, k.relieve(), "record b", "move 3 to b") // lane a rests
	k.join(1, "a")
	k.moved(3, coordinator.PublishRejected)
	want(t, k.relieve(), "wake in 5s") // both do: LaneRest
	k.now = k.now.Add(LaneRest)
	want(t, k.relieve(), "move 4 to a", "move 2 to a")
	k.check()
}

// TestWhereMovesEnd: a lane that refuses a task rests; no other end keeps it from the next.
func TestWhereMovesEnd(t *testing.T) {
	for outcome, want := range map[coordinator.PublishOutcome]Whereabouts{
		coordinator.PublishConfirmed: InLane, coordinator.PublishUnknown: Interrupted,
		coordinator.PublishAbandoned: Interrupted, coordinator.PublishNotSent: Immovable,
		coordinator.PublishUnroutable: Refused, coordinator.PublishRejected: Refused,
	} {
		k := newKernel(t, 1, "a")
		k.join(2, "a")
		k.relieve()
		for _, x := range k.tasks {
			if !x.moving {
				continue
			}
			lane, is := k.p.Moved(k.now, &x.Ticket, outcome)
			if rests := k.p.lane(lane).rests(k.now); lane != "a" || is != want || rests != (is == Refused) {
				t.Errorf("%v: of lane %q, it is %v, want %v; the lane rests: %v", outcome, lane, is, want, rests)
			}
		}
	}
}

func TestWhatIsHeldForLong(t *testing.T) {
	k := newKernel(t, 0, "a")
	of := k.kindOf("a", "")
	task1 := k.enter(of, "")
	want(t, k.overdue(task1, HeldLong), "record ~held", "move 1 to ~held")
	if d := k.p.HeldLimit(""); d != HeldLong {
		t.Errorf("out of no lane it is held for %v", d)
	}
	// Out of that lane it stays for as long as a broker allows.
	back := k.enter(of, coordinator.LaneHeld)
	want(t, k.overdue(back, 9*time.Minute+30*time.Second), "ask again in 30s") // HeldMost is 10 min
	want(t, k.overdue(back, time.Minute), "ask again in 1m0s")                 // HeldLong
	k.policy.Settings.MaxTimeout = 5 * time.Minute
	if d := k.p.HeldLimit(coordinator.LaneHeld); d != 5*time.Minute {
		t.Errorf("it is held for %v", d)
	}
	want(t, k.overdue(back, 5*time.Minute), "move 2 to ~held")
	k.session = false
	want(t, k.overdue(k.enter(of, ""), HeldLong), "ask again in 5s") // LaneRest
	k.check()
}

func TestReadingALane(t *testing.T) {
	k := newKernel(t, 8, "a")
	k.p.Fold(&coordinator.LaneKnown{Lane: "a", Known: true})
	want(t, k.seen("a", 10), "read a: 4") // half of the room
	for range 2 {
		k.does(k.p.CameOut(k.now, "a"))
		k.enter(k.kindOf("a", ""), "a")
		want(t, k.does(k.p.TookOut(k.now, "a")))
	}
	if _, ready := k.p.LaneOf(k.kindOf("a", "")); ready != 8 {
		t.Errorf("%d are left of 10", ready)
	}
	want(t, k.does(k.p.Ended(k.now, "a")))
	want(t, k.leave(1)) // it rests
	k.now = k.now.Add(LaneRest)
	want(t, k.leave(2), "read a: 4")
	k.check()
}

func TestLanesTakeTurns(t *testing.T) {
	names := make([]string, MaxLanesRead+1)
	for i := range names {
		names[i] = fmt.Sprintf("g%02d", i)
	}
	k := newKernel(t, 0, names...)
	for i, lane := range names {
		k.p.Fold(&coordinator.LaneKnown{Lane: lane, Known: true})
		if got := k.seen(lane, 100); (len(got) == 1) != (i < MaxLanesRead) {
			t.Fatalf("lane %d: %q", i, got)
		}
	}
	for n := range laneWindow { // a window's worth is a turn
		if n == laneWindow-1 {
			k.now = k.now.Add(LaneTurn) // the other has waited for long
		}
		k.does(k.p.CameOut(k.now, "g00"))
		got := k.does(k.p.TookOut(k.now, "g00"))
		if n < laneWindow-1 {
			want(t, got)
			continue
		}
		want(t, got, "stop g00", "read g64: 64")
	}
	k.check()
}

func TestLooksAtQueues(t *testing.T) {
	k := newKernel(t, 0, "a")
	k.p.SessionOpened()
	looked := func(names ...string) {
		t.Helper()
		want(t, k.p.Watched(k.now, 100), names...)
		k.now = k.now.Add(LaneLook)
	}
	looked("a", coordinator.LaneOther, coordinator.LaneHeld)
	want(t, k.seen(coordinator.LaneOther, 0), "record that nothing is in "+coordinator.LaneOther)
	want(t, k.seen(coordinator.LaneHeld, 0), "record that nothing is in "+coordinator.LaneHeld)
	want(t, k.seen("a", 1), "record a", "read a: 64")
	k.policy.Lanes = []string{} // a is an orphan
	k.p.PolicyChanged()
	want(t, k.seen("a", 0))
	k.now = k.now.Add(LaneQuiet)
	want(t, k.seen("a", 0), "stop a", "drop a")
	want(t, k.seen("a", 0)) // once
	want(t, k.does(k.p.Seen(k.now, coordinator.LaneSeen{Lane: "a", Dropped: true, Missing: true})),
		"record that nothing is in a")
	for l := range k.p.All() {
		if l.Key == "a" {
			t.Error("a is known still")
		}
	}
	k.check()
}

func TestCheckFindsFaults(t *testing.T) {
	for name, plant := range map[string]func(p *Planner, waits *Ticket){
		"a move too many":          func(p *Planner, _ *Ticket) { p.moving++ },
		"a lane too many":          func(p *Planner, _ *Ticket) { p.known++ },
		"a lane without its key":   func(p *Planner, _ *Ticket) { delete(p.byKey, "a") },
		"a kind without its lane":  func(p *Planner, _ *Ticket) { p.kinds[Kind{Base: "b"}] = p.byKey["a"] },
		"a party miscounted":       func(p *Planner, _ *Ticket) { p.lines.parties.Items[0].waiting++ },
		"a row under no key":       func(p *Planner, _ *Ticket) { clear(p.lines.rows) },
		"a level miscounted":       func(_ *Planner, waits *Ticket) { waits.row.levels[0]++ },
		"a ticket out of place":    func(_ *Planner, waits *Ticket) { waits.index++ },
		"a ticket in no line":      func(_ *Planner, waits *Ticket) { waits.row = nil },
		"a ticket out of order":    func(_ *Planner, waits *Ticket) { waits.due += 100 },
		"a ticket counted as held": func(p *Planner, _ *Ticket) { p.lines.held++ },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t, 3, "a")
			k.join(4, "a")
			want(t, k.relieve(), "record a", "move 4 to a")
			k.check()
			if plant(k.p, &k.tasks[1].Ticket); len(k.p.Check(1, 3)) == 0 {
				t.Error("not found")
			}
		})
	}
}

// TestAnything: whatever happens, the counts balance, the journal says what may hold something, the heir knows it.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newKernel(t, rapid.IntRange(0, 12).Draw(t, "room"), "a", "b")
		handles := func(moving bool) (list []coordinator.Handle) {
			for h, task := range k.tasks {
				if task.moving == moving {
					list = append(list, h)
				}
			}
			slices.Sort(list)
			return list
		}
		lane := rapid.SampledFrom([]string{"a", "b", "a~1", "gone", coordinator.LaneOther, coordinator.LaneHeld})
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				group := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
				kind := k.kindOf(group, rapid.SampledFrom([]string{"x", "y"}).Draw(t, "class"))
				kind.Level = rapid.IntRange(0, 3).Draw(t, "level")
				from := ""
				if rapid.IntRange(0, 3).Draw(t, "out of a lane at 0") == 0 {
					from = lane.Draw(t, "from")
					k.does(k.p.CameOut(k.now, from))
				}
				k.enter(kind, from)
				if from != "" {
					k.does(k.p.TookOut(k.now, from))
				}
				k.relieve()
			},
			"leave": func(t *rapid.T) {
				if list := handles(false); len(list) > 0 {
					k.leave(rapid.SampledFrom(list).Draw(t, "task"))
				}
			},
			"moved": func(t *rapid.T) {
				if list := handles(true); len(list) > 0 {
					outcome := coordinator.PublishConfirmed
					if rapid.Bool().Draw(t, "refused") {
						outcome = coordinator.PublishRejected
					}
					k.moved(rapid.SampledFrom(list).Draw(t, "task"), outcome)
				}
			},
			"overdue": func(t *rapid.T) {
				if list := handles(false); len(list) > 0 {
					minutes := rapid.IntRange(1, 12).Draw(t, "minutes")
					k.overdue(k.tasks[rapid.SampledFrom(list).Draw(t, "task")], time.Duration(minutes)*time.Minute)
				}
			},
			"look": func(t *rapid.T) {
				k.does(k.p.Seen(k.now, coordinator.LaneSeen{
					Lane: lane.Draw(t, "lane"), Ready: rapid.IntRange(0, 3).Draw(t, "ready"),
					Missing: rapid.Bool().Draw(t, "missing"), Dropped: rapid.Bool().Draw(t, "dropped"),
				}))
			},
			"ended": func(t *rapid.T) { k.does(k.p.Ended(k.now, lane.Draw(t, "lane"))) },
			"time": func(t *rapid.T) {
				steps := []time.Duration{time.Millisecond, LaneLook, LaneRest, LaneQuiet}
				k.now = k.now.Add(rapid.SampledFrom(steps).Draw(t, "time"))
				k.p.Watched(k.now, 3)
				k.relieve()
			},
			"reload": func(t *rapid.T) {
				k.p.PolicyChanged()
				for _, h := range handles(false) {
					k.p.Join(&k.tasks[h].Ticket, k.tasks[h].entry)
				}
			},
			"session": func(t *rapid.T) {
				for _, h := range handles(true) {
					k.p.Moved(k.now, &k.tasks[h].Ticket, coordinator.PublishUnknown)
				}
				clear(k.tasks)
				k.p.SessionClosed()
				k.check()
				k.p.SessionOpened()
			},
			"": func(t *rapid.T) {
				k.check()
				heir := New(fairqueue.NewShares(), k)
				for _, r := range k.journal {
					heir.Fold(r)
				}
				known := func(p *Planner) (keys []string) {
					for l := range p.All() {
						if l.Known {
							keys = append(keys, l.Key)
						}
					}
					return keys
				}
				if got, its := known(heir), known(k.p); !slices.Equal(got, its) {
					t.Fatalf("by the journal %q may hold something, by the planner %q", got, its)
				}
			},
		})
	})
}

// TestWhatCrowds: a kind is worth a lane of its own once more than 8 of it wait at a time or have made room, of one
// level; else it goes to the lane of those of which there is little.
func TestWhatCrowds(t *testing.T) {
	for _, c := range []struct {
		waiting, moved, others int // others: of another level
		own                    bool
	}{{8, 0, 3, false}, {9, 0, 0, true}, {5, 3, 0, false}, {5, 4, 0, true}, {1, 8, 0, true}} {
		k := newKernel(t, 0, "a")
		base := k.enter(k.kindOf("a", "x"), "")
		k.p.Begin(k.now, Move{&base.Ticket, "a", k.p.lane("a"), base.entry.Kind}) // the lane of a is for these
		kind := k.kindOf("a", "y")
		for range c.waiting {
			k.enter(kind, "")
		}
		for range c.others {
			other := kind
			other.Level++
			k.enter(other, "")
		}
		k.p.lines.rows[rowKey{"a", "y"}].moved[kind.Level] = c.moved
		l, is := k.p.laneFor(kind)
		if own := is == kind; own != c.own || l.key == "a" {
			t.Errorf("%+v: lane %s for %+v", c, l.key, is)
		}
	}
	k := newKernel(t, 0, "a")
	if k.p.lines.crowds(k.kindOf("a", "z")) {
		t.Error("none waits")
	}
}

// TestOverdueWaitsForMoves: a task that is held for too long moves while fewer than MaxMoving do, else it is asked
// about again 100 ms later.
func TestOverdueWaitsForMoves(t *testing.T) {
	k := newKernel(t, 0, "a")
	held := k.enter(k.kindOf("a", ""), "")
	k.p.moving = MaxMoving
	want(t, k.overdue(held, HeldLong), "ask again in 100ms")
	k.p.moving = MaxMoving - 1
	want(t, k.overdue(held, HeldLong), "record "+coordinator.LaneHeld, fmt.Sprintf("move 1 to %s", coordinator.LaneHeld))
	if k.p.moving != MaxMoving {
		t.Errorf("%d move", k.p.moving)
	}
}

// TestRoom: as many may wait as lane_room says, half of max_queue_size and half of the intake at most, and one at
// least; without lanes, or a room, any number.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		room, queue, intake int
		most                int
		bounded             bool
	}{
		{10, 1000, 0, 10, true},
		{10, 18, 0, 9, true},   // 18/2
		{10, 1000, 8, 4, true}, // 8/2
		{10, 1000, 21, 10, true},
		{1, 1, 1, 1, true}, // 1/2 would be none
		{0, 1000, 0, 0, false},
	} {
		k := newKernel(t, c.room, "a")
		k.policy.Settings.MaxQueueSize = c.queue
		k.p.SetIntake(c.intake)
		if most, bounded := k.p.room(); most != c.most || bounded != c.bounded {
			t.Errorf("%+v: %d, bounded %v", c, most, bounded)
		}
		if n := k.p.heldWindow(); c.bounded && n != c.most || !c.bounded && n != HeldAtOnce {
			t.Errorf("%+v: %d are held at once", c, n)
		}
	}
	k := newKernel(t, HeldAtOnce+1, "a")
	k.policy.Settings.MaxQueueSize = 3 * HeldAtOnce
	if n := k.p.heldWindow(); n != HeldAtOnce {
		t.Errorf("%d are held at once", n)
	}
	if k.policy.Lanes = nil; k.p.heldWindow() != HeldAtOnce {
		t.Error("without lanes there is no room to keep to")
	}
}

// TestHeldWindow: a task keeps its place while fewer than the room are held, those on their way and in the queue
// included; one that came out of the lane of the held is one of them.
func TestHeldWindow(t *testing.T) {
	k := newKernel(t, 3, "a")
	l := k.p.lane(coordinator.LaneHeld)
	l.ready, l.moving = 1, 1
	kept := k.enter(k.kindOf("a", ""), coordinator.LaneHeld) // the third
	other := k.enter(k.kindOf("a", ""), "")
	for _, c := range []struct {
		t    *task
		came time.Duration
		want string
	}{{kept, HeldMost, coordinator.LaneHeld}, {kept, HeldMost - 1, ""}, {other, HeldLong, "a"}} {
		got := ""
		to, _ := k.p.overflowLane(k.now, &c.t.Ticket, &Held{Kind: c.t.entry.Kind, Came: k.now.Add(-c.came)})
		if to != nil {
			got = to.key
		}
		if got != c.want {
			t.Errorf("task %d, held for %v, goes to %q, want %q", c.t.Handle, c.came, got, c.want)
		}
	}
}
