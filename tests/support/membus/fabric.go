package membus

import (
	"fmt"
	"slices"
	"sync"

	"taskbus/coordinator/bus"
)

// fabric is the broker's exchanges, bindings and queues. mu is the broker's lock
// and is held for every method.
type fabric struct {
	mu        *sync.Mutex
	between   func(step string) // see Broker.between
	removed   func()            // hears that a queue has gone
	queues    map[string]queue
	exchanges map[string]*exchange
}

// exchange is a durable exchange with its bindings, oldest first.
type exchange struct {
	kind     bus.ExchangeKind
	bindings []bus.Binding
}

// apply sees to what a session's topology shares with others, as its mode says,
// and tells the session what differs.
func (f *fabric) apply(t bus.Topology, s *session) error {
	if t.Mode == bus.Off {
		return nil
	}
	for _, x := range t.Exchanges {
		if err := s.step("declare " + x.Name); err != nil {
			return err
		}
		if err := f.seeToExchange(x, s); err != nil {
			return err
		}
	}
	if err := f.ensureAll(t, s, false); err != nil || t.Mode != bus.Declare {
		return err
	}
	return f.bind(t, s, false)
}

// applyTemporary makes the temporary queues, and their bindings, the session's;
// in every mode.
func (f *fabric) applyTemporary(t bus.Topology, s *session) error {
	if err := f.ensureAll(t, s, true); err != nil {
		return err
	}
	return f.bind(t, s, true)
}

// ensureAll ensures the temporary or the lasting queues.
func (f *fabric) ensureAll(t bus.Topology, s *session, temporary bool) error {
	for _, q := range t.Queues {
		if q.Temporary != temporary {
			continue
		}
		if err := s.step("declare " + q.Name); err != nil {
			return err
		}
		exists, err := f.ensure(q, s)
		if err != nil {
			return fmt.Errorf("declare queue %q: %w", q.Name, err)
		}
		if !exists {
			return &bus.TopologyError{Object: q.Name, Reason: "this queue " + missingAdvice}
		}
	}
	return nil
}

const missingAdvice = "does not exist and may not be declared: create it, or use topology: declare"

// seeToExchange declares an exchange or looks for it.
func (f *fabric) seeToExchange(x bus.Exchange, s *session) error {
	have := f.exchanges[x.Name]
	switch {
	case have == nil && s.spec.Topology.Mode == bus.Verify:
		return &bus.TopologyError{Object: x.Name, Reason: "this exchange " + missingAdvice}
	case have == nil:
		f.exchanges[x.Name] = &exchange{kind: x.Kind}
	case have.kind != x.Kind:
		s.record(bus.Finding{Object: x.Name, Text: fmt.Sprintf(
			"is a %s exchange instead of a %s one and routes as such", have.kind, x.Kind)})
	}
	return nil
}

// bind makes the bindings of the temporary or of the lasting queues.
func (f *fabric) bind(t bus.Topology, s *session, temporary bool) error {
	for _, binding := range t.Bindings {
		mine := slices.ContainsFunc(t.Queues, func(q bus.Queue) bool { return q.Temporary && q.Name == binding.Queue })
		if mine != temporary {
			continue
		}
		if err := s.step("bind " + binding.Queue); err != nil {
			return err
		}
		if err := f.bindOne(binding); err != nil {
			return err
		}
	}
	return nil
}

// bindAgain makes the bindings of one queue.
func (f *fabric) bindAgain(t bus.Topology, s *session, queue string) error {
	for _, binding := range t.Bindings {
		if binding.Queue != queue {
			continue
		}
		if err := s.step("bind " + queue); err != nil {
			return err
		}
		if err := f.bindOne(binding); err != nil {
			return err
		}
	}
	return nil
}

func (f *fabric) bindOne(binding bus.Binding) error {
	x := f.exchanges[binding.Exchange]
	if x == nil {
		return &bus.TopologyError{Object: binding.Exchange,
			Reason: "this exchange does not exist: declare it before binding " + binding.Queue}
	}
	if f.queues[binding.Queue] == nil {
		return &bus.TopologyError{Object: binding.Queue,
			Reason: "this queue does not exist: declare it before binding it to " + binding.Exchange}
	}
	if !slices.Contains(x.bindings, binding) {
		x.bindings = append(x.bindings, binding)
	}
	return nil
}

// ensure declares a queue, or looks for it, as the session's mode says. It tells
// whether the queue exists, and the session whether it is as described.
func (f *fabric) ensure(q bus.Queue, s *session) (bool, error) {
	delete(s.matching, q.Name)
	mode, have := s.spec.Topology.Mode, f.queues[q.Name]
	if q.Temporary && have != nil && !have.usableBy(s) {
		return false, bus.ErrInUse
	}
	compare := mode == bus.Verify && have != nil
	if !q.Temporary && mode != bus.Declare && !compare {
		return have != nil, nil
	}
	if compare && !q.Temporary {
		// It comes back as described if it is deleted here.
		if err := s.step("compare " + q.Name); err != nil {
			return false, err
		}
	}
	finding, differs := f.declareQueue(q, s)
	if differs {
		s.record(finding)
	} else {
		s.matching[q.Name] = true
	}
	return true, nil
}

// declareQueue creates a queue that is missing. One that exists with another
// definition stays as it is, which is the finding.
func (f *fabric) declareQueue(asked bus.Queue, s *session) (bus.Finding, bool) {
	want := relevant(asked)
	if q := f.queues[want.Name]; q != nil {
		have := q.definition()
		switch {
		case !q.usableBy(s):
			return bus.Finding{Object: want.Name,
				Text: "is a temporary queue of another session: it can be published to, but not consumed, and it ends with that " +
					"session"}, true
		case have == want:
			return bus.Finding{}, false
		case have.Temporary != want.Temporary:
			return bus.Finding{Object: want.Name,
				Text: "is temporary where a lasting queue was asked for, or the other way round; it is used as it is"}, true
		case have.Kind != want.Kind:
			return bus.Finding{Object: want.Name, Text: fmt.Sprintf(
					"is a %s queue instead of a %s one; it is used as it is, without what the latter promises", have.Kind, want.Kind)},
				true
		default:
			return bus.Finding{Object: want.Name,
				Text: "has other limits than asked for; they stay, because a queue's arguments cannot be changed"}, true
		}
	}
	if want.Kind == bus.Stream {
		f.queues[want.Name] = &stream{def: want}
	} else {
		l := newLine(want, f)
		if want.Temporary {
			l.owner = s
		}
		f.queues[want.Name] = l
	}
	return bus.Finding{}, false
}

// relevant drops the fields that do not apply to the queue's kind.
func relevant(q bus.Queue) bus.Queue {
	if q.Temporary {
		return bus.Queue{Name: q.Name, Kind: bus.Classic, Temporary: true}
	}
	switch q.Kind {
	case bus.Quorum:
		q.MaxAge, q.MaxBytes, q.SegmentBytes = 0, 0, 0
		return q
	case bus.Stream:
		return bus.Queue{Name: q.Name, Kind: q.Kind, MaxAge: q.MaxAge, MaxBytes: q.MaxBytes, SegmentBytes: q.SegmentBytes}
	default:
		return bus.Queue{Name: q.Name, Kind: q.Kind}
	}
}

// find returns a queue for a session to use.
func (f *fabric) find(name string, s *session) (queue, error) {
	q := f.queues[name]
	if q == nil {
		return nil, bus.ErrNoQueue
	}
	if !q.usableBy(s) {
		return nil, fmt.Errorf("%w: it is a temporary queue of another session", bus.ErrInUse)
	}
	return q, nil
}

// removeOf takes out the temporary queues and the locks of a session.
func (f *fabric) removeOf(s *session) {
	for name, q := range f.queues {
		if l, ok := q.(*line); ok && l.owner == s {
			f.remove(name).close()
		}
	}
}

// remove takes a queue out, with its bindings. It returns nil if there is none.
func (f *fabric) remove(name string) queue {
	q := f.queues[name]
	if q == nil {
		return nil
	}
	delete(f.queues, name)
	f.removed()
	for _, x := range f.exchanges {
		x.bindings = slices.DeleteFunc(x.bindings, func(b bus.Binding) bool { return b.Queue == name })
	}
	return q
}
