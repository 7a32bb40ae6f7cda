package engine_test

import (
	"fmt"
	"testing"

	"taskbus/coordinator"
)

// What the duplicate check knows of an open task names the task's agent. Its record refers to the task by a
// number, of which there are more than agents: one agent, four tasks, of which three wait.
func TestWhatIsKnownOfOpenTasks(t *testing.T) {
	r := ready(t, policyOf(worker("a").can("go")).route("build", "go"))
	for i := range 4 {
		r.assign(job(coordinator.TaskID(fmt.Sprint("t", i))).kind("build"))
	}
	for i, agent := range []coordinator.AgentID{"a", "", "", ""} {
		id := coordinator.TaskID(fmt.Sprint("t", i))
		k := r.Known(r.now, id)
		if k == nil || k.Task == nil || k.Task.ID != id || k.Agent != agent || !k.Fate.IsOpen() {
			t.Errorf("of %s is known %+v, want its task, open, with agent %q", id, k, agent)
		}
	}
}
