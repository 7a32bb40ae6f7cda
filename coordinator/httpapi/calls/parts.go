package calls

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/heard"
	"taskbus/coordinator/httpapi/internal/web"
)

// The bounds of lists in what is said of a call.
const (
	maxHeaders = 64
)

// alternativesMember is a list of models that a call may go to.
func alternativesMember(into *[]coordinator.Service) web.Member {
	return web.Member{Name: "alternatives", Read: func(value json.RawMessage) string {
		const must = `must be a list of 1 to 16 such as [{"provider": "openai", "model": "gpt-4o"}, {"provider": ` +
			`"anthropic", "model": "claude-sonnet-4-5"}]`
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil || len(list) == 0 || len(list) > coordinator.MaxAlternatives {
			return must
		}
		for i, item := range list {
			var provider, model *string
			fault, err := web.ReadMembers(item, []web.Member{web.Text("provider", &provider), web.Text("model", &model)})
			switch {
			case err != nil:
				return must
			case fault != "":
				return fmt.Sprintf("[%d]: %s; it %s", i, fault, must)
			case text(provider) == "" || !validService(*provider) || !validService(text(model)):
				return fmt.Sprintf("[%d] needs a provider; it %s", i, must)
			}
			*into = append(*into, coordinator.Service{Provider: *provider, Model: text(model)})
		}
		return ""
	}}
}

// responseMember is how the provider has answered the call.
func responseMember(into **coordinator.ProviderWord) web.Member {
	return web.Member{Name: "response", Read: func(value json.RawMessage) string {
		const must = `must be such as {"status": 429, "latency_ms": 850, "headers": {"retry-after": "20"}}`
		var status, latency *float64
		headers := make(http.Header)
		fault, err := web.ReadMembers(value, []web.Member{
			web.Number("status", &status, true, func(x float64) bool { return x == 0 || x >= 100 && x <= 599 },
				"0 (no answer), or a status code of HTTP"),
			web.Number("latency_ms", &latency, false, func(x float64) bool { return x >= 0 && x <= 86_400_000 },
				"a number from 0 to 86400000"),
			{Name: "headers", Read: func(value json.RawMessage) string {
				var given map[string]string
				if err := json.Unmarshal(value, &given); err != nil || len(given) > maxHeaders {
					return "must map at most 64 names to texts"
				}
				for name, v := range given {
					headers.Set(name, v)
				}
				return ""
			}},
		})
		switch {
		case err != nil:
			return must
		case fault != "":
			return fault + "; it " + must
		case status == nil:
			return "has no status; it " + must
		}
		w := heard.Of(time.Now(), int(*status), headers)
		w.Latency = time.Duration(math.Ceil(number(latency) * float64(time.Millisecond)))
		*into = &w
		return ""
	}}
}
