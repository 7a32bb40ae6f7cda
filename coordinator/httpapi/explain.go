package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"taskbus/messages"
)

// defaultMaxTask bounds the task of /whatif, in bytes, where Options say nothing:
// the default of max_message_bytes.
const defaultMaxTask = 1 << 20

// explainTimeout bounds an explanation, which has its turn after others.
const explainTimeout = 5 * time.Second

// BadTask is what keeps the body of /whatif from being a task.
type BadTask struct {
	// Text says what is wrong, for people; it quotes no payload.
	Text string
}

func (b *BadTask) Error() string { return b.Text }

func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	id, ok := taskID(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	x, known := a.src.Explain(ctx, id)
	if !known {
		unknownTask(w, id)
		return
	}
	x.Attempts = present(x.Attempts)
	answer(w, http.StatusOK, x)
}

// whatIf answers POST /whatif. It changes nothing, so that it needs no token; but a page in a browser has
// no business to make the coordinator work.
func (a *api) whatIf(w http.ResponseWriter, r *http.Request) {
	if err := a.permission.browsers.Check(r); err != nil {
		crossOrigin(w)
		return
	}
	if !unasked(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.maxTask))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "Body too large",
			fmt.Sprintf("The task has more than %d bytes (max_message_bytes).", tooLarge.Limit))
		return
	case err != nil:
		problem(w, http.StatusBadRequest, "Body not readable", "The body did not arrive as a whole; send the request again.")
		return
	}
	a.gates.reads.few(func(w http.ResponseWriter, r *http.Request) { a.prospect(w, r, body) })(w, r)
}

// prospect answers how a task would be decided.
func (a *api) prospect(w http.ResponseWriter, r *http.Request, body []byte) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	p, err := a.src.WhatIf(ctx, body)
	var bad *BadTask
	switch {
	case errors.As(err, &bad):
		problem(w, http.StatusBadRequest, "Not a task",
			"The body must be a task.assign message (message_type, task_id and payload may be missing). "+
				messages.Clean(bad.Text, messages.MaxText))
	case err != nil:
		notAvailable(w, "Answer not available", "Asking how the task would be decided", err)
	default:
		answer(w, http.StatusOK, p)
	}
}

// notAvailable answers a question that the service cannot answer now.
func notAvailable(w http.ResponseWriter, title, doing string, err error) {
	problem(w, http.StatusServiceUnavailable, title,
		doing+": "+messages.Clean(err.Error(), messages.MaxText)+". Try again; /livez and /readyz answer without it.")
}
