package simulator

// Timeline is what is going to happen in a simulated world, the earliest first; of two at the same time, the one that
// was added first. T should hold no pointer where there are many, so that the garbage collector need not look at them.
//
// It is a heap of four children each, which moves less than two would.
type Timeline[T any] struct {
	items []due[T]
	seq   uint64
}

type due[T any] struct {
	at   int64  // nanoseconds since the beginning
	seq  uint64 // breaks ties of at
	what T
}

func (a *due[T]) before(b *due[T]) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Len is how many things are going to happen.
func (l *Timeline[T]) Len() int { return len(l.items) }

// First is when the next one happens; there must be one.
func (l *Timeline[T]) First() int64 { return l.items[0].at }

// Add has something happen at a time.
func (l *Timeline[T]) Add(at int64, what T) {
	l.seq++
	l.items = append(l.items, due[T]{at, l.seq, what})
	i := len(l.items) - 1
	item := l.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !item.before(&l.items[parent]) {
			break
		}
		l.items[i] = l.items[parent]
		i = parent
	}
	l.items[i] = item
}

// Next takes out the earliest; there must be one.
func (l *Timeline[T]) Next() (at int64, what T) {
	first := l.items[0]
	last := len(l.items) - 1
	item := l.items[last]
	l.items = l.items[:last]
	if last == 0 {
		return first.at, first.what
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, last); c++ {
			if l.items[c].before(&l.items[least]) {
				least = c
			}
		}
		if !l.items[least].before(&item) {
			break
		}
		l.items[i] = l.items[least]
		i = least
	}
	l.items[i] = item
	return first.at, first.what
}
