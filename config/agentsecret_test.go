package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAgentSecret(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const (
		variable = "environment: TASKBUS_AGENT_SECRET: "
		inFile   = "environment: TASKBUS_AGENT_SECRET_FILE: "
		short    = "has fewer than 32 characters; make one with: openssl rand -hex 32"
	)
	for _, tc := range []struct {
		name, secret, file string
		want, fault        string
	}{
		{name: "neither: no agent reports over HTTP"},
		{name: "32 characters", secret: goodToken, want: goodToken},
		{name: "a file with a newline", file: file("newline", goodToken+"\n"), want: goodToken},
		{name: "a file from Windows", file: file("crlf", goodToken+"\r\n"), want: goodToken},
		{name: "31 characters", secret: goodToken[1:], fault: variable + short},
		{name: "an empty file", file: file("empty", ""), fault: inFile + "the secret in the file " + short},
		{name: "no file", file: filepath.Join(dir, "none"),
			fault: inFile + "names a file that does not exist; mount the secret or correct the path"},
		{name: "both", secret: goodToken, file: file("both", goodToken),
			fault: inFile + "TASKBUS_AGENT_SECRET is set too; unset one of the two, so that it is clear which counts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			secret, err := ReadAgentSecret(variables(map[string]string{"TASKBUS_AGENT_SECRET": tc.secret,
				"TASKBUS_AGENT_SECRET_FILE": tc.file}))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if secret.Reveal() != tc.want || text != tc.fault || leaks(text) {
				t.Errorf("got %d characters, %q; want %d, %q", len(secret.Reveal()), text, len(tc.want), tc.fault)
			}
		})
	}
}
