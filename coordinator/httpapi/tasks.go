package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
		badQuery(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	answer(w, http.StatusOK, view.TaskList{Tasks: present(a.src.Tasks(ctx, filter)), Limit: filter.Limit})
}

func (a *api) task(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	if id, ok := taskID(w, r); !ok {
		return
	} else if t, known := a.src.Task(ctx, id); known {
		answer(w, http.StatusOK, t)
	} else {
		unknownTask(w, id)
	}
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
	problem(w, http.StatusNotFound, "Unknown task",
		"Task "+id+
			" is not remembered: it has not been read yet, never came, or ended before the window of the duplicate check. "+
			"Look for the id in the journal (`taskbus journal show "+id+"`), in the coordinator's log, and in the queues "+
			"task.assign, assignment.failed and task.dead.")
}

func badID(w http.ResponseWriter) {
	problem(w, http.StatusBadRequest, "Not an id",
		"The id of a task, an agent or a group is 1 to 128 letters, digits, dots, underscores, colons and dashes, and "+
			"begins with a letter or a digit.")
}

// parseFilter reads the query of /tasks. An empty value counts as absent.
func parseFilter(query string) (view.TaskFilter, error) {
	filter := view.TaskFilter{Limit: DefaultTaskLimit}
	given, err := parameters(query, "state", "agent", "limit")
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
	if limit := given["limit"]; limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > MaxTaskLimit {
			return filter, fmt.Errorf("limit must be a whole number from 1 to %d", MaxTaskLimit)
		}
		filter.Limit = n
	}
	return filter, nil
}
