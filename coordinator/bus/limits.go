package bus

import (
	"fmt"
	"time"
)

// What a message may look like. A broker answers what AMQP cannot carry by closing a channel or
// the connection, which takes everything in flight along, so that a transport refuses it before.
const (
	// MaxBody is the largest body in bytes.
	MaxBody = 8 << 20
	// ShortString is the longest short string of AMQP in bytes.
	ShortString = 255
	// MaxExpiration is the largest the broker takes: 2³²−1 ms, about 49 days.
	MaxExpiration = (1<<32 - 1) * time.Millisecond
	// FrameMax is the size of a frame as it is asked for, in bytes.
	FrameMax = 131072

	frameOverhead = 8
	maxNesting    = 16 // of header tables and lists
)

// Edge is what a session refuses before it is sent; every transport uses it.
type Edge struct {
	Exchanges map[string]bool // that may be published to
	User      string          // whose connection it is; empty: unknown
	AnyUser   bool            // the session stands for the connections of many
	Frame     int             // frame_max as agreed with the broker; 0: unlimited
}

// NewEdge is the edge of a session with that topology.
func NewEdge(t *Topology, user string, frame int) Edge {
	e := Edge{Exchanges: make(map[string]bool), User: user, Frame: frame}
	for _, x := range t.Exchanges {
		e.Exchanges[x.Name] = true
	}
	return e
}

// Check returns an *EncodingError for a publication that can never be sent. It names the field
// and never shows its value.
func (e *Edge) Check(p *Publication) error {
	if p.Exchange != "" && len(p.Exchange) <= ShortString && !e.Exchanges[p.Exchange] {
		return refuse("exchange %.60q is not part of the topology", p.Exchange)
	}
	size, err := shortStrings(p)
	if err != nil {
		return err
	}
	if len(p.Body) > MaxBody {
		return refuse("body of %d bytes is longer than %d", len(p.Body), MaxBody)
	}
	if p.UserID != "" && p.UserID != e.User && !e.AnyUser {
		return refuse("user_id differs from the user of the connection")
	}
	if p.Expiration > MaxExpiration {
		return refuse("expiration of %s is longer than %s", p.Expiration, MaxExpiration)
	}
	if len(p.Headers) > 0 {
		n, err := tableSize(p.Headers, 0)
		if err != nil {
			return err
		}
		for _, key := range [...]string{"CC", "BCC"} {
			if err := checkRoutes(key, p.Headers[key]); err != nil {
				return err
			}
		}
		size += n
	}
	if e.Frame > 0 && size > e.Frame-frameOverhead {
		return refuse("properties of %d bytes do not fit a frame of %d", size, e.Frame)
	}
	return nil
}

func refuse(format string, args ...any) error {
	return &EncodingError{Reason: fmt.Sprintf(format, args...)}
}

// shortStrings checks them and returns an upper bound for the size of the
// properties without headers.
func shortStrings(p *Publication) (int, error) {
	size := 2 + 2 + 8 + 2 + 1 + 1 + 8 + 21 // class, weight, body size, flags, mode, priority, timestamp, expiration
	for _, f := range [...]struct{ name, value string }{
		{"message_id", p.MessageID}, {"correlation_id", p.CorrelationID}, {"type", p.Type},
		{"app_id", p.AppID}, {"user_id", p.UserID}, {"reply_to", p.ReplyTo},
		{"content_type", p.ContentType}, {"content_encoding", p.ContentEncoding},
		{"exchange", p.Exchange}, {"routing key", p.Key},
	} {
		if len(f.value) > ShortString {
			return 0, refuse("%s of %d bytes is longer than %d", f.name, len(f.value), ShortString)
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

// tableSize checks a table and returns its encoded size.
func tableSize(m map[string]any, depth int) (int, error) {
	if depth > maxNesting {
		return 0, refuse("headers are nested deeper than %d", maxNesting)
	}
	size := 4
	for key, value := range m {
		if len(key) > ShortString {
			return 0, refuse("header key of %d bytes is longer than %d", len(key), ShortString)
		}
		n, err := fieldSize(key, value, depth)
		if err != nil {
			return 0, err
		}
		size += 1 + len(key) + n
	}
	return size, nil
}

func fieldSize(key string, value any, depth int) (int, error) {
	switch v := value.(type) {
	case string:
		return 5 + len(v), nil
	case []byte:
		return 5 + len(v), nil
	case int64, time.Time, float64:
		return 9, nil
	case bool:
		return 2, nil
	case map[string]any:
		n, err := tableSize(v, depth+1)
		return 1 + n, err
	case []any:
		if depth >= maxNesting {
			return 0, refuse("headers are nested deeper than %d", maxNesting)
		}
		size := 5
		for _, item := range v {
			n, err := fieldSize(key, item, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	default:
		return 0, refuse("header %.60q has a value of type %T", key, value)
	}
}
