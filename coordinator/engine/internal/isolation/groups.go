package isolation

import (
	"fmt"

	"taskbus/coordinator/heap"
)

// Ticket is what a task knows of its group. The zero value is that of one that is in none.
type Ticket[T any, C comparable] struct {
	group *Group[T, C]
	at    int
}

// Waits reports whether the task is in a group.
func (t *Ticket[T, C]) Waits() bool { return t.group != nil }

// Group is tasks of one class that wait for the same quota.
type Group[T any, C comparable] struct {
	Class       C
	leaf, level int
	place       int    // among the groups
	looked      uint64 // in this look its first task has had its turn
	tasks       heap.Heap[T]
}

type key[C comparable] struct {
	class       C
	leaf, level int
}

func (g *Group[T, C]) key() key[C] { return key[C]{g.Class, g.leaf, g.level} }

// Groups are the tasks that must be alone and wait.
type Groups[T any, C comparable] struct {
	compare func(a, b T) int
	ticket  func(T) *Ticket[T, C]

	groups  []*Group[T, C] // in no order
	of      map[key[C]]*Group[T, C]
	byClass map[C]int // groups
	looks   uint64    // numbers the looks
}

// New returns Groups without a task. compare is the order in which tasks go, ticket finds that of a task.
func New[T any, C comparable](compare func(a, b T) int, ticket func(T) *Ticket[T, C]) Groups[T, C] {
	return Groups[T, C]{
		compare: compare, ticket: ticket, of: make(map[key[C]]*Group[T, C]), byClass: make(map[C]int),
	}
}

// Add puts a task in its group, if it is in none. It is charged to a leaf and level of the shares.
func (s *Groups[T, C]) Add(t T, class C, leaf, level int) {
	ticket := s.ticket(t)
	if ticket.Waits() {
		return
	}
	k := key[C]{class, leaf, level}
	g := s.of[k]
	if g == nil {
		g = &Group[T, C]{Class: class, leaf: leaf, level: level, place: len(s.groups), tasks: heap.Heap[T]{
			Before: func(a, b T) bool { return s.compare(a, b) < 0 },
			Place:  func(t T, at int) { s.ticket(t).at = at },
		}}
		s.of[k], s.groups = g, append(s.groups, g)
		s.byClass[class]++
	}
	ticket.group = g
	g.tasks.Push(t)
}

// Remove ends the wait of a task, if it waits.
func (s *Groups[T, C]) Remove(t T) {
	ticket := s.ticket(t)
	g := ticket.group
	if g == nil {
		return
	}
	ticket.group = nil
	if g.tasks.Remove(ticket.at); g.tasks.Len() > 0 {
		return
	}
	delete(s.of, g.key())
	if s.byClass[g.Class]--; s.byClass[g.Class] == 0 {
		delete(s.byClass, g.Class)
	}
	last := s.groups[len(s.groups)-1]
	s.groups[g.place], last.place = last, g.place
	s.groups = s.groups[:len(s.groups)-1]
}

// Clear ends the wait of all.
func (s *Groups[T, C]) Clear() {
	for _, g := range s.groups {
		for _, t := range g.tasks.Items {
			s.ticket(t).group = nil
		}
	}
	s.groups = nil
	clear(s.of)
	clear(s.byClass)
}

// Empty reports whether no task waits.
func (s *Groups[T, C]) Empty() bool { return len(s.groups) == 0 }

// Has reports whether a task of the class waits.
func (s *Groups[T, C]) Has(class C) bool { return s.byClass[class] > 0 }

// Look begins a look at the groups, in which none has had its turn.
func (s *Groups[T, C]) Look() { s.looks++ }

// Tried notes that the task has had the turn of its group in this look, if it still waits.
func (s *Groups[T, C]) Tried(t T) {
	if g := s.ticket(t).group; g != nil {
		g.looked = s.looks
	}
}

// Turn reports whether the group has its turn in this look still.
func (s *Groups[T, C]) Turn(g *Group[T, C]) bool { return g.looked != s.looks }

// First returns the task that goes first of those that are first in a group, such that both may. ok is false if there
// is none.
func (s *Groups[T, C]) First(group func(*Group[T, C]) bool, may func(T) bool) (next T, ok bool) {
	for _, g := range s.groups {
		if t := g.tasks.Items[0]; (!ok || s.compare(t, next) < 0) && group(g) && may(t) {
			next, ok = t, true
		}
	}
	return next, ok
}

// Check returns what does not balance; nil: all is well. waits is what the kernel knows of a task that waits here:
// of which class it is, and whether it should be here.
func (s *Groups[T, C]) Check(waits func(T) (class C, is bool)) error {
	counted := make(map[C]int)
	for n, g := range s.groups {
		counted[g.Class]++
		if g.place != n || s.of[g.key()] != g || g.tasks.Len() == 0 {
			return fmt.Errorf("group %d says that it is at %d, with %d tasks", n, g.place, g.tasks.Len())
		}
		for at, t := range g.tasks.Items {
			if ticket := s.ticket(t); ticket.group != g || ticket.at != at {
				return fmt.Errorf("a task at %d of group %d says that it is at %d", at, n, ticket.at)
			}
			if class, is := waits(t); !is || class != g.Class {
				return fmt.Errorf("the task at %d of group %d waits, or is of another class", at, n)
			}
			if at > 0 && s.compare(t, g.tasks.Items[(at-1)/2]) < 0 {
				return fmt.Errorf("the task at %d of group %d goes before the one above it", at, n)
			}
		}
	}
	if len(s.of) != len(s.groups) || len(s.byClass) != len(counted) {
		return fmt.Errorf("%d groups of %d classes, found %d of %d", len(s.groups), len(counted), len(s.of), len(s.byClass))
	}
	for class, n := range counted {
		if s.byClass[class] != n {
			return fmt.Errorf("a class has %d groups, counted %d", n, s.byClass[class])
		}
	}
	return nil
}
