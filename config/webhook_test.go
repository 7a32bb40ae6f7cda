package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWebhook(t *testing.T) {
	const (
		// 32, 24 and 23 bytes of letters in base64.
		key   = "whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
		other = "whsec_YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJi"
		short = "whsec_YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI="
	)
	long := "whsec_" + strings.Repeat("YWFh", 22) // 66 bytes
	file := filepath.Join(t.TempDir(), "webhook")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		keys []string
		want string // in the error; empty: it is in order
	}{
		{"none", nil, nil, ""},
		{"signed", map[string]string{"TASKBUS_WEBHOOK_URL": "https://hidden.example/hidden?hidden",
			"TASKBUS_WEBHOOK_SECRET": key}, []string{strings.Repeat("a", 32)}, ""},
		{"two keys", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": key + " " +
			other}, []string{strings.Repeat("a", 32), strings.Repeat("b", 24)}, ""},
		{"a file", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET_FILE": file},
			[]string{strings.Repeat("a", 32)}, ""},
		{"Slack needs no key", map[string]string{"TASKBUS_WEBHOOK_URL": "https://hidden.example/hidden",
			"TASKBUS_WEBHOOK_FORMAT": "Slack"}, nil, ""},
		{"unsigned", map[string]string{"TASKBUS_WEBHOOK_URL": "https://hidden.example/hidden"}, nil,
			"TASKBUS_WEBHOOK_SECRET: is missing"},
		{"a key for nothing", map[string]string{"TASKBUS_WEBHOOK_SECRET": key}, nil, "set TASKBUS_WEBHOOK_URL as well"},
		{"a format for nothing", map[string]string{"TASKBUS_WEBHOOK_FORMAT": "slack"}, nil,
			"set TASKBUS_WEBHOOK_URL as well"},
		{"both", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": key,
			"TASKBUS_WEBHOOK_SECRET_FILE": file}, nil, "TASKBUS_WEBHOOK_SECRET is set too"},
		{"no scheme", map[string]string{"TASKBUS_WEBHOOK_URL": "hidden.example/hidden", "TASKBUS_WEBHOOK_SECRET": key}, nil,
			"must be an http:// or https:// URL"},
		{"no host", map[string]string{"TASKBUS_WEBHOOK_URL": "https:///hidden", "TASKBUS_WEBHOOK_SECRET": key}, nil,
			"must be an http:// or https:// URL"},
		{"a fragment", map[string]string{"TASKBUS_WEBHOOK_URL": "https://hidden.example/#hidden",
			"TASKBUS_WEBHOOK_SECRET": key}, nil, "has a #"},
		{"another format", map[string]string{"TASKBUS_WEBHOOK_URL": "https://hidden.example", "TASKBUS_WEBHOOK_SECRET": key,
			"TASKBUS_WEBHOOK_FORMAT": "xml"}, nil, `must be standard or slack, not "xml"`},
		{"a URL file that holds none", map[string]string{"TASKBUS_WEBHOOK_URL_FILE": file, "TASKBUS_WEBHOOK_SECRET": key},
			nil, "the URL in the file must be"},
		{"no prefix", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": key[6:]},
			nil, "does not begin with whsec_"},
		{"no base64", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example",
			"TASKBUS_WEBHOOK_SECRET": "whsec_hidden!"}, nil, "is not base64"},
		{"too short", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": short}, nil,
			"has 23 bytes, and must have 24 to 64"},
		{"too long", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": long}, nil,
			"has 66 bytes"},
		{"three", map[string]string{"TASKBUS_WEBHOOK_URL": "http://hidden.example", "TASKBUS_WEBHOOK_SECRET": key + " " +
			key + " " + key}, nil, "one secret, or 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := ReadWebhook(variables(c.env))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
				for _, secret := range []string{"hidden", "YWFh", "YmJi"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("the error tells a secret: %v", err)
					}
				}
				return
			}
			if err != nil || w.URL.Reveal() != c.env["TASKBUS_WEBHOOK_URL"] || len(w.Keys) != len(c.keys) ||
				w.Slack != (c.env["TASKBUS_WEBHOOK_FORMAT"] != "") {
				t.Fatalf("%+v, %v", w, err)
			}
			for i, k := range w.Keys {
				if k.Reveal() != c.keys[i] {
					t.Errorf("key %d is another", i)
				}
			}
		})
	}
}
