package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"taskbus/config/yamlconf"
)

// masked is what everybody sees of a Secret.
const masked = "***"

// Secret is a text that must not be seen: it prints as *** under every fmt verb
// and in JSON, YAML and text. Only [Secret.Reveal] gives it away, so that every
// place which does can be found by that name.
//
// The text is behind a pointer because fmt does not call the methods of a Secret
// in an unexported field of another struct: it prints the fields, and a pointer
// then shows as an address. The zero value is an empty secret.
type Secret struct{ text *string }

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text itself. Hand it to what needs it and to nothing else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns ***.
func (Secret) String() string { return masked }

// GoString returns ***, for %#v.
func (Secret) GoString() string { return masked }

// Format writes *** whatever the verb and its flags.
func (Secret) Format(state fmt.State, _ rune) {
	// fmt keeps the error of the writer behind state to itself.
	_, _ = io.WriteString(state, masked)
}

// MarshalJSON gives "***".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// MarshalText gives ***.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// MarshalYAML gives "***".
func (Secret) MarshalYAML() (any, error) { return masked, nil }

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

// The variables of the agents' secret, and of the gateways' and producers' tokens.
const (
	envProducerToken     = "TASKBUS_PRODUCER_TOKEN"
	envProducerTokenFile = "TASKBUS_PRODUCER_TOKEN_FILE"

	envAgentSecret      = "TASKBUS_AGENT_SECRET"
	envAgentSecretFile  = "TASKBUS_AGENT_SECRET_FILE"
	envGatewayToken     = "TASKBUS_GATEWAY_TOKEN"
	envGatewayTokenFile = "TASKBUS_GATEWAY_TOKEN_FILE"
)

// ReadAgentSecret is the secret from which the token of every agent is derived by which it shows
// its identity over HTTP: TASKBUS_AGENT_SECRET, or the content of the file TASKBUS_AGENT_SECRET_FILE
// names, less the newline at its end. It reveals 32 to 4096 printable ASCII characters without
// spaces, or nothing if neither variable is set. The error is a *Faults and never holds a part of
// the secret.
func ReadAgentSecret(getenv func(string) string) (Secret, error) {
	return readSecret(getenv, envAgentSecret, envAgentSecretFile, "secret")
}

// ReadGatewayToken is the token by which gateways show that they may ask for quota on behalf of
// every agent: TASKBUS_GATEWAY_TOKEN, or the content of the file that TASKBUS_GATEWAY_TOKEN_FILE
// names; as ReadAgentSecret.
func ReadGatewayToken(getenv func(string) string) (Secret, error) {
	return readSecret(getenv, envGatewayToken, envGatewayTokenFile, "token")
}

// ReadProducerToken is the token by which producers submit tasks over HTTP: TASKBUS_PRODUCER_TOKEN, or the content of
// the file that TASKBUS_PRODUCER_TOKEN_FILE names; as ReadAgentSecret.
func ReadProducerToken(getenv func(string) string) (Secret, error) {
	return readSecret(getenv, envProducerToken, envProducerTokenFile, "token")
}

// readSecret reads a secret out of one variable, or out of the file that another one names. what
// it is, for people.
func readSecret(getenv func(string) string, name, fileName, what string) (Secret, error) {
	v := variableReader{getenv: getenv}
	var secret Secret
	v.readSecret(&secret, name, fileName, what)
	if err := yamlconf.ErrorOf(v.faults); err != nil {
		return Secret{}, err
	}
	return secret, nil
}

func (v *variableReader) readSecret(into *Secret, name, fileName, what string) {
	v.read(name, func(value string) error { return setToken(into, value) })
	v.readFile(fileName, name, func(path string) error {
		text, err := readSecretFile(path, what)
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if err := setToken(into, text); err != nil {
			return errors.New("the " + what + " in the file " + err.Error())
		}
		return nil
	})
}
