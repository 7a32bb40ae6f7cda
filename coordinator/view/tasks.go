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

// TaskStory is a task with its attempts, the first one first.
type TaskStory struct {
	Task     Task
	Attempts []Attempt
}

// Ended reports whether nothing more is expected to become of the task.
func (t *Task) Ended() bool {
	return t.State == "succeeded" || t.State == "failed" || t.State == "cancelled"
}

// OutputRef says where an output is that is too large for a message.
type OutputRef struct {
	URI string `json:"uri"`
	// SHA256 of its bytes, in lower-case hexadecimal digits; Size in bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// TaskSubmitted is the answer of POST /tasks: the broker has the task.
type TaskSubmitted struct {
	TaskID string `json:"task_id"`
}
