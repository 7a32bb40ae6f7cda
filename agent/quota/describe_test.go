package quota

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What a request is taken for. The input is a quarter of its bytes.
func TestDescribed(t *testing.T) {
	for name, c := range map[string]struct {
		url, body string
		provider  string // empty: it is no call
		model     string
		out       int64 // -1: not said
	}{
		"OpenAI chat": {"https://api.openai.com/v1/chat/completions",
			`{"messages":[{"content":"{\"model\":\"x\"}"}],"model":"gpt-4o","max_tokens":300}`, "openai", "gpt-4o", 300},
		"two answers": {"https://api.openai.com/v1/chat/completions",
			`{"model":"gpt-4o","max_completion_tokens":300,"n":2}`, "openai", "gpt-4o", 600},
		"no bound": {"https://api.openai.com/v1/chat/completions", `{"model":"gpt-4o"}`, "openai", "gpt-4o", -1},
		"OpenAI responses": {"https://api.openai.com/v1/responses", `{"model":"o3","max_output_tokens":64}`, "openai",
			"o3", 64},
		"OpenAI embeddings": {"https://api.openai.com/v1/embeddings", `{"model":"text-embedding-3-small","input":"x"}`,
			"openai", "text-embedding-3-small", 0},
		"Azure": {"https://mine.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=1",
			`{"max_tokens":5}`, "azure", "gpt-4o", 5},
		"Groq":         {"https://api.groq.com/openai/v1/chat/completions", `{"model":"llama"}`, "groq", "llama", -1},
		"its own host": {"http://10.0.0.7:8000/v1/chat/completions", `{"model":"llama"}`, "openai", "llama", -1},
		"Anthropic": {"https://api.anthropic.com/v1/messages", `{"model":"claude-sonnet-4-5","max_tokens":1024}`,
			"anthropic", "claude-sonnet-4-5", 1024},
		"Anthropic counts": {"https://api.anthropic.com/v1/messages/count_tokens", `{"model":"claude-sonnet-4-5"}`, "", "",
			0},
		"Gemini": {"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
			`{"generationConfig":{"maxOutputTokens":200}}`, "gemini", "gemini-2.5-flash", 200},
		"Gemini stream": {
			"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", `{}`,
			"gemini", "gemini-2.5-flash", -1},
		"Vertex": {
			"https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/google/models/" +
				"gemini-2.5-pro:generateContent", `{}`, "gemini", "gemini-2.5-pro", -1},
		"Gemini counts": {"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:countTokens", `{}`,
			"", "", 0},
		"not JSON": {"https://api.openai.com/v1/chat/completions", `model=gpt-4o`, "openai", "", -1},
		"no name of a model": {"https://api.openai.com/v1/chat/completions", `{"model":"gpt 4o\n","max_tokens":1}`, "openai",
			"", 1},
		"of other types": {"https://api.openai.com/v1/chat/completions", `{"model":["gpt"],"max_tokens":"7"}`, "openai",
			"", -1},
		"a bound below zero": {"https://api.openai.com/v1/chat/completions", `{"max_tokens":-7,"n":-1}`, "openai", "", -1},
		"a bound beyond all": {"https://api.openai.com/v1/chat/completions",
			`{"max_tokens":9223372036854775807,"n":9223372036854775807}`, "openai", "", 1024 * maxTokens},
		"files": {"https://api.openai.com/v1/files", `{}`, "", "", 0},
		"only its beginning": {"https://api.openai.com/v1/chat/completions",
			`{"model":"gpt-4o","max_tokens":9,"messages":["half`, "openai", "gpt-4o", 9},
		"a host that is like": {"https://notapi.openai.com.example.org/v1/messages", `{}`, "anthropic", "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			whose, ok := calledBy(r)
			var call Call
			if ok {
				call = described(r, whose, []byte(c.body), int64(len(c.body)))
			}
			if ok != (c.provider != "") || call.Provider != c.provider || call.Model != c.model {
				t.Fatalf("%+v, %v", call, ok)
			}
			if !ok {
				return
			}
			if want := int64(len(c.body)+3) / 4; *call.InputTokens != want {
				t.Errorf("input %d, want %d", *call.InputTokens, want)
			}
			if out := call.OutputTokens; (out == nil) != (c.out < 0) || out != nil && *out != min(c.out, maxTokens) {
				t.Errorf("output %v, want %d", out, c.out)
			}
			r.Method = http.MethodGet
			if _, ok := calledBy(r); ok {
				t.Error("a GET is no call")
			}
		})
	}
}

// What is sent is what it was, read before or not, small or large; of a large one only the beginning
// is held.
func TestBeginningLeavesTheBodyAlone(t *testing.T) {
	for _, size := range []int{0, 1, maxRead - 1, maxRead, maxRead + 1, 3 * maxRead} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprint(size, again), func(t *testing.T) {
				body := strings.Repeat("x", size)
				r, err := http.NewRequest(http.MethodPost, "http://h", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if !again { // a stream of unknown length
					r.GetBody, r.ContentLength = nil, -1
					r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body)))
				}
				b, err := beginning(r)
				if err != nil {
					t.Fatal(err)
				}
				want := int64(size)
				if !again {
					want = int64(min(size, maxRead)) // as far as is known
				}
				if b.size != want || len(b.start) != min(size, maxRead) {
					t.Errorf("size %d of %d, %d read", b.size, size, len(b.start))
				}
				if b.rest != nil {
					r.Body = b.rest
				}
				sent, err := io.ReadAll(r.Body)
				if err != nil || !bytes.Equal(sent, []byte(body)) {
					t.Errorf("%d of %d bytes sent, %v", len(sent), size, err)
				}
			})
		}
	}
}
