package quota

import (
	"bytes"
	"encoding/json"
)

// maxTokens bounds what is believed of a number of tokens, or requests, and maxCost of US dollars; the
// coordinator refuses more.
const (
	maxTokens = 1_000_000_000_000
	maxCost   = 1_000_000
)

// tokens are the usage fields of OpenAI (chat completions and embeddings; responses) and Anthropic.
type tokens struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	// Anthropic does not count these in input_tokens.
	CacheWritten int64 `json:"cache_creation_input_tokens"`
	CacheRead    int64 `json:"cache_read_input_tokens"`
}

// wrapped is an object that has a usage.
type wrapped struct {
	Usage *tokens `json:"usage"`
}

// spoken is the part of a provider's answer, or of an event of it, that says what was used.
type spoken struct {
	wrapped
	Message  *wrapped `json:"message"`  // Anthropic: message_start
	Response *wrapped `json:"response"` // OpenAI responses: response.completed
	Gemini   *struct {
		Prompt    *int64 `json:"promptTokenCount"`
		Tools     int64  `json:"toolUsePromptTokenCount"`
		Candidate int64  `json:"candidatesTokenCount"`
		Thoughts  int64  `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

// known is what is known of a call's usage so far.
type known struct {
	in, out       int64
	hasIn, hasOut bool
}

// hear takes over what an answer, or an event, says. Later words go before earlier ones: the
// numbers of streams are sums. What is not understood changes nothing.
func (k *known) hear(text []byte) {
	var s spoken
	// A field of another type than expected leaves the others as they are.
	_ = json.Unmarshal(text, &s)
	for _, w := range []*wrapped{&s.wrapped, s.Message, s.Response} {
		if w != nil && w.Usage != nil {
			k.take(w.Usage)
		}
	}
	if g := s.Gemini; g != nil && g.Prompt != nil {
		k.in, k.hasIn = bounded(*g.Prompt+bounded(g.Tools)), true
		k.out, k.hasOut = bounded(bounded(g.Candidate)+bounded(g.Thoughts)), true
	}
}

func (k *known) take(t *tokens) {
	in, out := t.Input, t.Output
	if in == nil {
		in = t.Prompt
	}
	if out == nil {
		out = t.Completion
	}
	if in != nil {
		k.in, k.hasIn = bounded(bounded(*in)+bounded(t.CacheWritten)+bounded(t.CacheRead)), true
	}
	switch {
	case out != nil:
		k.out, k.hasOut = bounded(*out), true
	case t.Prompt != nil: // embeddings have none
		k.out, k.hasOut = 0, true
	}
}

// hearAll takes over a whole JSON answer: an object, or Gemini's list of them.
func (k *known) hearAll(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '[' {
		k.hear(text)
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return
	}
	for _, one := range list {
		k.hear(one)
	}
}

func bounded(n int64) int64 { return min(max(n, 0), maxTokens) }

// listener finds the usage in a provider's answer as it passes, and holds little of it.
type listener interface {
	hear(part []byte)
	// usage is what was used as far as is known; nil: it is not. whole: the answer has come to its
	// end.
	usage(whole bool) *Usage
}

// maxJSON bounds what is held of a JSON answer, and maxLine of a line of an event stream.
const (
	maxJSON = 1 << 20
	maxLine = 64 << 10
)

// document listens to one JSON answer.
type document struct {
	held []byte
	over bool // it is longer than what is held
}

func (d *document) hear(part []byte) {
	if d.over || len(d.held)+len(part) > maxJSON {
		d.over, d.held = true, nil
		return
	}
	d.held = append(d.held, part...)
}

func (d *document) usage(bool) *Usage {
	var k known
	if d.over || !json.Valid(d.held) {
		return nil
	}
	k.hearAll(d.held)
	if !k.hasIn || !k.hasOut {
		return nil
	}
	return &Usage{Requests: 1, InputTokens: k.in, OutputTokens: k.out}
}

// events listens to a stream of server-sent events, line by line.
type events struct {
	line   []byte
	over   bool // the line is longer than what is held
	missed bool // such a line came after the last usage that is known
	known  known
	data   int64 // lines of data so far
}

func (e *events) hear(part []byte) {
	for len(part) > 0 {
		i := bytes.IndexAny(part, "\r\n")
		end := i
		if i < 0 {
			end = len(part)
		}
		if e.over = e.over || len(e.line)+end > maxLine; !e.over {
			e.line = append(e.line, part[:end]...)
		}
		if i < 0 {
			return
		}
		e.lineEnds()
		part = part[i+1:]
	}
}

func (e *events) lineEnds() {
	data, is := bytes.CutPrefix(e.line, []byte("data:"))
	switch {
	case e.over:
		e.missed = true
		e.data++
	case is:
		e.data++
		if bytes.Contains(data, []byte(`"usage`)) {
			before := e.known
			if e.known.hear(data); e.known != before {
				e.missed = false
			}
		}
	}
	e.line, e.over = e.line[:0], false
}

// usage of a stream that was broken off is what the provider has said so far, and as many output
// tokens as it has sent events, if it has not said more: an event has one at least, but for a few.
func (e *events) usage(whole bool) *Usage {
	if len(e.line) > 0 || e.over {
		e.lineEnds() // a stream may end without a line end
	}
	k := e.known
	if e.missed || !k.hasIn || whole && !k.hasOut {
		return nil
	}
	if !whole {
		k.out = max(k.out, e.data)
	}
	return &Usage{Requests: 1, InputTokens: k.in, OutputTokens: k.out}
}
