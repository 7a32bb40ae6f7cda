package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
)

// maxWait bounds how long GET /tasks/{id} waits for the end of a task.
const maxWait = 60 * time.Second

// parseWait reads the query of /tasks/{id}. An empty value counts as absent.
func parseWait(query string) (time.Duration, error) {
	given, err := web.Parameters(query, "wait")
	if err != nil || given["wait"] == "" {
		return 0, err
	}
	wait, err := time.ParseDuration(given["wait"])
	if err != nil || wait < 0 || wait > maxWait {
		return 0, errors.New("wait must be a time from 0s to 60s, such as 30s or 500ms")
	}
	return wait, nil
}

// task answers GET /tasks/{id}: at once, or when the task has ended or the time is over. A task that is not known yet
// is waited for as well: a producer may ask faster than its task is read.
func (a *api) task(w http.ResponseWriter, r *http.Request) {
	wait, err := parseWait(r.URL.RawQuery)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	id, ok := taskID(w, r)
	if !ok {
		return
	}
	if wait == 0 {
		a.answerTask(w, r, id)
		return
	}
	a.gates.waits.few(func(w http.ResponseWriter, r *http.Request) {
		lasting(w, wait)
		if a.ends(r, id, wait) {
			a.answerTask(w, r, id)
		}
	})(w, r)
}

// ends waits until the task has ended, the time is over, or the server stops; false: the client has gone.
func (a *api) ends(r *http.Request, id string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	news, stop := a.src.WatchTask(id)
	defer stop()
	for {
		if s, known := a.src.TaskStory(ctx, id); known && s.Task.Ended() {
			return true
		}
		select {
		case <-news:
			continue
		case <-stopping(r):
		case <-ctx.Done():
		}
		return r.Context().Err() == nil
	}
}

// answerTask answers what is remembered of a task now.
func (a *api) answerTask(w http.ResponseWriter, r *http.Request, id string) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	t, known := a.src.Task(ctx, id)
	if !known {
		unknownTask(w, id)
		return
	}
	a.withOutput(&t, r)
	web.Answer(w, http.StatusOK, t)
}

// lasting lets an answer take so much longer than the server's limits of a connection say.
func lasting(w http.ResponseWriter, longer time.Duration) {
	c, now := http.NewResponseController(w), time.Now()
	// A writer without deadlines needs none. The end of the one for reading would look like the client's going away.
	_ = c.SetReadDeadline(now.Add(longer + readTimeout))
	_ = c.SetWriteDeadline(now.Add(longer + writeTimeout))
}
