package webhook

import (
	"encoding/json"
	"strings"
)

// Message is an event that is to be sent.
type Message struct {
	// ID of the event: letters, digits, - and _. It is the same from every coordinator.
	ID string
	// Subject is what the event is about. Events of one subject are sent one after another.
	Subject string
	// Body is the event in JSON, Text the same in a sentence for people.
	Body []byte
	Text string
}

// Format is what the receiver gets.
type Format int

// The formats.
const (
	Standard Format = iota // Message.Body
	Slack                  // {"text": Message.Text}, as Slack's incoming webhooks and similar ones want it
)

// inSlack are the characters that Slack would read as its markup.
var inSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (f Format) body(m *Message) ([]byte, error) {
	if f == Slack {
		return json.Marshal(map[string]string{"text": inSlack.Replace(m.Text)})
	}
	return m.Body, nil
}
