package httpapi

import (
	"fmt"
	"strings"

	"taskbus/coordinator"
)

// ParseAlternatives reads the models that a call may go to, as openai/gpt-4o,anthropic/claude-sonnet-4-5:
// providers, with a key or without, and behind the first slash what model of it.
func ParseAlternatives(text string) (all []coordinator.Service, err error) {
	items := strings.Split(text, ",")
	if len(items) > coordinator.MaxAlternatives {
		return nil, fmt.Errorf("alternatives must be at most %d", coordinator.MaxAlternatives)
	}
	for _, item := range items {
		provider, model, named := strings.Cut(item, "/")
		if !validProvider(provider) || named && !modelPattern.MatchString(model) {
			return nil,
				fmt.Errorf(
					"alternatives must be PROVIDER or PROVIDER/MODEL, divided by commas, such as " +
						"openai/gpt-4o,anthropic/claude-sonnet-4-5")
		}
		all = append(all, coordinator.Service{Provider: provider, Model: model})
	}
	return all, nil
}
