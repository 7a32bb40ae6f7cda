package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

const (
	// submitTimeout bounds the wait for the broker's confirm.
	submitTimeout = 8 * time.Second
	// maxKey bounds an Idempotency-Key, in bytes.
	maxKey = 255
	// idempotencyKey is the header of it: draft-ietf-httpapi-idempotency-key-header.
	idempotencyKey = "Idempotency-Key"
)

// Submission is a task that a producer submits over HTTP.
type Submission struct {
	// Body is a task.assign; message_type and task_id may be missing.
	Body []byte
	// Key makes the task id, the same for the same key; empty: the body has one, or one is made up.
	Key string
	// TraceParent and TraceState are the headers of W3C trace context; empty: not given.
	TraceParent, TraceState string
}

// produces reports whether the request has the producers' token or the admin token.
func (a *api) produces(r *http.Request) bool {
	given, ok := credential.Bearer(r.Header.Values("Authorization"))
	// Both are compared, whatever the first says: neither is told by the time that it takes.
	producer, admin := a.producers.Is(given), a.permission.token.Is(given)
	return ok && (producer || admin)
}

// submitting reports whether the request may submit tasks, or answers it.
func (a *api) submitting(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !web.SameOrigin(w, r, a.permission.browsers):
		return false
	case a.produces(r):
		return true
	case !a.producers.Given() && !a.permission.token.Given():
		web.Problem(w, http.StatusForbidden, "Tasks over HTTP are off",
			"This coordinator has no producers' token. Put one of at least 32 characters into a file, name the file in "+
				"TASKBUS_PRODUCER_TOKEN_FILE (or put the token into TASKBUS_PRODUCER_TOKEN), start the coordinator again, and "+
				"send Authorization: Bearer with the token. Over RabbitMQ producers need none of it.")
		return false
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="taskbus producers"`)
	web.Problem(w, http.StatusUnauthorized, "Not authorised",
		"Send one header Authorization: Bearer with the producers' token (TASKBUS_PRODUCER_TOKEN), or the admin token; "+
			"both are read when the coordinator starts.")
	return false
}

// submit answers POST /tasks. Each coordinator does it, whether it leads or not: its broker session can publish.
func (a *api) submit(w http.ResponseWriter, r *http.Request) {
	if !a.submitting(w, r) || !web.Unasked(w, r) {
		return
	}
	key, ok := keyOf(w, r)
	if !ok {
		return
	}
	a.gates.submits.few(func(w http.ResponseWriter, r *http.Request) {
		body, ok := web.Whole(w, http.MaxBytesReader(w, r.Body, a.maxTask), "Body too large", "task", " (max_message_bytes).")
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
		defer cancel()
		id, err := a.src.SubmitTask(ctx, Submission{Body: body, Key: key,
			TraceParent: r.Header.Get(messages.HeaderTraceParent), TraceState: r.Header.Get(messages.HeaderTraceState)})
		submitted(w, id, err)
	})(w, r)
}

// keyOf is the request's Idempotency-Key, empty where it has none; false when it is none, and that is answered.
func keyOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	given := r.Header.Values(idempotencyKey)
	if len(given) == 0 {
		return "", true
	}
	good := len(given) == 1 && given[0] != "" && len(given[0]) <= maxKey
	for _, c := range []byte(given[0]) {
		good = good && c >= ' ' && c <= '~'
	}
	if !good {
		web.Problem(w, http.StatusBadRequest, "Bad Idempotency-Key",
			"Give one Idempotency-Key, of 1 to 255 printable ASCII characters.")
		return "", false
	}
	return given[0], true
}

// submitted answers what became of a submission.
func submitted(w http.ResponseWriter, id string, err error) {
	var bad *BadTask
	switch {
	case err == nil:
		w.Header().Set("Location", "/tasks/"+id)
		web.Answer(w, http.StatusAccepted, view.TaskSubmitted{TaskID: id})
	case errors.As(err, &bad) && bad.TooLarge:
		web.Problem(w, http.StatusRequestEntityTooLarge, "Body too large", messages.Clean(bad.Text, messages.MaxText))
	case errors.As(err, &bad):
		web.Problem(w, http.StatusBadRequest, "Not a task",
			"The body must be a task.assign message (message_type and task_id may be missing). "+
				messages.Clean(bad.Text, messages.MaxText))
	case errors.Is(err, ErrOtherTask):
		web.Problem(w, http.StatusConflict, "Another task",
			"There is a task "+id+" with other content already: the same task_id, or the same Idempotency-Key, stands for "+
				"the same body. GET /tasks/"+id+" says what became of it.")
	default:
		web.Problem(w, http.StatusServiceUnavailable, "Not confirmed",
			"RabbitMQ has not confirmed the task: "+messages.Clean(err.Error(), messages.MaxText)+
				". It may have it all the same; submit the same again with the same Idempotency-Key, or with task_id "+id+
				": it is done once.")
	}
}

// withOutput adds what the agent found out, as far as it is kept, for a request that may see it.
func (a *api) withOutput(t *view.Task, r *http.Request) {
	if t.CompletedAt.IsZero() || !a.produces(r) {
		return
	}
	o := a.src.TaskOutput(t.ID, t.Agent)
	if o == nil {
		return
	}
	t.Output, t.OutputRef = o.Value, (*view.OutputRef)(o.Ref)
}
