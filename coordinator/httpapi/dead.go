package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

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
	byLeader := a.byLeader(read)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.permission.granted(w, r) {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, maxChangeBody)
		byLeader(w, r.WithContext(ctx))
	})
}

// dead answers GET /dead.
func (a *api) dead(w http.ResponseWriter, r *http.Request) {
	filter, err := parseDeadFilter(r.URL.RawQuery)
	if err != nil {
		badQuery(w, err)
		return
	}
	l, err := a.src.DeadLetters(r.Context(), filter)
	if err != nil {
		notAvailable(w, "Not read", "Reading task.dead", err)
		return
	}
	l.Messages = present(l.Messages)
	answer(w, http.StatusOK, l)
}

func parseDeadFilter(query string) (view.DeadFilter, error) {
	f := view.DeadFilter{Limit: DefaultDeadLimit}
	given, err := parameters(query, "reason", "type", "id", "limit")
	if err != nil {
		return f, err
	}
	f.Reason, f.Type, f.ID = given["reason"], given["type"], given["id"]
	if limit := given["limit"]; limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > MaxDeadLimit {
			return f, fmt.Errorf("limit must be a whole number from 1 to %d", MaxDeadLimit)
		}
		f.Limit = n
	}
	return f, nil
}

// deadOne answers GET /dead/{id}.
func (a *api) deadOne(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("id")
	given, err := parameters(r.URL.RawQuery, "payload")
	switch payload := given["payload"]; {
	case err != nil:
	case !ValidDeadKey(key):
		err = errors.New("the key of a dead message is 16 hexadecimal digits; GET /dead lists them, also by task id (?id=)")
	case payload != "" && payload != "true" && payload != "false":
		err = errors.New("payload must be true or false")
	}
	if err != nil {
		badQuery(w, err)
		return
	}
	m, found, err := a.src.DeadLetter(r.Context(), key, given["payload"] == "true")
	switch {
	case err != nil:
		notAvailable(w, "Not read", "Reading task.dead", err)
	case !found:
		problem(w, http.StatusNotFound, "Unknown message", "No message of the key "+key+
			" is in task.dead. GET /dead lists those that are.")
	default:
		answer(w, http.StatusOK, m)
	}
}

// deadOrder answers POST /dead/resend and /dead/drop.
func (a *api) deadOrder(act func(src Source, ctx context.Context, keys []string) (view.DeadDone, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var keys []string
		const want = `such as {"keys": ["3f2a09c1d4e5b678"]}; GET /dead lists the keys`
		if !unasked(w, r) || !readBody(w, r, want, keysMember("keys", &keys)) {
			return
		}
		if len(keys) == 0 {
			badBody(w, want)
			return
		}
		done, err := act(a.src, r.Context(), keys)
		if err != nil {
			notDone(w, err)
			return
		}
		done.Done, done.Kept = present(done.Done), present(done.Kept)
		answer(w, http.StatusOK, done)
	}
}

// keysMember is a list of keys of dead messages, each counted once.
func keysMember(name string, into *[]string) member {
	must := fmt.Sprintf(": it must be a list of 1 to %d keys, of 16 hexadecimal digits each", MaxDeadKeys)
	return member{name, func(value json.RawMessage) string {
		if kindOf(value) != "a list" {
			return "is " + kindOf(value) + must
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
