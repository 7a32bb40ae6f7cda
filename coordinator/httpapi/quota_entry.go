package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"taskbus/coordinator/httpapi/internal/web"
)

// maxEntryText bounds the entry itself, in bytes: fifty limits are not as long.
const maxEntryText = 8 << 10

// readEntry reads the entry of a group or agent, or answers the request. Equal entries give equal
// texts, however they are written. What may be in it the reader of quotas.yaml says.
func readEntry(w http.ResponseWriter, r *http.Request) (string, bool) {
	const want = `an object with the keys of groups[] or agents[] in quotas.yaml, such as {"weight": 2} or ` +
		`{"group_id": "team-a"}`
	body, ok := web.Whole(w, r.Body, "Body too large", "body", "; it must be "+want+".")
	if !ok {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // 0.15 must stay what it is
	if !utf8.Valid(body) || !json.Valid(body) || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		web.BadBody(w, want+", as JSON in UTF-8")
		return "", false
	}
	value, fault := web.Value(d, 1)
	if fault != "" {
		web.BadBody(w, want+"; "+fault)
		return "", false
	}
	if object, is := value.(map[string]any); is && len(object) == 0 {
		web.BadBody(w,
			want+
				`; with nothing in it the entry would take a share from the others, so that it must say of what weight: `+
				`{"weight": 1}`)
		return "", false
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		web.BadBody(w, want)
		return "", false
	}
	if text.Len() > maxEntryText {
		web.BadBody(w, fmt.Sprintf("%s, of at most %d bytes", want, maxEntryText))
		return "", false
	}
	return string(bytes.TrimSpace(text.Bytes())), true
}
