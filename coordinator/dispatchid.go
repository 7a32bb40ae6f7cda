package coordinator

import (
	"strconv"
	"strings"
)

// DispatchID names one attempt in one life of a task id: the id, when the task was accepted
// (see [Task.Life]) and the attempt's number, with a dot between. Attempts are counted from 1
// again once an id is forgotten, so that they alone would name two dispatches alike. It is
// injective, because life and attempt have no dot.
func DispatchID(t *Task, attempt int) string {
	life := t.Life()
	if life == 0 {
		return AttemptID(t.ID, attempt)
	}
	return string(t.ID) + "." + strconv.FormatInt(life, lifeBase) + "." + strconv.Itoa(attempt)
}

// lifeBase is the base in which a dispatch id has the life: eight digits until 2059.
const lifeBase = 36

// Life distinguishes the lives of a task id: when the task was accepted, in milliseconds since
// 1970; 0: not known.
func (t *Task) Life() int64 {
	if t.AcceptedAt.IsZero() {
		return 0
	}
	return max(0, t.AcceptedAt.UnixMilli())
}

// AttemptID names one attempt where the life of the task is not known or does not matter.
func AttemptID(task TaskID, attempt int) string {
	return string(task) + "." + strconv.Itoa(attempt)
}

// ParseDispatchID reads the life and the attempt out of a dispatch id of the task; life is 0
// where it names none. ok is false when neither DispatchID nor AttemptID makes this of the task.
func ParseDispatchID(task TaskID, id string) (life int64, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(id, string(task)+".")
	if !ok {
		return 0, 0, false
	}
	if first, last, two := strings.Cut(rest, "."); two {
		rest = last
		n, err := strconv.ParseInt(first, lifeBase, 64)
		if err != nil || n <= 0 || strconv.FormatInt(n, lifeBase) != first {
			return 0, 0, false
		}
		life = n
	}
	n, err := strconv.ParseInt(rest, 10, 32)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != rest {
		return 0, 0, false
	}
	return life, int(n), true
}
