package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goodToken has 32 characters, the fewest there may be.
const goodToken = canary + "-0123456789abcdef"

func TestAdminToken(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	longest := strings.Repeat("x", 4096)
	const (
		cure      = "; make one with: openssl rand -hex 32"
		variable  = "environment: TASKBUS_ADMIN_TOKEN: "
		inFile    = "environment: TASKBUS_ADMIN_TOKEN_FILE: "
		short     = "has fewer than 32 characters" + cure
		character = "holds a space or a character that is not printable ASCII" + cure
	)
	for _, tc := range []struct {
		name, token, file string
		want, fault       string
	}{
		{name: "neither: no token"},
		{name: "32 characters", token: goodToken, want: goodToken},
		{name: "4096 characters", token: longest, want: longest},
		// 15 + 7 + 6 + 4 = 32
		{name: "every kind of character", token: "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
			want: "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
		{name: "a file", file: file("plain", goodToken), want: goodToken},
		{name: "a file with a newline", file: file("newline", goodToken+"\n"), want: goodToken},
		{name: "a file from Windows", file: file("crlf", goodToken+"\r\n"), want: goodToken},

		{name: "31 characters", token: goodToken[1:], fault: variable + short},
		{name: "4097 characters", token: longest + "x", fault: variable + "has more than 4096 characters" + cure},
		{name: "a space", token: goodToken + " x", fault: variable + character},
		{name: "a newline", token: goodToken + "\n", fault: variable + character},
		{name: "an umlaut", token: goodToken + "ä", fault: variable + character},
		{name: "a zero byte", token: goodToken + "\x00", fault: variable + character},
		{name: "both", token: goodToken, file: file("both", goodToken),
			fault: inFile + "TASKBUS_ADMIN_TOKEN is set too; unset one of the two, so that it is clear which counts"},
		{name: "an empty file", file: file("empty", "\n"), fault: inFile + "the token in the file " + short},
		{name: "two lines", file: file("lines", goodToken+"\n\n"), fault: inFile + "the token in the file " + character},
		{name: "a file that is too large", file: file("large", longest+"\n"),
			fault: inFile + "names a file that is too large for a token; it must hold the token alone"},
		{name: "no file", file: filepath.Join(dir, "none"),
			fault: inFile + "names a file that does not exist; mount the secret or correct the path"},
		{name: "a directory", file: dir, fault: inFile + "names a file that cannot be read: is a directory"},
		{name: "the token where the file's name belongs", file: strings.Repeat(goodToken, 200),
			fault: inFile + "names a file that cannot be read: file name too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			getenv := variables(map[string]string{"TASKBUS_ADMIN_TOKEN": tc.token, "TASKBUS_ADMIN_TOKEN_FILE": tc.file})
			token, err := ReadAdminToken(getenv)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if token.Reveal() != tc.want || text != tc.fault {
				t.Errorf("got %d characters, %q; want %d, %q", len(token.Reveal()), text, len(tc.want), tc.fault)
			}
			if leaks(text) {
				t.Errorf("the fault repeats the token: %s", text)
			}
			// The coordinator reads it with everything else, and says the same.
			env, err := ReadEnvironment(getenv)
			if (err == nil) != (tc.fault == "") || err != nil && err.Error() != tc.fault || env.AdminToken.Reveal() != tc.want {
				t.Errorf("ReadEnvironment: %v", err)
			}
		})
	}
}
