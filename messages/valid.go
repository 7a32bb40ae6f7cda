package messages

import (
	"strings"

	"taskbus/messages/internal/jsontext"
)

// The bounds of the schemas, in characters or items. A test holds them against
// the schema files.
const (
	maxID           = 128
	maxDispatchID   = 160
	maxName         = 128
	maxTraceID      = 255
	maxStrategy     = 64
	maxDescription  = 2048
	maxLabels       = 32
	maxLabelKey     = 64
	maxLabelValue   = 256
	maxRequired     = 64
	maxAgentIDs     = 128
	maxCapabilities = 256
	maxActiveIDs    = 10_000
	maxCount        = 1_000_000
	maxPriority     = 3
	maxTimeout      = 7 * 24 * 60 * 60 // seconds
	maxDuration     = 1e12             // milliseconds
	maxRetryAfter   = 24 * 60 * 60_000 // milliseconds
	maxAmount       = 1e15
	maxEstimate     = 1e9    // seconds
	maxBidWindow    = 60_000 // milliseconds
	maxClaim        = 10_000
	maxWait         = 60 // seconds
)

// The bounds of what an agent says of its work.
const (
	// MinRate and MaxRate bound a capacity that is known, in items a second. What is
	// slower does an item in thirty years.
	MinRate = 1e-9
	MaxRate = 1e9
	// MaxPending bounds the items that are not finished.
	MaxPending = 1_000_000_000
)

// ValidRate tells whether f may be a capacity: MinRate to MaxRate, or 0 for one that
// is not known.
func ValidRate(f float64) bool { return f == 0 || f >= MinRate && f <= MaxRate }

// ValidID tells whether s may be the id of a task or an agent: 1 to 128
// letters, digits and . _ : -, beginning with a letter or digit.
func ValidID(s string) bool { return validID(s, maxID) }

// ValidAgentID is ValidID without the reserved names, whose queues would
// collide with Taskbus's own.
func ValidAgentID(s string) bool { return ValidID(s) && !reservedAgentID(s) }

// ValidTraceID tells whether s may be a correlation id: 1 to 255 bytes of
// printable ASCII. (A longer one would make the AMQP client drop its connection.)
func ValidTraceID(s string) bool { return s != "" && len(s) <= maxTraceID && plain(s) }

func validID[S ~string | ~[]byte](s S, limit int) bool {
	if len(s) == 0 || len(s) > limit || !alphanumeric(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case alphanumeric(c), c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c-'0' <= 9 || c|0x20-'a' <= 'z'-'a'
}

func reservedAgentID(s string) bool {
	return s == "status" || strings.HasSuffix(s, ".control")
}

// validName: 1 to 128 characters, none of them a control character.
func validName(t jsontext.Text) bool { return len(t.Raw) > 0 && t.Fits(maxName) }

func validStrategy(b []byte) bool {
	if len(b) == 0 || len(b) > maxStrategy || b[0]-'a' > 'z'-'a' {
		return false
	}
	for _, c := range b[1:] {
		if c-'a' > 'z'-'a' && c-'0' > 9 && c != '_' {
			return false
		}
	}
	return true
}
