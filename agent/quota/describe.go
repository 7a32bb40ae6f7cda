package quota

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

// maxRead bounds what is read of a request before it is sent.
const maxRead = 1 << 20

// bytesPerToken is by how many bytes of a request's body one input token is expected: about four
// for English text, and the JSON around it counts as well. What was really used is settled.
const bytesPerToken = 4

// hosts are the providers that are known by their hosts (and hosts below them).
var hosts = map[string]string{
	"api.openai.com":                    "openai",
	"openai.azure.com":                  "azure",
	"api.anthropic.com":                 "anthropic",
	"generativelanguage.googleapis.com": "gemini",
	"aiplatform.googleapis.com":         "gemini",
	"api.groq.com":                      "groq",
	"api.mistral.ai":                    "mistral",
	"api.deepseek.com":                  "deepseek",
	"openrouter.ai":                     "openrouter",
}

// asked are the fields of a request that matter.
type asked struct {
	model string
	most  int64 // output tokens at most; 0: not said
	n     int64 // answers
}

// calledBy tells by the path of a request whether it is a call of a model, and by whose it is one:
// OpenAI's …/chat/completions, …/completions, …/responses and …/embeddings, Anthropic's …/messages,
// Gemini's …/models/MODEL:generateContent and :streamGenerateContent.
func calledBy(r *http.Request) (provider string, ok bool) {
	if r.Method != http.MethodPost {
		return "", false
	}
	last := path.Base(r.URL.Path)
	switch _, verb, _ := strings.Cut(last, ":"); {
	case verb == "generateContent" || verb == "streamGenerateContent":
		return "gemini", true
	case last == "messages":
		return "anthropic", true
	case last == "completions" || last == "responses" || last == "embeddings":
		return "openai", true
	}
	return "", false
}

// described makes of a call of a model what quota is asked for. The provider is that of the host,
// else the one whose path it is. body is the beginning of the request's body, and size all of it, in
// bytes.
func described(r *http.Request, provider string, body []byte, size int64) Call {
	last := path.Base(r.URL.Path)
	a := asked{n: 1}
	switch provider {
	case "gemini":
		a.model, _, _ = strings.Cut(last, ":")
		a.readGemini(body)
	case "openai":
		a.read(body)
		if deployment := azureModel(r.URL.Path); a.model == "" && deployment != "" {
			a.model = deployment
		}
	default:
		a.read(body)
	}
	if p := providerOf(r.URL.Hostname()); p != "" {
		provider = p
	}
	c := Call{Provider: provider, InputTokens: new((size + bytesPerToken - 1) / bytesPerToken)}
	if len(a.model) <= 128 && modelName().MatchString(a.model) {
		c.Model = a.model
	}
	switch {
	case last == "embeddings":
		c.OutputTokens = new(int64(0))
	case a.most > 0:
		c.OutputTokens = new(bounded(bounded(a.most) * min(max(a.n, 1), 1024)))
	}
	return c
}

// modelName are names that quotas.yaml may have; others are charged to the provider.
var modelName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$`)
})

func providerOf(host string) string {
	for host = strings.ToLower(host); host != ""; {
		if p, ok := hosts[host]; ok {
			return p
		}
		_, host, _ = strings.Cut(host, ".")
	}
	return ""
}

// azureModel is DEPLOYMENT of …/deployments/DEPLOYMENT/….
func azureModel(p string) string {
	_, rest, _ := strings.Cut(p, "/deployments/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// read reads the members of a JSON object, as far as it goes.
func (a *asked) read(body []byte) {
	members(body, func(name string, d *json.Decoder) error {
		switch name {
		case "model":
			return d.Decode(&a.model)
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			return d.Decode(&a.most)
		case "n":
			return d.Decode(&a.n)
		default:
			return skip(d)
		}
	})
}

func (a *asked) readGemini(body []byte) {
	members(body, func(name string, d *json.Decoder) error {
		if name != "generationConfig" && name != "generation_config" {
			return skip(d)
		}
		var of struct {
			Most  int64 `json:"maxOutputTokens"`
			Snake int64 `json:"max_output_tokens"`
			N     int64 `json:"candidateCount"`
		}
		err := d.Decode(&of)
		a.most, a.n = max(of.Most, of.Snake), max(of.N, 1)
		return err
	})
}

// members visits the members of a JSON object until something is wrong with it.
func members(body []byte, visit func(name string, d *json.Decoder) error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return
	}
	for d.More() {
		t, err := d.Token()
		name, is := t.(string)
		if err != nil || !is || visit(name, d) != nil {
			return
		}
	}
}

func skip(d *json.Decoder) error {
	var value json.RawMessage
	return d.Decode(&value)
}

// begun is a request's body: what was read of it, its size, and, where that was taken from what is to
// be sent, all of it anew; nil: it is as it was.
type begun struct {
	start []byte
	size  int64
	rest  io.ReadCloser
}

// beginning reads the beginning of a request's body, and leaves what is sent as it was.
func beginning(r *http.Request) (begun, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return begun{}, nil
	}
	b := begun{size: r.ContentLength}
	from := r.Body
	if r.GetBody != nil {
		copied, err := r.GetBody()
		if err != nil {
			return b, err
		}
		defer func() { _ = copied.Close() }() // it was only read
		from = copied
	}
	start, err := io.ReadAll(io.LimitReader(from, maxRead))
	if err != nil {
		return b, err
	}
	if b.start = start; r.GetBody == nil {
		b.rest = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	}
	b.size = max(b.size, int64(len(start)))
	return b, nil
}
