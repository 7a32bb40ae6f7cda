package calls

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/messages"
)

// bytesPerToken is how many bytes of text a token is taken for, where a gateway knows the bytes
// alone. It is a guess: English is about 4, code and other scripts less, base64 more.
const bytesPerToken = 4

// quotaHeaders begins the names of all headers by which a gateway says something of a call.
const quotaHeaders = "X-Quota-"

// headerReader reads what is said in headers; fault is what is wrong with the first that is.
type headerReader struct {
	header http.Header
	fault  string
}

// text is the one value of a header; empty: it is not there. nginx sends no header whose value
// is empty, and others may, so that both mean the same.
func (h *headerReader) text(name string) string {
	values := h.header[name]
	if len(values) > 1 {
		h.wrong(name, "is there twice; send it once")
		return ""
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (h *headerReader) wrong(name, what string) {
	if h.fault == "" {
		h.fault = "the header " + name + " " + what
	}
}

// id is an id, or a word of the same form.
func (h *headerReader) id(name string) string {
	value := h.text(name)
	if value != "" && !messages.ValidID(value) {
		h.wrong(name, "must be 1 to 128 letters, digits and . _ : -, beginning with a letter or digit")
	}
	return value
}

// service is the name of a provider or model.
func (h *headerReader) service(name string) string {
	value := h.text(name)
	if !validService(value) {
		h.wrong(name, "must be 1 to 128 letters, digits and . _ : @ / + -")
	}
	return value
}

// amount is a whole number from 0 to most, in digits alone; false: the header is not there.
func (h *headerReader) amount(name string, most uint64) (float64, bool) {
	value := h.text(name)
	if value == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > most || value[0] == '+' {
		h.wrong(name, "must be a whole number from 0 to "+strconv.FormatUint(most, 10))
		return 0, false
	}
	return float64(n), true
}

// tokens are the tokens of a direction, "Input" or "Output"; or guessed from the bytes of it.
func (h *headerReader) tokens(direction string) (float64, bool) {
	n, told := h.amount(quotaHeaders+direction+"-Tokens", maxAmount)
	bytes, guessed := h.amount(quotaHeaders+direction+"-Bytes", maxAmount)
	if told || !guessed {
		return n, told
	}
	return math.Ceil(bytes / bytesPerToken), true
}

// only says what is wrong if there is a header of a call that is not known: one that is misspelt
// and passed over would look like an answer to it.
func (h *headerReader) only(known []string) {
	for name := range h.header {
		if strings.HasPrefix(name, quotaHeaders) && !slices.Contains(known, name) {
			h.wrong(messages.Clean(name, web.MaxFieldName), "is not known; known are "+web.Enumerate(known))
		}
	}
}

// The headers of a call, canonical as net/http keeps them.
var (
	authHeaders = []string{
		agentHeader, "X-Quota-Group", gateway.ProviderHeader, "X-Quota-Model", "X-Quota-Operation", "X-Quota-Input-Tokens",
		"X-Quota-Output-Tokens",
		"X-Quota-Input-Bytes", "X-Quota-Output-Bytes", reservationHeader, "X-Quota-Mode", "X-Quota-Ttl-Seconds",
	}
	settleHeaders = append(slices.Clone(authHeaders), upstreamStatus)
)

// Headers are all that may be said of a call in headers.
func Headers() []string { return slices.Clone(settleHeaders) }

// upstreamStatus is what the LLM's provider answered, as far as the gateway knows.
const upstreamStatus = "X-Quota-Upstream-Status"

// about reads what both questions have in common.
func (h *headerReader) about(said *callRequest) {
	said.id, said.agent, said.group = h.id(reservationHeader), h.id(agentHeader), h.id("X-Quota-Group")
	said.operation = h.id("X-Quota-Operation")
	said.usage.Provider, said.usage.Model = h.service(gateway.ProviderHeader), h.service("X-Quota-Model")
	said.priority = coordinator.PriorityNormal
}

// readAuth reads the question whether a call may be made.
func readAuth(header http.Header, said *callRequest) (op coordinator.CallOp, fault string) {
	h := headerReader{header: header}
	h.about(said)
	input, hasInput := h.tokens("Input")
	output, hasOutput := h.tokens("Output")
	said.usage.InputTokens, said.usage.OutputTokens, said.meant = input, output, exactlyIf(hasInput && hasOutput)
	if seconds, ok := h.amount("X-Quota-Ttl-Seconds", uint64(maxTTL/time.Second)); ok {
		said.ttl = time.Duration(seconds) * time.Second
	}
	switch h.text("X-Quota-Mode") {
	case "", "consume":
		op = coordinator.CallConsume
	case "reserve":
		// Its end may never be reported: it has been made all the same.
		op, said.seats, said.chargeUntold = coordinator.CallReserve, 1, true
	default:
		h.wrong("X-Quota-Mode", "must be consume or reserve")
	}
	h.only(authHeaders)
	return op, h.fault
}

// readAuthSettled reads what has become of a call. Of one that the provider has refused, or could not
// answer, nothing was used. What is not reported is charged as reserved: a forgotten header must not make
// calls free.
func readAuthSettled(header http.Header, said *callRequest) (op coordinator.CallOp, fault string) {
	h := headerReader{header: header}
	h.about(said)
	// They are those of the reservation, which named them, and they count.
	said.usage.Provider, said.usage.Model = "", ""
	input, hasInput := h.tokens("Input")
	output, hasOutput := h.tokens("Output")
	said.usage.InputTokens, said.usage.OutputTokens = input, output
	switch {
	case hasInput && hasOutput:
		said.meant = coordinator.UsageExact
	case hasOutput:
		said.meant = coordinator.UsageOutput
	case hasInput:
		said.meant = coordinator.UsageInput
	}
	if said.id == "" {
		h.wrong(reservationHeader, "is missing")
	}
	op = coordinator.CallSettle
	if failed(h.text(upstreamStatus)) {
		op = coordinator.CallRelease
	}
	h.only(settleHeaders)
	return op, h.fault
}

// failed reports whether a provider did nothing, by the status that it answered with: nginx lists
// those of all providers that it has tried, and the last one counts.
func failed(status string) bool {
	last := status[strings.LastIndexAny(status, " ,:")+1:]
	return len(last) == 3 && last[0] >= '4' && last[0] <= '5'
}
