package calls

import (
	"net/http"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/httpapi/internal/web"
)

// AuthCall is what the headers of GET /v1/quota/auth and /v1/quota/auth/settle say of a call, for what stands between
// a gateway and the coordinators and answers some of it by itself.
type AuthCall struct {
	ID, Agent, Group, Provider, Model, Operation string
	// Reserve: its end is told afterwards; else it is charged at once. TTL of it; 0: not told.
	Reserve bool
	TTL     time.Duration
	// Input and Output are its tokens, as far as they are told.
	Input, Output       int64
	HasInput, HasOutput bool
	// Unused: the provider has done nothing.
	Unused bool
}

// ReadAuth reads what GET /v1/quota/auth is asked; false: a coordinator says what is wrong with it.
func ReadAuth(header http.Header) (AuthCall, bool) {
	var said callRequest
	op, fault := readAuth(header, &said)
	c := authCallOf(header, &said)
	c.Reserve, c.TTL = op == coordinator.CallReserve, said.ttl
	return c, fault == "" && said.concerns()
}

// ReadAuthSettled reads what GET /v1/quota/auth/settle is told; false: likewise.
func ReadAuthSettled(header http.Header) (AuthCall, bool) {
	var said callRequest
	op, fault := readAuthSettled(header, &said)
	c := authCallOf(header, &said)
	c.Unused = op == coordinator.CallRelease
	return c, fault == ""
}

func authCallOf(header http.Header, said *callRequest) AuthCall {
	c := AuthCall{ID: said.id, Agent: said.agent, Group: said.group, Operation: said.operation}
	c.Provider, c.Model = said.usage.Provider, said.usage.Model
	h := headerReader{header: header}
	input, hasInput := h.tokens("Input")
	output, hasOutput := h.tokens("Output")
	c.Input, c.HasInput, c.Output, c.HasOutput = int64(input), hasInput, int64(output), hasOutput
	return c
}

// AnswerAuth answers either as a coordinator does whose engine says that.
func AnswerAuth(w http.ResponseWriter, id string, x coordinator.CallAnswer) {
	web.Guarded(w.Header())
	answerAsked(authWriter{w}, id, &coordinator.Call{}, &x, authAnswers{})
}
