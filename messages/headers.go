package messages

// The headers of messages beside those of a dispatch that comes back.
const (
	HeaderMaybeDuplicate = "x-taskbus-maybe-duplicate"
	HeaderAcceptedAt     = "x-taskbus-accepted-at" // when a task in a lane was accepted (RFC 3339)

	// Of a message in task.dead.
	HeaderReason      = "x-taskbus-reason"
	HeaderReasonCode  = "x-taskbus-reason-code"
	HeaderSourceQueue = "x-taskbus-source-queue"

	// W3C Trace Context.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"

	// Set by the broker.
	HeaderDeathReason = "x-first-death-reason"
	HeaderDeathQueue  = "x-first-death-queue"
)

// TextHeader reads a header that should be text; any other type is as good as
// absent.
func TextHeader(headers map[string]any, name string) string {
	switch v := headers[name].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}
