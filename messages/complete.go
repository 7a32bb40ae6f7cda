package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Missing is a member that an object gets unless it has it: its name, and its value as JSON.
type Missing struct{ Name, Value string }

// Completed adds to an object the members that it lacks, before its own; the same object gets the same text. What is
// no JSON object stays as it is: the decoder says what is wrong with it. body is not changed.
func Completed(body []byte, members ...Missing) []byte {
	var seen map[string]json.RawMessage
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if json.Unmarshal(trimmed, &seen) != nil || !bytes.HasPrefix(trimmed, []byte("{")) {
		return body
	}
	whole := []byte("{")
	for _, m := range members {
		if _, given := seen[m.Name]; !given {
			whole = fmt.Appendf(whole, "%q:%s,", m.Name, m.Value)
		}
	}
	rest := bytes.TrimLeft(trimmed[1:], " \t\r\n")
	if bytes.HasPrefix(rest, []byte("}")) {
		whole = bytes.TrimSuffix(whole, []byte(","))
	}
	return append(whole, rest...)
}
