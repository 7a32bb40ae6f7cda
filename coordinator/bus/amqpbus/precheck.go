package amqpbus

import (
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// encode turns a publication into the library's form, or says why it cannot.
func encode(e *bus.Edge, p *bus.Publication) (amqp.Publishing, error) {
	if err := e.Check(p); err != nil {
		return amqp.Publishing{}, err
	}
	msg := amqp.Publishing{
		DeliveryMode: amqp.Persistent,
		ContentType:  p.ContentType, ContentEncoding: p.ContentEncoding, Type: p.Type,
		MessageId: p.MessageID, CorrelationId: p.CorrelationID, ReplyTo: p.ReplyTo,
		AppId: p.AppID, UserId: p.UserID, Timestamp: p.Timestamp, Body: p.Body,
	}
	if p.Expiration > 0 {
		msg.Expiration = strconv.FormatInt(max(1, p.Expiration.Milliseconds()), 10)
	}
	if len(p.Headers) > 0 {
		msg.Headers = encodeTable(p.Headers)
	}
	return msg, nil
}

// encodeTable returns a table that was checked in the library's types. The map itself is used
// where it needs no conversion.
func encodeTable(m map[string]any) amqp.Table {
	table, copied := amqp.Table(m), false
	for key, value := range m {
		switch value.(type) {
		case map[string]any, []any:
			if !copied {
				table, copied = make(amqp.Table, len(m)), true
				for k, v := range m {
					table[k] = v
				}
			}
			table[key] = encodeField(value)
		}
	}
	return table
}

func encodeField(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return encodeTable(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = encodeField(item)
		}
		return list
	default:
		return value
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
