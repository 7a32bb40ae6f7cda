package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// The limits of /tasks.
const (
	DefaultTaskLimit = 50
	MaxTaskLimit     = 1000
)

func (a *api) tasks(w http.ResponseWriter, r *http.Request) {
	filter, err := parseFilter(r.URL.RawQuery)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	web.Answer(w, http.StatusOK, view.TaskList{Tasks: present(a.src.Tasks(ctx, filter)), Limit: filter.Limit})
}

// taskID is the id in the path; false when it is none, and that is answered.
func taskID(w http.ResponseWriter, r *http.Request) (string, bool) {
	id := r.PathValue("id")
	if !messages.ValidID(id) {
		badID(w)
		return "", false
	}
	return id, true
}

func unknownTask(w http.ResponseWriter, id string) {
	web.Problem(w, http.StatusNotFound, "Unknown task",
		"Task "+id+
			" is not remembered: it has not been read yet, never came, or ended before the window of the duplicate check. "+
			"Look for the id in the journal (`taskbus journal show "+id+"`), in the coordinator's log, and in the queues "+
			"task.assign, assignment.failed and task.dead.")
}

func badID(w http.ResponseWriter) {
	web.Problem(w, http.StatusBadRequest, "Not an id",
		"The id of a task, an agent or a group is 1 to 128 letters, digits, dots, underscores, colons and dashes, and "+
			"begins with a letter or a digit.")
}

// parseFilter reads the query of /tasks. An empty value counts as absent.
func parseFilter(query string) (view.TaskFilter, error) {
	filter := view.TaskFilter{}
	given, err := web.Parameters(query, "state", "agent", "limit")
	if err != nil {
		return filter, err
	}
	if state := given["state"]; state != "" {
		if !slices.Contains(view.TaskStates(), state) {
			return filter, fmt.Errorf("state must be one of %s", strings.Join(view.TaskStates(), ", "))
		}
		filter.State = state
	}
	if agent := given["agent"]; agent != "" {
		if !messages.ValidID(agent) {
			return filter, errors.New("agent is not an agent id")
		}
		filter.Agent = agent
	}
	filter.Limit, err = web.Limit(given["limit"], given["limit"] != "", DefaultTaskLimit, MaxTaskLimit)
	return filter, err
}
