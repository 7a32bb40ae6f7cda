package simulator

import (
	"strconv"
	"time"

	"taskbus/coordinator"
)

// stream is one workload on its way: its producer.
type stream struct {
	load  *Workload
	kind  int32
	made  int // tasks so far
	trace []Request
}

// defaultTimeout is what an agent may take where the task does not say.
const defaultTimeout = 300 * time.Second

// begin schedules the first arrival of every workload.
func (w *world) begin() {
	for i := range w.streams {
		s := &w.streams[i]
		if s.load.Arrivals.Kind == ArriveClosed {
			size := s.load.Arrivals.Size
			if s.load.Count > 0 {
				size = min(size, s.load.Count)
			}
			for range size {
				w.moments.Add(int64(s.load.From), moment{momentArrival, int32(i), 0})
			}
			continue
		}
		w.scheduleArrival(int32(i), int64(s.load.From))
	}
}

// scheduleArrival schedules the next arrival of an open stream, at or after from,
// if there is one.
func (w *world) scheduleArrival(number int32, from int64) {
	s := &w.streams[number]
	a := &s.load.Arrivals
	n := uint64(s.made)
	at := from
	switch a.Kind {
	case ArrivePoisson:
		at += nanoseconds(exponential(1/a.Rate, Draw(w.seed, drawArrival, uint64(number), n)))
	case ArriveConstant:
		at = int64(s.load.From) + nanoseconds(float64(n+1)/a.Rate)
	case ArriveBursts:
		at = int64(s.load.From) + int64(n/uint64(a.Size))*int64(a.Every)
	case ArriveTrace:
		if s.made >= len(s.trace) {
			return
		}
		at = int64(s.load.From) + nanoseconds(s.trace[s.made].At.Seconds()/a.Trace.SpeedUp)
	}
	if at < int64(s.load.Until) && (s.load.Count == 0 || s.made < s.load.Count) {
		w.moments.Add(at, moment{momentArrival, number, 0})
	}
}

// refusedPause is how long a producer of a closed stream waits after a refusal. One
// that did not wait would be refused again at the same moment, for ever.
const refusedPause = time.Second

// replace has the next task of a closed stream come when one has ended: at once, or
// after a pause when the coordinator had no use for it.
func (w *world) replace(number int32, refused bool) {
	if w.streams[number].load.Arrivals.Kind != ArriveClosed {
		return
	}
	at := w.now
	if refused {
		at += int64(refusedPause)
	}
	w.moments.Add(at, moment{momentArrival, number, 0})
}

// arrive brings the next task of a stream to the coordinator.
func (w *world) arrive(number int32) error {
	s := &w.streams[number]
	closed := s.load.Arrivals.Kind == ArriveClosed
	if w.closing || closed && (w.now >= int64(s.load.Until) || s.load.Count > 0 && s.made >= s.load.Count) {
		return nil
	}
	if err := w.crowded(); err != nil {
		return err
	}
	n := w.tasks.count
	t := task{arrived: w.now, started: -1, began: -1, kind: s.kind, stream: number,
		draws: uint64(number)<<40 | uint64(s.made), agent: -1}
	if s.trace != nil {
		q := s.trace[s.made]
		t.size = max(1e-9, s.load.Arrivals.Trace.PerInput*q.Input+s.load.Arrivals.Trace.PerOutput*q.Output)
	}
	t.task = &coordinator.Task{
		ID: coordinator.TaskID("t" + strconv.Itoa(n+1)), Type: s.load.Type,
		Priority: s.load.priority(Draw(w.seed, drawPriority, uint64(number), uint64(s.made))),
		Timeout:  s.load.Timeout, AcceptedAt: epoch.Add(time.Duration(w.now)), Labels: s.load.Labels,
		ContentHash: uint64(n) + 1, // see numberOf
	}
	s.made++
	w.tasks.add(t)
	w.open++
	w.tally.arrived(&t)
	if !closed {
		w.scheduleArrival(number, w.now)
	}
	return w.apply(coordinator.TaskReceived{Handle: w.hand(int32(n)), Task: t.task})
}

// exhausted reports whether every stream has brought all its tasks: their number, or
// its whole trace. One that has neither goes on until its time is over.
func (w *world) exhausted() bool {
	for i := range w.streams {
		s := &w.streams[i]
		bounded := s.load.Count > 0 && s.made >= s.load.Count
		if !bounded && (s.trace == nil || s.made < len(s.trace)) {
			return false
		}
	}
	return true
}

// priority picks one out of the workload's mix.
func (l *Workload) priority(u float64) coordinator.Priority {
	sum := 0.0
	for p, share := range l.Priorities {
		if sum += share; u < sum {
			return coordinator.Priority(p)
		}
	}
	return coordinator.PriorityNormal
}
