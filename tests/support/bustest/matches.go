package bustest

import "taskbus/coordinator/bus"

// letters is a queue whose dead letters go to the queue given.
func letters(name, to string) bus.Queue {
	q := quorum(name)
	q.DeadLetter = to
	return q
}

// whatOthersMade are queues of other descriptions than ours: what may stand in
// place of those of expected.
func whatOthersMade() bus.Topology {
	return declare(letters("same", "back"), letters("elsewhere", "other"), quorum("nowhere"),
		bus.Queue{Name: "plain", Kind: bus.Classic}, stream("log"), stream("no line"))
}

// expected is what Matches should say of whatOthersMade for the topology of
// described.
var expected = map[string]bool{
	"same":      true,
	"elsewhere": false, // another dead-letter queue
	"nowhere":   false, // no dead-letter queue at all
	"plain":     false,
	"log":       true,
	"no line":   false,
}

func described(mode bus.Mode) bus.Topology {
	t := declare(letters("same", "back"), letters("elsewhere", "back"), letters("nowhere", "back"),
		letters("plain", "back"), stream("log"), letters("no line", "back"))
	t.Mode = mode
	return t
}

// wantMatches compares Matches and the findings, which must agree.
func wantMatches(r *rig, c *client) {
	r.t.Helper()
	differ := 0
	for queue, want := range expected {
		if got := c.Matches(queue); got != want {
			r.t.Errorf("Matches(%q) = %v, want %v", queue, got, want)
		}
		if !want {
			differ++
			wantFinding(r, c, queue)
		}
	}
	if n := len(c.Findings()); n != differ {
		r.t.Errorf("%d findings, want one for each of the %d queues that differ: %+v", n, differ, c.Findings())
	}
	if c.Matches("never asked for") {
		r.t.Error("Matches is true for a queue that nobody asked for")
	}
}

func matchesDeclared(r *rig) {
	r.open(whatOthersMade())
	wantMatches(r, r.open(described(bus.Declare)))

	fresh := r.open(declare(letters("new", "back"), bus.Queue{Name: "mine", Temporary: true}))
	if !fresh.Matches("new") || !fresh.Matches("mine") {
		r.t.Error("Matches is false for queues that this session has just created")
	}
}

func matchesVerified(r *rig) {
	others := r.open(whatOthersMade())
	c := r.open(described(bus.Verify))
	wantMatches(r, c)
	r.deleteQueue("same")
	if ok, err := c.EnsureQueue(r.ctx(), letters("same", "back")); ok || err != nil {
		r.t.Errorf("EnsureQueue of a deleted queue = %v, %v; want false, nil", ok, err)
	}
	if c.Matches("same") {
		r.t.Error("Matches is true for a queue that is gone")
	}
	wantNoQueue(r, others, "same")
}

func matchesOff(r *rig) {
	r.open(whatOthersMade())
	c := r.open(described(bus.Off))
	if ok, err := c.EnsureQueue(r.ctx(), letters("same", "back")); !ok || err != nil {
		r.t.Errorf("EnsureQueue of an existing queue = %v, %v; want true, nil", ok, err)
	}
	for queue := range expected {
		if c.Matches(queue) {
			r.t.Errorf("Matches(%q) is true although the topology is off", queue)
		}
	}
}

// The queue is deleted and comes back as a plain one, is deleted again and comes
// back as ours; and the description may change where the queue does not.
func matchesFollows(r *rig) {
	plain := bus.Queue{Name: "q", Kind: bus.Classic}
	others := r.open(declare())
	for _, mode := range []bus.Mode{bus.Declare, bus.Verify} {
		ensure := func(by *client, q bus.Queue) {
			r.t.Helper()
			if ok, err := by.EnsureQueue(r.ctx(), q); !ok || err != nil {
				r.t.Fatalf("%s: EnsureQueue = %v, %v; want true, nil", mode, ok, err)
			}
		}
		ensure(others, plain)
		c := r.open(bus.Topology{Mode: mode})
		steps := []struct {
			what  string
			there bus.Queue
			asked bus.Queue
			want  bool
		}{
			{"ours", letters("q", "back"), letters("q", "back"), true},
			{"plain", plain, letters("q", "back"), false},
			{"ours again", letters("q", "back"), letters("q", "back"), true},
			{"asked for with another dead-letter queue", letters("q", "back"), letters("q", "other"), false},
			{"plain, as asked for", plain, plain, true},
		}
		if c.Matches("q") {
			r.t.Errorf("%s: Matches is true before anybody asked", mode)
		}
		for _, step := range steps {
			r.deleteQueue("q")
			ensure(others, step.there)
			ensure(c, step.asked)
			if got := c.Matches("q"); got != step.want {
				r.t.Errorf("%s, %s: Matches = %v, want %v", mode, step.what, got, step.want)
			}
		}
	}
}
