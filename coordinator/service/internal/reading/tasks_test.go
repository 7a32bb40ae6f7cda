package reading

import (
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
)

// accepted is a task of this id.
func accepted(id coordinator.TaskID, at time.Time) *coordinator.Task {
	return &coordinator.Task{ID: id, AcceptedAt: at}
}

// TestRefusedUnreadSortsByWhen: a message that was refused unread has no time of acceptance, and stands among the
// tasks by when it was refused.
func TestRefusedUnreadSortsByWhen(t *testing.T) {
	h, at := recent.New(4), time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	h.Accepted(accepted("before", at), true)
	refused := coordinator.Failure{Reason: coordinator.ReasonInvalidMessage, FailedAt: at.Add(time.Second)}
	h.Failed(&coordinator.Fail{Handle: 1, Task: accepted("refused", time.Time{}), Failure: refused})
	h.Accepted(accepted("after", at.Add(2*time.Second)), true)
	var got []string
	for _, r := range h.Recent(4, func(*recent.Record) bool { return true }) {
		got = append(got, string(r.Task.ID))
	}
	if want := []string{"after", "refused", "before"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r, _ := h.Find("refused")
	if told := taskStatus(&r, at.Add(time.Hour)); !told.DecidedAt.Equal(refused.FailedAt) {
		t.Errorf("decided at %v, want %v", told.DecidedAt, refused.FailedAt)
	}
}
