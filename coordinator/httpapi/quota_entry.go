package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"
)

// maxEntryDepth bounds how deep the entry of a group or agent may nest: it needs five levels.
const maxEntryDepth = 16

// maxEntryText bounds the entry itself, in bytes: fifty limits are not as long.
const maxEntryText = 8 << 10

// readEntry reads the entry of a group or agent, or answers the request. Equal entries give equal
// texts, however they are written. What may be in it the reader of quotas.yaml says.
func readEntry(w http.ResponseWriter, r *http.Request) (string, bool) {
	const want = `an object with the keys of groups[] or agents[] in quotas.yaml, such as {"weight": 2} or {"group_id": "team-a"}`
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "Body too large",
			fmt.Sprintf("The body has more than %d bytes; it must be %s.", tooLarge.Limit, want))
		return "", false
	case err != nil:
		problem(w, http.StatusBadRequest, "Body not readable", "The body did not arrive as a whole; send the request again.")
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // 0.15 must stay what it is
	if !utf8.Valid(body) || !json.Valid(body) || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		badBody(w, want+", as JSON in UTF-8")
		return "", false
	}
	value, fault := entryValue(d, 1)
	if fault != "" {
		badBody(w, want+"; "+fault)
		return "", false
	}
	if object, is := value.(map[string]any); is && len(object) == 0 {
		badBody(w,
			want+
				`; with nothing in it the entry would take a share from the others, so that it must say of what weight: {"weight": 1}`)
		return "", false
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		badBody(w, want)
		return "", false
	}
	if text.Len() > maxEntryText {
		badBody(w, fmt.Sprintf("%s, of at most %d bytes", want, maxEntryText))
		return "", false
	}
	return string(bytes.TrimSpace(text.Bytes())), true
}

// entryValue reads one value of valid JSON, and refuses a key that is given twice: it is not known which of
// the two is meant.
func entryValue(d *json.Decoder, depth int) (value any, fault string) {
	if depth > maxEntryDepth {
		return nil, "it nests too deep"
	}
	token, err := d.Token()
	if err != nil {
		return nil, "it cannot be read"
	}
	switch token {
	case json.Delim('{'):
		object := make(map[string]any)
		for d.More() {
			key, err := d.Token()
			name, _ := key.(string)
			if err != nil {
				return nil, "it cannot be read"
			}
			if _, twice := object[name]; twice {
				return nil, "a key is given twice: give it once"
			}
			if object[name], fault = entryValue(d, depth+1); fault != "" {
				return nil, fault
			}
		}
		_, _ = d.Token() // the end, which valid JSON has
		return object, ""
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, fault := entryValue(d, depth+1)
			if fault != "" {
				return nil, fault
			}
			list = append(list, item)
		}
		_, _ = d.Token()
		return list, ""
	default:
		return token, ""
	}
}
