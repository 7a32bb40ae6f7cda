package fleet

import (
	"slices"
	"time"
)

// Processes that share an agent's id cannot be distinguished by what they report: each reports its own slots
// and tasks, and the latest report counts for all. That is a fault of the fleet, and not refused: their tasks
// are done. It is reported, and the goodbye of one does not end the work of the others.

// Instances are the processes that report under an agent's id and say which they are.
type Instances struct {
	list []instance // at most MaxInstances, in the order in which they came
	last string     // that was heard last
	// shared: two were heard by turns; until one of them alone has been heard for instanceSilence.
	shared bool
}

// instance is one process.
type instance struct {
	id           string
	first, heard time.Time // when it was heard first and last
}

// MaxInstances bounds the processes that are remembered of one agent.
const MaxInstances = 16

// Note takes in a report of an instance, and reports whether it is news that several are at work. One that
// follows another does not count as a second: its agent was started again.
func (s *Instances) Note(now time.Time, id string, silent time.Duration) (news bool) {
	s.list = slices.DeleteFunc(s.list, func(i instance) bool { return now.Sub(i.heard) > silent })
	was := s.shared && len(s.list) > 1
	at := slices.IndexFunc(s.list, func(i instance) bool { return i.id == id })
	switch {
	case at < 0 && len(s.list) >= MaxInstances:
		return false
	case at < 0:
		s.list = append(s.list, instance{id: id, first: now, heard: now})
	default:
		s.list[at].heard = now
		s.shared = s.shared || s.last != "" && s.last != id
	}
	s.last = id
	s.shared = s.shared && len(s.list) > 1
	return !was && s.Among(now, silent) > 1
}

// Leaves removes an instance that says goodbye, and reports whether another goes on: one that was
// heard after this one had come.
func (s *Instances) Leaves(now time.Time, id string, silent time.Duration) (others bool) {
	at := slices.IndexFunc(s.list, func(i instance) bool { return i.id == id })
	if at < 0 {
		return false
	}
	first := s.list[at].first
	s.list = slices.Delete(s.list, at, at+1)
	if s.last == id {
		s.last = ""
	}
	s.shared = s.shared && len(s.list) > 1
	return slices.ContainsFunc(s.list, func(i instance) bool { return i.heard.After(first) && now.Sub(i.heard) <= silent })
}

// Among returns how many are at work: 1 unless two were heard by turns. One that was not heard again since another
// came has been followed by it.
func (s *Instances) Among(now time.Time, silent time.Duration) (n int) {
	var newest time.Time
	for _, i := range s.list {
		if i.first.After(newest) {
			newest = i.first
		}
	}
	for _, i := range s.list {
		if now.Sub(i.heard) <= silent && !i.heard.Before(newest) {
			n++
		}
	}
	if !s.shared {
		return min(n, 1)
	}
	return n
}
