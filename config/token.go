package config

import (
	"errors"
	"fmt"
)

// minToken is how many characters an admin token has at least: 32 random bytes
// cannot be guessed over a network, a word can.
const minToken = 32

// ReadAdminToken is the secret that allows changes over HTTP: TASKBUS_ADMIN_TOKEN,
// or the content of the file TASKBUS_ADMIN_TOKEN_FILE names, less the newline at
// its end. It reveals 32 to 4096 printable ASCII characters without spaces, or
// nothing if neither variable is set. The error is a *Faults and never holds a
// part of the token.
func ReadAdminToken(getenv func(string) string) (Secret, error) {
	return readSecret(getenv, envToken, envTokenFile, "token")
}

// setToken checks a token: it must be long, and travel in an HTTP header as it is.
func setToken(into *Secret, value string) error {
	const cure = "; make one with: openssl rand -hex 32"
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' {
			return errors.New("holds a space or a character that is not printable ASCII" + cure)
		}
	}
	switch {
	case len(value) < minToken:
		return fmt.Errorf("has fewer than %d characters%s", minToken, cure)
	case len(value) > maxSecret:
		return fmt.Errorf("has more than %d characters%s", maxSecret, cure)
	}
	*into = NewSecret(value)
	return nil
}
