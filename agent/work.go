package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"taskbus/messages"
)

// How long a handler may take to return once its ctx has ended. Then its result
// goes out without it; its slot stays taken.
const (
	deadlineGrace = 500 * time.Millisecond
	cancelGrace   = 5 * time.Second
	stopGrace     = time.Second
)

// begin gives a dispatch a slot and starts its handler. It is false, and nothing has
// begun, when the task's deadline has passed. mu is held.
func (w *worker) begin(d *dispatch, now time.Time) bool {
	ctx, free, ok := w.occupy(d, now)
	if !ok {
		return false
	}
	go func() {
		defer free()
		w.work(ctx, d)
	}()
	return true
}

// occupy gives a dispatch a slot, and a ctx that ends when its handler should, or with
// free. It is false when the task's deadline has passed. mu is held.
func (w *worker) occupy(d *dispatch, now time.Time) (ctx context.Context, free func(), ok bool) {
	until := now.Add(d.task.Timeout)
	if at := d.task.Deadline; !at.IsZero() && at.Before(until) {
		if !now.Before(at) {
			return nil, nil, false
		}
		until = at
	}
	run := newRunContext(w.base, until)
	d.ctx, d.cancel, d.beganAt, d.running = run, run.cancel, now, true
	w.running[d] = struct{}{}
	w.occupied(now)
	if !w.watching {
		w.watching = true
		signal(w.begun)
	}
	return run, func() { run.cancel(nil) }, true
}

// work runs the handler and sees to its end, whatever that is.
func (w *worker) work(ctx context.Context, d *dispatch) {
	unwatch := context.AfterFunc(ctx, func() { w.expect(ctx, d) })
	var result Result
	words := exited
	// Deferred, because a handler can also end its goroutine.
	defer func() {
		unwatch()
		w.returned(d, judge(result, words, context.Cause(ctx), time.Since(d.beganAt)))
	}()
	result, words = w.call(ctx, d)
}

// exited is what a handler says that ended its goroutine (runtime.Goexit).
var exited = heard{back: true, attempted: true, text: "the handler ended its goroutine without returning"}

// call runs the handler and hears what it says. The methods of its error are code of
// its own, which can panic as well: those of a nil pointer in an error do.
func (w *worker) call(ctx context.Context, d *dispatch) (result Result, words heard) {
	var err error
	defer func() {
		if p := recover(); p != nil {
			words = w.panicked(d.about(), err, p)
		}
	}()
	result, err = w.handle(ctx, d.task)
	return result, hearBoth(result.Output, err)
}

// panicked is what a panic says: the task goes to another agent. err is the error
// whose method it was, nil when it was the handler. The log gets the place and the
// type of the value. What the value says may quote the payload: that is for the
// result alone.
func (w *worker) panicked(about slog.Attr, err error, p any) heard {
	text, logged := "the handler panicked: "+printed(p), "the handler panicked"
	if err != nil {
		logged = fmt.Sprintf("the handler panicked: it returned an error, a %T, that cannot be read", err)
		text = logged + ": " + printed(p)
	}
	w.log.Error(logged, about, slog.String("panic_type", fmt.Sprintf("%T", p)), slog.String("stack", panicStack()))
	return heard{back: true, attempted: true, panicked: true, text: messages.Clean(text, messages.MaxText)}
}

// maxFrames is how many calls of a panic's stack the log gets.
const maxFrames = 32

// panicStack is where the panic came from, innermost call first, as functions with
// file and line. Unlike debug.Stack it shows no arguments: the payload may be among
// them. It must be called by panicked, and that by a deferred function.
func panicStack() string {
	var calls [maxFrames]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(4, calls[:])])
	var b strings.Builder
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if b.Len() == 0 && strings.HasPrefix(f.Function, "runtime.") {
			continue // how Go panics is not worth a line
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s:%d", f.Function, f.File, f.Line)
	}
	return b.String()
}

// printed is the text of what a panic was about, whose methods may panic in their turn.
func printed(p any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T, which cannot be printed", p)
		}
	}()
	return fmt.Sprint(p)
}

// expect waits for the handler, whose ctx has ended, to return, and for no longer
// than is right.
func (w *worker) expect(ctx context.Context, d *dispatch) {
	cause, grace := context.Cause(ctx), time.Duration(0)
	switch {
	case errors.Is(cause, ErrDeadline):
		grace = deadlineGrace
	case errors.Is(cause, ErrCancelled):
		grace = cancelGrace
	case errors.Is(cause, ErrStopping):
		grace = stopGrace
	default:
		return // the handler has returned
	}
	time.AfterFunc(grace, func() {
		if w.conclude(d, judge(Result{}, silent, cause, time.Since(d.beganAt))) {
			w.log.Error("a handler does not return although its time is over; its slot stays taken", d.about(),
				slog.Any("cause", cause))
		}
	})
}

// conclude gives a dispatch, and those that have joined it, its verdict and sends the
// result, unless it has one: the first counts, and conclude is false for the others.
func (w *worker) conclude(d *dispatch, v verdict) bool {
	w.mu.Lock()
	first := w.decide(d, v)
	w.mu.Unlock()
	if first {
		w.announce(d)
	}
	return first
}

// decide is conclude without the sending. mu is held: results and heartbeats get
// their times under it, so that a heartbeat lists a task if and only if it is
// older than the task's result, or the handler goes on in spite of that.
func (w *worker) decide(d *dispatch, v verdict) bool {
	if d.verdict != nil {
		return false
	}
	v.text = messages.Clean(v.text, messages.MaxText)
	d.verdict, d.endedAt = &v, time.Now()
	for _, j := range d.joined {
		j.verdict, j.endedAt = d.verdict, d.endedAt
	}
	return true
}

// returned frees the slot of a handler that has returned, and gives the verdict
// unless that was given without it. The next dispatch that waits gets the slot.
func (w *worker) returned(d *dispatch, v verdict) {
	w.mu.Lock()
	now := time.Now()
	first := w.decide(d, v)
	if first && v.outcome == messages.Succeeded {
		w.measure(d, now)
	}
	d.running = false
	delete(w.running, d)
	w.occupied(now)
	w.leaveTask(d)
	late := w.next(now)
	w.mu.Unlock()
	if first {
		w.announce(d)
	} else {
		w.log.Info("a handler has returned at last; its slot is free", d.about())
		signal(w.wake) // until now its slot was reported as taken
	}
	for _, d := range late {
		w.conclude(d, tooLate)
	}
}

// next begins what waits while there are slots. It returns what it could not begin
// any more. mu is held.
func (w *worker) next(now time.Time) (late []*dispatch) {
	if w.handleBatch != nil {
		return w.nextBatches(now)
	}
	for len(w.waiting) > 0 && len(w.running) < w.cfg.Slots {
		d := w.waiting[0]
		w.waiting = w.waiting[1:]
		if !w.begin(d, now) {
			late = append(late, d)
		}
	}
	return late
}

// about is how a dispatch is named in the log.
func (d *dispatch) about() slog.Attr {
	return slog.GroupAttrs("",
		slog.String("task_id", string(d.names.TaskID)),
		slog.String("dispatch_id", d.names.DispatchID),
		slog.String("trace_id", d.names.CorrelationID))
}
