package engine

// openTasks gives every task that has not ended a number, by which records of
// the memory refer to it. Numbers begin with 1 and are used again.
type openTasks struct {
	all  []*openTask
	free []uint32
}

func newOpenTasks() openTasks { return openTasks{all: make([]*openTask, 1)} }

// add takes a task in and numbers it.
func (s *openTasks) add(t *openTask) {
	if n := len(s.free); n > 0 {
		t.number, s.free = s.free[n-1], s.free[:n-1]
		s.all[t.number] = t
		return
	}
	t.number = uint32(len(s.all))
	s.all = append(s.all, t)
}

// drop lets a task go; its number may be given to another.
func (s *openTasks) drop(t *openTask) {
	s.all[t.number] = nil
	s.free = append(s.free, t.number)
	t.number = 0
}

// of is the open task of a record; nil when the record's task is not open.
func (s *openTasks) of(r *record) *openTask {
	if r == nil || !r.fate.IsOpen() {
		return nil
	}
	return s.all[r.ref]
}
