package membus

import (
	"fmt"
	"time"

	"taskbus/coordinator/bus"
)

// maxShortString is the length in bytes of an AMQP short string.
const maxShortString = 255

// checkEncodable returns a *bus.EncodingError for what AMQP cannot carry. It
// names the field and never shows its value.
func checkEncodable(p bus.Publication) error {
	for _, field := range []struct{ name, value string }{
		{"exchange", p.Exchange}, {"routing key", p.Key},
		{"content type", p.ContentType}, {"content encoding", p.ContentEncoding},
		{"type", p.Type}, {"message id", p.MessageID}, {"correlation id", p.CorrelationID},
		{"reply-to", p.ReplyTo}, {"app id", p.AppID}, {"user id", p.UserID},
	} {
		if len(field.value) > maxShortString {
			return tooLong(field.name, field.value)
		}
	}
	return checkTable(p.Headers)
}

func checkTable(table map[string]any) error {
	for name, value := range table {
		if len(name) > maxShortString {
			return tooLong("name of a header", name)
		}
		if err := checkValue(name, value); err != nil {
			return err
		}
	}
	return nil
}

func checkValue(header string, value any) error {
	switch v := value.(type) {
	case string, int64, bool, []byte, time.Time:
		return nil
	case []any:
		for _, element := range v {
			if err := checkValue(header, element); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		return checkTable(v)
	default:
		return &bus.EncodingError{Reason: fmt.Sprintf("header %q holds a %T, which has no place in AMQP", header, value)}
	}
}

func tooLong(field, value string) error {
	return &bus.EncodingError{Reason: fmt.Sprintf("the %s has %d bytes, at most %d can be sent", field, len(value), maxShortString)}
}
