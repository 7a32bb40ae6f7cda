package calls

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"taskbus/coordinator/httpapi/internal/web"
)

// appendTo writes the answer as encoding/json would: it is given thousands of times a second, and
// most of it are names that need no escape. A test holds the two against each other.
func (a *CallAnswer) appendTo(b []byte) []byte {
	b = append(b, '{')
	if a.ReservationID != "" {
		b = append(appendText(append(b, `"reservation_id":`...), a.ReservationID), ',')
	}
	b = append(b, `"granted":`...)
	b = strconv.AppendBool(b, a.Granted)
	b = appendTruth(b, `,"standing":true`, a.Standing)
	b = appendTruth(b, `,"unconfirmed":true`, a.Unconfirmed)
	b = appendMember(b, `,"agent_id":`, a.Agent)
	b = appendMember(b, `,"group_id":`, a.Group)
	b = appendMember(b, `,"provider":`, a.Provider)
	b = appendMember(b, `,"model":`, a.Model)
	b = appendMember(b, `,"pool":`, a.Pool)
	if a.Reserved != nil {
		b = a.Reserved.appendTo(append(b, `,"reserved":`...))
	}
	if a.Charged != nil {
		b = a.Charged.appendTo(append(b, `,"charged":`...))
	}
	if !a.ExpiresAt.IsZero() {
		b = append(b, `,"expires_at":"`...)
		b = append(a.ExpiresAt.AppendFormat(b, time.RFC3339Nano), '"')
	}
	b = appendTruth(b, `,"borrowed":true`, a.Borrowed)
	if len(a.Routes) > 0 {
		routes, err := json.Marshal(a.Routes)
		if err != nil { // scores are finite
			routes = []byte("[]")
		}
		b = append(append(b, `,"routes":`...), routes...)
	}
	return append(b, '}')
}

func (a *CallAmounts) appendTo(b []byte) []byte {
	whole := func(key string, v int64) {
		b = strconv.AppendInt(append(b, key...), v, 10)
	}
	whole(`{"requests":`, a.Requests)
	whole(`,"input_tokens":`, a.InputTokens)
	whole(`,"output_tokens":`, a.OutputTokens)
	whole(`,"total_tokens":`, a.TotalTokens)
	cost, err := json.Marshal(a.CostUSD)
	if a.CostUSD == 0 || err != nil {
		cost = []byte("0")
	}
	b = append(append(b, `,"cost_usd":`...), cost...)
	if a.Concurrency != 0 {
		whole(`,"concurrency":`, a.Concurrency)
	}
	return append(b, '}')
}

func appendTruth(b []byte, member string, is bool) []byte {
	if is {
		return append(b, member...)
	}
	return b
}

func appendMember(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, key...), text)
}

func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil { // a string can always be written
				quoted = []byte(`""`)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// answerCall writes the answer about a call.
func answerCall(w http.ResponseWriter, status int, a *CallAnswer) {
	web.Send(w, status, "application/json", a.appendTo(make([]byte, 0, 512)))
}
