package view

// TaskStates lists the words of Task.State and TaskFilter.State. The caller owns
// the list. A task that has failed was either not assigned (Task.ReasonCode says
// why) or not done by its agent (Task.Error has the agent's word).
func TaskStates() []string {
	return []string{"pending", "dispatching", "dispatched", "succeeded", "failed", "cancelled"}
}

// TaskList is the answer of /tasks.
type TaskList struct {
	Tasks []Task `json:"tasks"`
	// Limit that was applied: as many tasks as that mean that there may be more.
	Limit int `json:"limit"`
}
