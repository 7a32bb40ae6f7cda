package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// The messages in task.dead: what could not be read, what kept failing, and what the broker gave up.

// The limits of /dead.
const (
	DefaultDeadLimit = 50
	MaxDeadLimit     = 1000
	// MaxDeadKeys bounds one order: as many keys as its body holds.
	MaxDeadKeys = 1000
)

// ValidDeadKey reports whether s may be the key of a dead message.
func ValidDeadKey(s string) bool {
	return len(s) == 16 && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c-'0' > 9 && c-'a' > 'f'-'a' })
}

// permitted is an endpoint that reads what only the holder of the admin token may see, from the leader.
func (a *api) permitted(read http.HandlerFunc) http.Handler {
	return a.granted(a.byLeader(read))
}

// dead answers GET /dead.
func (a *api) dead(w http.ResponseWriter, r *http.Request) {
	filter, err := parseDeadFilter(r.URL.RawQuery)
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	l, err := a.src.DeadLetters(r.Context(), filter)
	if err != nil {
		web.NotAvailable(w, "Not read", "Reading task.dead", err)
		return
	}
	l.Messages = present(l.Messages)
	web.Answer(w, http.StatusOK, l)
}

func parseDeadFilter(query string) (view.DeadFilter, error) {
	f := view.DeadFilter{}
	given, err := web.Parameters(query, "reason", "type", "id", "limit")
	if err != nil {
		return f, err
	}
	f.Reason, f.Type, f.ID = given["reason"], given["type"], given["id"]
	f.Limit, err = web.Limit(given["limit"], given["limit"] != "", DefaultDeadLimit, MaxDeadLimit)
	return f, err
}

// deadOne answers GET /dead/{id}.
func (a *api) deadOne(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("id")
	given, err := web.Parameters(r.URL.RawQuery, "payload")
	switch payload := given["payload"]; {
	case err != nil:
	case !ValidDeadKey(key):
		err = errors.New("the key of a dead message is 16 hexadecimal digits; GET /dead lists them, also by task id (?id=)")
	case payload != "" && payload != "true" && payload != "false":
		err = errors.New("payload must be true or false")
	}
	if err != nil {
		web.BadQuery(w, err)
		return
	}
	m, found, err := a.src.DeadLetter(r.Context(), key, given["payload"] == "true")
	switch {
	case err != nil:
		web.NotAvailable(w, "Not read", "Reading task.dead", err)
	case !found:
		web.Problem(w, http.StatusNotFound, "Unknown message", "No message of the key "+key+
			" is in task.dead. GET /dead lists those that are.")
	default:
		web.Answer(w, http.StatusOK, m)
	}
}

// deadOrder answers POST /dead/resend and /dead/drop.
func (a *api) deadOrder(act func(src Source, ctx context.Context, keys []string) (view.DeadDone,
	error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var keys []string
		const want = `such as {"keys": ["3f2a09c1d4e5b678"]}; GET /dead lists the keys`
		if !web.Unasked(w, r) || !web.ReadBody(w, r, want, keysMember("keys", &keys)) {
			return
		}
		if len(keys) == 0 {
			web.BadBody(w, want)
			return
		}
		done, err := act(a.src, r.Context(), keys)
		if err != nil {
			web.NotDone(w, err)
			return
		}
		done.Done, done.Kept = present(done.Done), present(done.Kept)
		web.Answer(w, http.StatusOK, done)
	}
}

// keysMember is a list of keys of dead messages, each counted once.
func keysMember(name string, into *[]string) web.Member {
	must := fmt.Sprintf(": it must be a list of 1 to %d keys, of 16 hexadecimal digits each", MaxDeadKeys)
	return web.Member{Name: name, Read: func(value json.RawMessage) string {
		if web.Kind(value) != "a list" {
			return "is " + web.Kind(value) + must
		}
		var keys []string
		if err := json.Unmarshal(value, &keys); err != nil || len(keys) == 0 || len(keys) > MaxDeadKeys ||
			slices.ContainsFunc(keys, func(k string) bool { return !ValidDeadKey(k) }) {
			return "is not valid" + must
		}
		slices.Sort(keys)
		*into = slices.Compact(keys)
		return ""
	}}
}

// CleanDead makes what a message says of itself fit for an answer, in place.
func CleanDead(m *view.DeadMessage) {
	for _, s := range []*string{&m.ReasonCode, &m.SourceQueue, &m.MessageType, &m.TaskID, &m.TaskType, &m.CorrelationID,
		&m.MessageID, &m.AppID, &m.ReplyTo} {
		*s = messages.Clean(*s, maxControlText)
	}
	m.Reason = messages.Clean(m.Reason, messages.MaxText)
}
