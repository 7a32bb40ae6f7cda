package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const canary = "canary-pa55w0rd"

// holder shows what fmt makes of a secret inside a struct; it calls no methods
// on the unexported field.
type holder struct {
	Shown  Secret
	hidden Secret
}

func TestSecretNeverPrints(t *testing.T) {
	secret := NewSecret("amqp://user:" + canary + "@host/")
	if !strings.Contains(secret.Reveal(), canary) {
		t.Fatal("Reveal does not give the secret")
	}
	if zero := (Secret{}); zero.Reveal() != "" || fmt.Sprint(zero) != "***" {
		t.Error("the zero secret is not empty and masked")
	}
	values := map[string]any{
		"value": secret, "pointer": &secret, "slice": []Secret{secret}, "map": map[string]Secret{"url": secret},
		"struct": holder{secret, secret}, "pointer to struct": &holder{secret, secret},
		"environment": Environment{RabbitMQURL: secret}, "error": fmt.Errorf("connect to %v", secret),
	}
	const verbs = "vTtbcdoOqxXUeEfFgGsp"
	for name, value := range values {
		for _, verb := range verbs {
			for _, flags := range []string{"", "+", "#", " ", "-40", "040", ".3", "+#"} {
				format := "%" + flags + string(verb)
				got := fmt.Sprintf(format, value)
				if leaks(got) {
					t.Errorf("%s with %s prints %s", name, format, got)
				}
			}
		}
		if got, err := json.Marshal(value); err != nil || leaks(string(got)) {
			t.Errorf("%s as JSON: %s, %v", name, got, err)
		}
		if got, err := yaml.Marshal(value); name != "error" && (err != nil || leaks(string(got))) {
			t.Errorf("%s as YAML: %s, %v", name, got, err)
		}
		var text, jsonLog bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&jsonLog, nil)).Info("x", "value", value)
		if leaks(text.String()) || leaks(jsonLog.String()) {
			t.Errorf("%s in a log: %s%s", name, text.String(), jsonLog.String())
		}
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if got := fmt.Sprintf(format, secret); got != "***" {
			t.Errorf("%s gives %s, want ***", format, got)
		}
	}
	if text, err := secret.MarshalText(); err != nil || string(text) != "***" {
		t.Errorf("as text: %s, %v", text, err)
	}
	if got := secret.String() + secret.GoString(); got != "******" {
		t.Errorf("String and GoString give %s", got)
	}
}

// leaks looks for the canary as it is and in hexadecimal.
func leaks(s string) bool {
	return strings.Contains(s, canary) ||
		strings.Contains(strings.ToLower(strings.ReplaceAll(s, " ", "")), fmt.Sprintf("%x", canary))
}
