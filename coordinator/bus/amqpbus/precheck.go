package amqpbus

import (
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// What a message may look like. The client library answers a string that is too
// long by tearing its connection down, the broker answers the other faults by
// closing the channel; either would take everything in flight along.
const (
	shortString   = 255 // bytes of an AMQP short string
	frameMax      = 131072
	frameOverhead = 8
	maxBody       = 8 << 20
	// maxExpiration is the largest the broker takes: 2³²−1 ms, about 49 days.
	maxExpiration = (1<<32 - 1) * time.Millisecond
	// maxNesting of header tables and lists.
	maxNesting = 16
)

// encoder turns publications into the library's form, or says why it cannot.
type encoder struct {
	exchanges map[string]bool // that may be published to
	user      string          // whose connection it is; empty: unknown
	frame     int             // frame_max as agreed with the broker; 0: unlimited
}

func refuse(format string, args ...any) error {
	return &bus.EncodingError{Reason: fmt.Sprintf(format, args...)}
}

func (e *encoder) encode(p *bus.Publication) (amqp.Publishing, error) {
	none := amqp.Publishing{}
	if p.Exchange != "" && !e.exchanges[p.Exchange] {
		return none, refuse("exchange %.60q is not part of the topology", p.Exchange)
	}
	size, err := shortStrings(p)
	if err != nil {
		return none, err
	}
	if len(p.Body) > maxBody {
		return none, refuse("body of %d bytes is longer than %d", len(p.Body), maxBody)
	}
	if p.UserID != "" && p.UserID != e.user {
		return none, refuse("user_id differs from the user of the connection")
	}
	msg := amqp.Publishing{
		DeliveryMode: amqp.Persistent,
		ContentType:  p.ContentType, ContentEncoding: p.ContentEncoding, Type: p.Type,
		MessageId: p.MessageID, CorrelationId: p.CorrelationID, ReplyTo: p.ReplyTo,
		AppId: p.AppID, UserId: p.UserID, Timestamp: p.Timestamp, Body: p.Body,
	}
	if p.Expiration > 0 {
		if p.Expiration > maxExpiration {
			return none, refuse("expiration of %s is longer than %s", p.Expiration, maxExpiration)
		}
		msg.Expiration = strconv.FormatInt(max(1, p.Expiration.Milliseconds()), 10)
	}
	if len(p.Headers) > 0 {
		table, n, err := encodeTable(p.Headers, 0)
		if err != nil {
			return none, err
		}
		for _, key := range [...]string{"CC", "BCC"} {
			if err := checkRoutes(key, table[key]); err != nil {
				return none, err
			}
		}
		msg.Headers, size = table, size+n
	}
	if e.frame > 0 && size > e.frame-frameOverhead {
		return none, refuse("properties of %d bytes do not fit a frame of %d", size, e.frame)
	}
	return msg, nil
}

// shortStrings checks them and returns an upper bound for the size of the
// properties without headers.
func shortStrings(p *bus.Publication) (int, error) {
	size := 2 + 2 + 8 + 2 + 1 + 1 + 8 + 21 // class, weight, body size, flags, mode, priority, timestamp, expiration
	for _, f := range [...]struct{ name, value string }{
		{"message_id", p.MessageID}, {"correlation_id", p.CorrelationID}, {"type", p.Type},
		{"app_id", p.AppID}, {"user_id", p.UserID}, {"reply_to", p.ReplyTo},
		{"content_type", p.ContentType}, {"content_encoding", p.ContentEncoding},
		{"exchange", p.Exchange}, {"routing key", p.Key},
	} {
		if len(f.value) > shortString {
			return 0, refuse("%s of %d bytes is longer than %d", f.name, len(f.value), shortString)
		}
		size += 1 + len(f.value)
	}
	return size, nil
}

// checkRoutes: the broker takes these two headers for further routing keys.
func checkRoutes(key string, value any) error {
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	for _, v := range list {
		if _, isString := v.(string); !isString {
			ok = false
		}
	}
	if !ok {
		return refuse("header %s must be a list of strings", key)
	}
	return nil
}

// encodeTable returns the table in the library's types, with its encoded size.
// The map itself is used where it needs no conversion.
func encodeTable(m map[string]any, depth int) (amqp.Table, int, error) {
	if depth > maxNesting {
		return nil, 0, refuse("headers are nested deeper than %d", maxNesting)
	}
	table, copied := amqp.Table(m), false
	size := 4
	for key, value := range m {
		if len(key) > shortString {
			return nil, 0, refuse("header key of %d bytes is longer than %d", len(key), shortString)
		}
		field, n, err := encodeField(key, value, depth)
		if err != nil {
			return nil, 0, err
		}
		size += 1 + len(key) + n
		switch value.(type) {
		case map[string]any, []any:
			if !copied {
				table, copied = make(amqp.Table, len(m)), true
				for k, v := range m {
					table[k] = v
				}
			}
			table[key] = field
		}
	}
	return table, size, nil
}

func encodeField(key string, value any, depth int) (any, int, error) {
	switch v := value.(type) {
	case string:
		return value, 5 + len(v), nil
	case []byte:
		return value, 5 + len(v), nil
	case int64, time.Time, float64:
		return value, 9, nil
	case bool:
		return value, 2, nil
	case map[string]any:
		table, n, err := encodeTable(v, depth+1)
		return table, 1 + n, err
	case []any:
		if depth >= maxNesting {
			return nil, 0, refuse("headers are nested deeper than %d", maxNesting)
		}
		list, size := make([]any, len(v)), 5
		for i, item := range v {
			field, n, err := encodeField(key, item, depth+1)
			if err != nil {
				return nil, 0, err
			}
			list[i], size = field, size+n
		}
		return list, size, nil
	default:
		return nil, 0, refuse("header %.60q has a value of type %T", key, value)
	}
}

// decodeTable turns received headers into the types of the contract, in place:
// whole numbers become int64, other numbers float64, empty values are left out.
func decodeTable(table amqp.Table) map[string]any {
	if len(table) == 0 {
		return nil
	}
	for key, value := range table {
		switch v := value.(type) {
		case string, int64, bool, []byte, time.Time, float64:
		case nil:
			delete(table, key)
		default:
			table[key] = decodeField(v)
		}
	}
	return table
}

func decodeField(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		if decoded := decodeTable(v); decoded != nil {
			return decoded
		}
		return map[string]any{}
	case []any:
		for i, item := range v {
			v[i] = decodeField(item)
		}
		return v
	case int8:
		return int64(v)
	case byte:
		return int64(v)
	case int16:
		return int64(v)
	case uint16:
		return int64(v)
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	case float32:
		return float64(v)
	case amqp.Decimal:
		value := float64(v.Value)
		for range v.Scale {
			value /= 10
		}
		return value
	default:
		return v
	}
}
