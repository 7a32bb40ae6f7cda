//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Hit ends the process with SIGKILL if this is the point and the time for which it is
// armed. It may be called from any goroutine.
func Hit(p Point) {
	if plan := fromEnvironment(); plan.reached(p) {
		die(fmt.Sprintf("failpoint %s: hit %d, SIGKILL", p, plan.after))
	}
}

// Task panics if the program is armed for the task of this id.
func Task(id string) {
	if plan := fromEnvironment(); plan.poison != "" && plan.poison == id {
		say("failpoint panic: task " + id)
		panic("failpoint: the poisoned task " + id)
	}
}

// Ahead is how far the clock is to be ahead.
func Ahead() time.Duration { return fromEnvironment().ahead }

// plan is what TASKBUS_FAILPOINT asks for; the zero plan asks for nothing.
type plan struct {
	point  Point
	after  int64 // the hit that counts, from 1
	hits   atomic.Int64
	poison string // id of the task that panics
	ahead  time.Duration
}

// reached counts a hit, and tells whether it is the one.
func (p *plan) reached(at Point) bool {
	return p.point != "" && p.point == at && p.hits.Add(1) == p.after
}

// fromEnvironment reads the plan once. A test that misspells it must not pass because
// nothing happens: the process ends.
var fromEnvironment = sync.OnceValue(func() *plan {
	plan, err := parse(os.Getenv(Environment))
	if err != nil {
		say("read " + Environment + ": " + err.Error())
		os.Exit(2)
	}
	return plan
})

// parse reads "", "point", "point:n", "panic:task" or "clock:duration".
func parse(text string) (*plan, error) {
	if text == "" {
		return &plan{}, nil
	}
	name, rest, given := strings.Cut(text, ":")
	if name == "panic" {
		if rest == "" {
			return nil, fmt.Errorf("%q names no task; write panic:TASK_ID", text)
		}
		return &plan{poison: rest}, nil
	}
	if name == "clock" {
		ahead, err := time.ParseDuration(rest)
		if err != nil {
			return nil, fmt.Errorf("%q: write clock:2h, as time.ParseDuration reads it", text)
		}
		return &plan{ahead: ahead}, nil
	}
	if !slices.Contains(Points(), Point(name)) {
		return nil, fmt.Errorf("there is no failpoint %q; there are %v, panic:TASK_ID and clock:DURATION", name, Points())
	}
	p := &plan{point: Point(name), after: 1}
	if given {
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: the number of the hit must be 1 or more", text)
		}
		p.after = n
	}
	return p, nil
}

// die does not return: SIGKILL may take a moment, and nothing may be done meanwhile.
func die(last string) {
	say(last)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		say("failpoint: SIGKILL to the process itself: " + err.Error())
		os.Exit(2)
	}
	select {}
}

// say writes a line at once: the log's buffer would die with the process.
func say(line string) { _, _ = os.Stderr.WriteString(line + "\n") }
