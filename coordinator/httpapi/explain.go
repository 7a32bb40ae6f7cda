package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/messages"
)

// defaultMaxTask bounds the task of /whatif, in bytes, where Options say nothing:
// the default of max_message_bytes.
const defaultMaxTask = 1 << 20

// explainTimeout bounds an explanation, which has its turn after others.
const explainTimeout = 5 * time.Second

// BadTask is what keeps the body of /whatif or /tasks from being a task.
type BadTask struct {
	// TooLarge: it has more bytes than max_message_bytes.
	TooLarge bool
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
	web.Answer(w, http.StatusOK, x)
}

// whatIf answers POST /whatif. It changes nothing, so that it needs no token; but a page in a browser has
// no business to make the coordinator work.
func (a *api) whatIf(w http.ResponseWriter, r *http.Request) {
	if !web.SameOrigin(w, r, a.permission.browsers) || !web.Unasked(w, r) {
		return
	}
	body, ok := web.Whole(w, http.MaxBytesReader(w, r.Body, a.maxTask), "Body too large", "task", " (max_message_bytes).")
	if !ok {
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
		web.Problem(w, http.StatusBadRequest, "Not a task",
			"The body must be a task.assign message (message_type, task_id and payload may be missing). "+
				messages.Clean(bad.Text, messages.MaxText))
	case err != nil:
		web.NotAvailable(w, "Answer not available", "Asking how the task would be decided", err)
	default:
		web.Answer(w, http.StatusOK, p)
	}
}
