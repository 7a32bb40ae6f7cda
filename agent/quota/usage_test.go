package quota

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What providers say of usage, as they say it: numbers as in their documentation.
var answers = map[string]struct {
	stream bool
	text   string
	whole  *Usage // at its end
	cut    *Usage // closed before the last event
}{
	"OpenAI chat": {
		text: `{"id":"x","choices":[{"message":{"role":"assistant","content":"{\"usage\":{\"prompt_tokens\":9}}"}}],
		"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":4}}}`,
		whole: sum(19, 10)},
	"OpenAI embeddings": {text: `{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}`,
		whole: sum(8, 0)},
	"OpenAI responses": {text: `{"object":"response","usage":{"input_tokens":36,"output_tokens":87,"total_tokens":123}}`,
		whole: sum(36, 87)},
	"Anthropic": {
		text: `{"type":"message","message":"no object","usage":{"input_tokens":20,"cache_creation_input_tokens":5,` +
			`"cache_read_input_tokens":100,"output_tokens":30}}`,
		whole: sum(125, 30)},
	"Gemini": {
		text: `{"candidates":[],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":10,"thoughtsTokenCount":7,` +
			`"totalTokenCount":21}}`, whole: sum(4, 17)},
	"Gemini, a list": {
		text: `[{"usageMetadata":{"promptTokenCount":4}},{"usageMetadata":{"promptTokenCount":4,` +
			`"candidatesTokenCount":12}}]`,
		whole: sum(4, 12)},
	"nothing":         {text: `{"choices":[]}`},
	"half an answer":  {text: `{"usage":{"prompt_tokens":19,"completion_tokens":10}`},
	"of another type": {text: `{"usage":"much"}`},
	"less than nothing": {text: `{"usage":{"prompt_tokens":-5,"completion_tokens":9223372036854775807}}`,
		whole: sum(0, maxTokens)},
	"OpenAI, no wish": {stream: true, text: lines(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`, `[DONE]`)},
	"OpenAI chat stream": {stream: true, text: lines(`{"choices":[{"delta":{"content":"a"}}],"usage":null}`,
		`{"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10}}`, `[DONE]`), whole: sum(19, 10)},
	"OpenAI responses stream": {stream: true, text: lines(`{"type":"response.output_text.delta","delta":"a"}`,
		`{"type":"response.completed","response":{"usage":{"input_tokens":37,"output_tokens":11}}}`), whole: sum(37, 11)},
	"Anthropic stream": {stream: true,
		text: lines(`{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}`,
			`{"type":"content_block_delta","delta":{"text":"Hello"}}`, `{"type":"content_block_delta","delta":{"text":"!"}}`,
			`{"type":"message_delta","delta":{},"usage":{"output_tokens":15}}`), whole: sum(25, 15), cut: sum(25, 3)},
	"Gemini stream": {stream: true, text: lines(`{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":6}}`,
		`{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":12}}`), whole: sum(4, 12), cut: sum(4, 6)},
	"a line too long at the end": {stream: true,
		text: lines(`{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":6}}`,
			`{"pad":"`+strings.Repeat("x", maxLine)+`","usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":12}}`),
		cut: sum(4, 6)},
	"a line too long before": {stream: true, text: lines(`{"pad":"`+strings.Repeat("x", maxLine)+`"}`,
		`{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":12}}`), whole: sum(4, 12)},
}

func sum(in, out int64) *Usage { return &Usage{Requests: 1, InputTokens: in, OutputTokens: out} }

func lines(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "event: e\r\ndata: %s\n\n", d)
	}
	return b.String()
}

func listenerOf(stream bool) listener {
	if stream {
		return &events{}
	}
	return &document{}
}

func equal(a, b *Usage) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func TestUsageOfAnswers(t *testing.T) {
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			l := listenerOf(c.stream)
			l.hear([]byte(c.text))
			if u := l.usage(true); !equal(u, c.whole) {
				t.Errorf("%+v, want %+v", u, c.whole)
			}
			if !c.stream {
				return
			}
			l = listenerOf(true)
			l.hear([]byte(c.text[:strings.LastIndex(c.text, "event: ")]))
			if u := l.usage(false); !equal(u, c.cut) && name != "OpenAI chat stream" {
				t.Errorf("broken off: %+v, want %+v", u, c.cut)
			}
		})
	}
}

// However an answer is cut into pieces on its way, the same is heard of it, and no more of it is
// held than its bound.
func TestPiecesOfAnswersDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names()).Draw(t, "answer")
		c := answers[name]
		l := listenerOf(c.stream)
		for rest := c.text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 1+len(c.text)/4)).Draw(t, "bytes")
			l.hear([]byte(rest[:n]))
			rest = rest[n:]
			if e, is := l.(*events); is && len(e.line) > maxLine {
				t.Fatalf("%d bytes of a line held", len(e.line))
			}
		}
		if u := l.usage(true); !equal(u, c.whole) {
			t.Errorf("%+v, want %+v", u, c.whole)
		}
	})
}

func names() (all []string) {
	for name := range answers {
		all = append(all, name)
	}
	return all
}

// Of a JSON answer that is longer than 1 MiB nothing is held, and nothing is known.
func TestLongDocument(t *testing.T) {
	var d document
	d.hear([]byte(`{"pad":"`))
	for range maxJSON / 1024 {
		d.hear(make([]byte, 1024))
		if len(d.held) > maxJSON {
			t.Fatalf("%d bytes held", len(d.held))
		}
	}
	d.hear([]byte(`","usage":{"prompt_tokens":1,"completion_tokens":1}}`))
	if u := d.usage(true); u != nil || d.held != nil {
		t.Errorf("%+v, %d bytes held", u, len(d.held))
	}
}

// Whatever comes, what is understood is within bounds.
func FuzzUsage(f *testing.F) {
	for _, c := range answers {
		if len(c.text) < 1000 {
			f.Add([]byte(c.text), c.stream)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, stream bool) {
		for _, whole := range []bool{true, false} {
			l := listenerOf(stream)
			l.hear(text)
			if u := l.usage(whole); u != nil && (u.InputTokens < 0 || u.InputTokens > maxTokens || u.OutputTokens < 0 ||
				u.OutputTokens > maxTokens) {
				t.Errorf("%+v", u)
			}
		}
	})
}
