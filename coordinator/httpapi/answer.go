package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"taskbus/coordinator/gateway"
)

// retryAfter is the header of the seconds after which it is of use to ask again.
const retryAfter = "Retry-After"

// answer writes v as JSON. It is encoded before anything is sent: a value that
// cannot be encoded becomes an honest 500, not half an answer.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		problem(w, http.StatusInternalServerError, "Answer cannot be encoded",
			"Encoding the answer: "+err.Error()+". This is a fault of Taskbus; please report it.")
		return
	}
	send(w, status, "application/json", body)
}

func problem(w http.ResponseWriter, status int, title, detail string) {
	body, err := json.Marshal(gateway.Problem{Title: title, Status: status, Detail: detail})
	if err != nil { // three plain fields: cannot happen, and must not be silent if it does
		http.Error(w, title, status)
		return
	}
	send(w, status, "application/problem+json", body)
}

// send is the way of every answer with a body. One that is to be asked for again says when, at once where
// it has not said so itself.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	body = append(body, '\n')
	if again := w.Header().Get(retryAfter) == ""; again &&
		(status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		w.Header().Set(retryAfter, "1")
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A reader that has gone away is no fault of ours.
	_, _ = w.Write(body)
}
