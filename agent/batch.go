package agent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A coordinator gives tasks of a type that is batched to one agent together: each is a
// dispatch of its own, and says of which batch it is and how large that is. Here they
// are collected again for one call of a BatchHandler.

// BatchHandler does the work of the tasks of one batch at once. It is called from a
// goroutine of its own, with at least one task and at most Config.Slots; each takes a
// slot. A task that came alone is a batch of one, and so may be what is left of a
// batch of which the others were withdrawn, went elsewhere, or came later.
//
// ctx ends when there is nothing left to work on: when the Context of every task has
// ended. It carries the values of Run's ctx. batch belongs to the handler.
//
// Finish gives a task its outcome. What the handler returns, or its panic, is the
// outcome of every task that has none by then: as that of a Handler would be, so nil
// says that all of them have succeeded. A handler that leaves out a task, because its
// Context has ended, must Finish it with an error.
type BatchHandler func(ctx context.Context, batch []*Member) error

// Member is one task of a batch.
type Member struct {
	// Task belongs to the handler.
	*Task

	worker   *worker
	dispatch *dispatch
	ctx      context.Context
	free     func()      // ends ctx
	unwatch  func() bool // its end is not awaited any more
	once     sync.Once
}

// Context ends when this task is withdrawn, at its deadline, or when the agent has to
// stop: see Handler. It has also ended once the task has its outcome.
func (m *Member) Context() context.Context { return m.ctx }

// Finish gives this task its outcome, while the handler goes on with the others: what
// a Handler returns for its task. Its result goes out and its slot is free at once.
// The first call counts; one after the handler has returned does nothing. It may be
// called from any goroutine, and may wait for the broker to take messages.
func (m *Member) Finish(r Result, err error) {
	m.finish(r, func() heard { return m.worker.read(m.dispatch, r.Output, err) })
}

// finish is Finish, by whatever words gives.
func (m *Member) finish(r Result, words func() heard) {
	m.once.Do(func() {
		said := exited
		// Deferred, because the methods of an error can also end their goroutine.
		defer func() {
			m.unwatch()
			m.worker.returned(m.dispatch, judge(r, said, context.Cause(m.ctx), time.Since(m.dispatch.beganAt)))
			m.free()
		}()
		said = words()
	})
}

// read hears what is said of one task.
func (w *worker) read(d *dispatch, output any, err error) (words heard) {
	defer func() {
		if p := recover(); p != nil {
			words = w.panicked(d.about(), err, p)
		}
	}()
	return hearBoth(output, err)
}

// companions are a batch of which the members come in. worker.mu guards it.
type companions struct {
	id         string
	size, come int
	complete   bool // it is begun with those that have come, as soon as there are slots
	late       *time.Timer
}

// collect puts a dispatch to its batch, if it is of one and batches are handled. Once
// as many have come as can, or none has for BatchWait, the batch is complete. mu is
// held.
func (w *worker) collect(d *dispatch) {
	if w.handleBatch == nil || d.task.BatchID == "" || d.task.BatchSize < 2 {
		return
	}
	b := w.batches[d.task.BatchID]
	if b == nil {
		b = &companions{id: d.task.BatchID, size: d.task.BatchSize}
		w.batches[b.id] = b
		b.late = time.AfterFunc(w.cfg.BatchWait, func() { w.waitedEnough(b) })
	} else {
		b.late.Reset(w.cfg.BatchWait)
	}
	d.batch = b
	b.come++
	if b.come >= min(b.size, w.cfg.Slots) {
		w.complete(b)
	}
}

// complete ends the collecting of a batch: what comes later is another one. mu is held.
func (w *worker) complete(b *companions) {
	b.complete = true
	b.late.Stop()
	if w.batches[b.id] == b {
		delete(w.batches, b.id)
	}
}

// waitedEnough begins a batch without those that have not come.
func (w *worker) waitedEnough(b *companions) {
	w.mu.Lock()
	w.complete(b)
	late := w.next(time.Now())
	w.mu.Unlock()
	for _, d := range late {
		w.conclude(d, tooLate)
	}
}

// stopCollecting forgets the batches whose members come in; these have been given up,
// or will be. mu is held.
func (w *worker) stopCollecting() {
	for _, b := range w.batches {
		w.complete(b)
	}
}

// nextBatches is next where batches are handled: the members of one begin together,
// or, where handlers that do not return have their slots, as many as there are slots
// for. mu is held.
func (w *worker) nextBatches(now time.Time) (late []*dispatch) {
	for free := w.cfg.Slots - len(w.running); free > 0; free = w.cfg.Slots - len(w.running) {
		i := slices.IndexFunc(w.waiting, func(d *dispatch) bool { return d.batch == nil || d.batch.complete })
		if i < 0 {
			return late
		}
		first := w.waiting[i]
		var members, others []*dispatch
		for _, d := range w.waiting {
			if len(members) < free && (d == first || d.batch != nil && d.batch == first.batch) {
				members = append(members, d)
			} else {
				others = append(others, d)
			}
		}
		w.waiting = others
		late = append(late, w.beginBatch(members, now)...)
	}
	return late
}

// beginBatch begins the members of a batch. It returns those of which the deadline has
// passed. mu is held.
func (w *worker) beginBatch(members []*dispatch, now time.Time) (late []*dispatch) {
	var batch []*Member
	for _, d := range members {
		ctx, free, ok := w.occupy(d, now)
		if !ok {
			late = append(late, d)
			continue
		}
		batch = append(batch, &Member{Task: d.task, worker: w, dispatch: d, ctx: ctx, free: free})
	}
	if len(batch) > 0 {
		go w.workBatch(batch)
	}
	return late
}

// workBatch runs the handler and sees to the end of every member, whatever that is.
func (w *worker) workBatch(batch []*Member) {
	ctx, end := context.WithCancelCause(w.base)
	defer end(nil)
	var left atomic.Int64
	left.Store(int64(len(batch)))
	for _, m := range batch {
		m.unwatch = context.AfterFunc(m.ctx, func() { w.expect(m.ctx, m.dispatch) })
		context.AfterFunc(m.ctx, func() {
			if left.Add(-1) == 0 {
				end(context.Cause(m.ctx))
			}
		})
	}
	words := exited
	// Deferred, because a handler can also end its goroutine.
	defer func() {
		for _, m := range batch {
			m.finish(Result{}, func() heard { return words })
		}
	}()
	words = w.callBatch(ctx, batch)
}

// callBatch is call for a batch.
func (w *worker) callBatch(ctx context.Context, batch []*Member) (words heard) {
	var err error
	defer func() {
		if p := recover(); p != nil {
			first := batch[0].dispatch
			words = w.panicked(slog.GroupAttrs("", first.about(), slog.String("batch_id", first.task.BatchID),
				slog.Int("tasks", len(batch))), err, p)
		}
	}()
	err = w.handleBatch(ctx, slices.Clone(batch))
	return hear(err)
}
