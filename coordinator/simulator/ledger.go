package simulator

// pageTasks is how many tasks are kept, and forgotten, together.
const pageTasks = 4096

// ledger holds the tasks of a run by their numbers, which count from 0 in the order
// of arrival. A full page of which nothing is needed any more is forgotten, so
// that a long run takes memory for the tasks that are open and not for those that
// have been.
type ledger struct {
	pages []*page // nil: forgotten
	count int     // tasks so far
}

type page struct {
	tasks    [pageTasks]task
	released int
}

// add notes a task, as its number says the next one.
func (l *ledger) add(t task) {
	if l.count%pageTasks == 0 {
		l.pages = append(l.pages, new(page))
	}
	l.pages[l.count/pageTasks].tasks[l.count%pageTasks] = t
	l.count++
}

// at gives a task; nil when it has been forgotten. Tasks that are open, or with an
// agent, never are.
func (l *ledger) at(number int32) *task {
	p := l.pages[number/pageTasks]
	if p == nil {
		return nil
	}
	return &p.tasks[number%pageTasks]
}

// release notes, once for each task, that it is not needed any more.
func (l *ledger) release(number int32) {
	p := l.pages[number/pageTasks]
	if p.released++; p.released == pageTasks {
		l.pages[number/pageTasks] = nil
	}
}
