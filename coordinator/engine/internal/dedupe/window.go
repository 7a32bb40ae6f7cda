package dedupe

import (
	"fmt"
	"math"
	"slices"
	"time"

	"taskbus/coordinator"
)

// MaxAttempts is how many dispatches under one task id can be distinguished while the id is in the window.
const MaxAttempts = math.MaxUint16

// CapAttempt returns an attempt as a record has it. A result may name one that was never made.
func CapAttempt(attempt int) uint16 { return uint16(min(attempt, MaxAttempts)) }

// Record is what is known of one task id. It holds no pointer: the garbage collector need not look at
// any of the many.
type Record struct {
	Key     coordinator.TaskKey
	Content uint64
	seen    time.Duration // since the window's epoch
	Ref     uint32        // open: the caller's number of the task; else of the agent that had it last, 0: none
	Attempt uint16        // the latest dispatch under this id; 0: none
	Fate    coordinator.Fate
	Flags   Flags
}

// Flags qualify a dispatch that was let go, or a task that has ended.
type Flags uint8

const (
	Withdrawn Flags = 1 << iota // a cancel was requested
	Returning                   // its agent has announced that it gives it back
	Attempted                   // and that it had begun
	Adopted                     // ended, assigned by an earlier coordinator: its content is not known
	replaced                    // there is a newer record of the same id
	Overdue                     // cancelled, and its agent did not confirm in time that it stopped
	WasTried                    // it came back from its agent, which is not to have it again
)

// FlagsOf returns the flags that a journal has; records that were replaced are not in it.
func FlagsOf(bits uint8) Flags { return Flags(bits) &^ replaced }

// Unconfirmed reports whether a delivery that was failed because of a cancel is here again, and it is
// not known whether its outcome got through.
func (r *Record) Unconfirmed(redelivered bool) bool {
	return r.Fate == coordinator.FateCancelled && r.Ref == 0 && redelivered
}

// EndedByResult reports whether a result of its agent ended the task: another result of that agent is a
// repetition, not news that is late.
func (r *Record) EndedByResult() bool {
	return r.Fate.HasEnded() && r.Fate != coordinator.FateTimedOut && r.Flags&Overdue == 0
}

// IsWithdrawn reports whether the task was cancelled while it was not open.
func (r *Record) IsWithdrawn() bool {
	return r.Fate == coordinator.FateWithdrawn || r.Flags&Withdrawn != 0
}

// Limits of a window: how long ids are in it after they were seen last, and how many at most.
type Limits struct {
	Age time.Duration
	IDs int
}

// Window knows the ids of the dedupe window. Its zero value knows none.
type Window struct {
	blocks  // one record for each id, and those that were replaced, which stay until their time
	index   index
	reasons reasons
}

// IDs returns how many ids are known.
func (w *Window) IDs() int { return w.index.used }

// Find returns the record of an id, however old; nil: there is none.
func (w *Window) Find(key coordinator.TaskKey) *Record {
	if number, ok := w.index.find(&w.blocks, &key); ok {
		return w.at(number)
	}
	return nil
}

// Peek is Find for reading, which is cheaper after an image.
func (w *Window) Peek(key coordinator.TaskKey) *Record {
	if number, ok := w.index.find(&w.blocks, &key); ok {
		return w.peek(number)
	}
	return nil
}

// Record is Find for a caller that has kept the number which Insert returned: no look-up, as long as
// the record has not moved on.
func (w *Window) Record(key coordinator.TaskKey, number uint64) *Record {
	if number >= w.first {
		return w.at(number)
	}
	return w.Find(key)
}

// Lookup returns the record of an id; nil: it is not in the window. The record of an open task always is.
func (w *Window) Lookup(now time.Time, key coordinator.TaskKey, age time.Duration) *Record {
	r := w.Find(key)
	if r == nil || !r.Fate.IsOpen() && r.seen <= now.Sub(w.epoch)-age {
		return nil
	}
	return r
}

// seenAlready: an id that is seen again so soon keeps its place. A task that goes from agent to agent
// would otherwise use up the places of others.
const seenAlready = 10 * time.Second

// Insert notes an id as the newest, in place of what was known of it, and returns its record and the
// record's number. A task that ended badly and is submitted again goes on counting its attempts, so
// that no dispatch id is used twice.
func (w *Window) Insert(
	now time.Time, key coordinator.TaskKey, content uint64, fate coordinator.Fate, ref uint32,
) (uint64, *Record) {
	if w.epoch.IsZero() {
		w.epoch = now
	}
	r := Record{Key: key, Content: content, seen: now.Sub(w.epoch), Fate: fate, Ref: ref}
	if number, ok := w.index.find(&w.blocks, &key); ok {
		old := w.at(number)
		if old.IsWithdrawn() {
			w.reasons.drop(key)
		}
		r.Attempt = old.Attempt
		if r.seen-old.seen < seenAlready {
			r.seen = old.seen // the records are in this order
			*old = r
			return number, old
		}
		old.Fate, old.Flags = coordinator.FateForgotten, replaced
	}
	return w.append(r)
}

// append adds a record as the newest.
func (w *Window) append(r Record) (uint64, *Record) {
	number := w.add()
	place := w.at(number)
	*place = r
	w.index.put(&w.blocks, &place.Key, number)
	return number, place
}

// Update changes what is known of an id for which Insert returned that number.
func (w *Window) Update(key coordinator.TaskKey, number uint64, f coordinator.Fate, ref uint32, attempt int) {
	if r := w.Record(key, number); r != nil {
		r.Fate, r.Ref, r.Attempt = f, ref, CapAttempt(attempt)
	}
}

// EvictStep is how many records one eviction looks at: more than the one that can have come since the
// last, and few enough that no task pays for all the others after a quiet hour, or when very many are
// open.
const EvictStep = 8

// Eviction drops what is beyond the limits, the oldest first. It stops at each record of an open
// task (Next), for the caller to Drop or Keep.
type Eviction struct {
	Open  *Record   // the oldest record
	Since time.Time // the limit that it is beyond: its task may be forgotten if it was left alone since

	window *Window
	limits Limits
	now    time.Time
	since  time.Time
	oldest time.Duration
	latest time.Duration
	steps  int
}

// Evict begins an eviction. clock is now, or later where now is a time of another machine: a
// record that was seen after it is moved to it, for in its place it would keep those behind it from
// ever being too old.
func (w *Window) Evict(now, clock time.Time, l Limits) Eviction {
	since := now.Add(-l.Age)
	return Eviction{
		window: w, limits: l, now: now, since: since,
		oldest: since.Sub(w.epoch), latest: clock.Sub(w.epoch), steps: min(EvictStep, w.size()),
	}
}

// Next drops records that are beyond the limits up to that of an open task; false: there is none.
func (x *Eviction) Next() bool {
	w := x.window
	for ; x.steps > 0; x.steps-- {
		r := w.peek(w.first)
		x.Since = x.since
		switch {
		case w.index.used >= x.limits.IDs:
			x.Since = x.now // there is no room for more
		case r.seen > x.latest:
			x.keepAt(r, x.latest)
			continue
		case r.seen > x.oldest:
			return false
		}
		if r.Fate.IsOpen() {
			x.steps--
			x.Open = w.at(w.first)
			return true
		}
		x.Drop()
	}
	return false
}

// Drop drops the oldest record.
func (x *Eviction) Drop() {
	w := x.window
	if r := w.peek(w.first); r.Flags&replaced == 0 {
		if r.IsWithdrawn() {
			w.reasons.drop(r.Key)
		}
		w.index.drop(&w.blocks, &r.Key)
	}
	w.dropFirst()
}

// Keep keeps the oldest record as if its id had just been seen.
func (x *Eviction) Keep() { x.keepAt(x.window.peek(x.window.first), x.now.Sub(x.window.epoch)) }

func (x *Eviction) keepAt(r *Record, seen time.Duration) {
	if again := *r; again.Flags&replaced == 0 {
		again.seen = seen
		x.window.append(again)
	}
	x.window.dropFirst()
}

// Check looks at the record of a number, from First on and before First+Size. fault: the index does not
// lead to it.
func (w *Window) Check(number uint64) (r *Record, fault string) {
	r = w.peek(number)
	if r.Flags&replaced != 0 { // it stays until its time
		return r, ""
	}
	if found, ok := w.index.find(&w.blocks, &r.Key); !ok || found != number {
		return r, fmt.Sprintf("record %d (%s) is found as %d, %v", number, r.Fate, found, ok)
	}
	return r, ""
}

// First returns the number of the oldest record.
func (w *Window) First() uint64 { return w.first }

// Size returns how many records there are, with those that were replaced.
func (w *Window) Size() int { return w.size() }

// Withdraw notes in its record that a task which is not open was cancelled, and why.
func (w *Window) Withdraw(r *Record, why string) {
	r.Flags |= Withdrawn
	w.KeepReason(r.Key, why)
}

// Reason returns why the task of an id was cancelled; empty: it was not, or the reason is not known.
func (w *Window) Reason(key coordinator.TaskKey) string { return w.reasons.of(key) }

// KeepReason keeps the reason of a cancel, which goes with the record of the id; an empty one changes
// nothing.
func (w *Window) KeepReason(key coordinator.TaskKey, why string) { w.reasons.keep(key, why) }

// DropReason forgets the reason of a cancel.
func (w *Window) DropReason(key coordinator.TaskKey) { w.reasons.drop(key) }

// MaxReasons bounds the reasons kept for cancels of tasks that are not open: with 2,048 characters
// each, at most 4 MiB.
const MaxReasons = 512

// reasons are why tasks were cancelled that are not open: not seen yet, or let go. They stand beside the
// records, because hardly any record has one; a cancel counts without it. The oldest goes first.
type reasons struct{ list []reason }

type reason struct {
	key  coordinator.TaskKey
	text string
}

func (c *reasons) find(key coordinator.TaskKey) int {
	return slices.IndexFunc(c.list, func(r reason) bool { return r.key == key })
}

func (c *reasons) of(key coordinator.TaskKey) string {
	if i := c.find(key); i >= 0 {
		return c.list[i].text
	}
	return ""
}

func (c *reasons) keep(key coordinator.TaskKey, text string) {
	if text == "" {
		return
	}
	c.drop(key)
	if len(c.list) >= MaxReasons {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, reason{key, text})
}

func (c *reasons) drop(key coordinator.TaskKey) {
	if i := c.find(key); i >= 0 {
		c.list = slices.Delete(c.list, i, i+1)
	}
}
