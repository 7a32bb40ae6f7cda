package config

import (
	"errors"
	"strings"
)

// The variables of the agents' secret.
const (
	envAgentSecret     = "TASKBUS_AGENT_SECRET"
	envAgentSecretFile = "TASKBUS_AGENT_SECRET_FILE"
)

// ReadAgentSecret is the secret from which the token of every agent is derived
// that reports its capacity over HTTP: TASKBUS_AGENT_SECRET, or the content of the
// file TASKBUS_AGENT_SECRET_FILE names, less the newline at its end. It reveals 32
// to 4096 printable ASCII characters without spaces, or nothing if neither variable
// is set. The error is a *Faults and never holds a part of the secret.
func ReadAgentSecret(getenv func(string) string) (Secret, error) {
	v := variableReader{getenv: getenv}
	var secret Secret
	v.read(envAgentSecret, func(value string) error { return setToken(&secret, value) })
	v.readFile(envAgentSecretFile, envAgentSecret, func(path string) error {
		text, err := readSecretFile(path, "secret")
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if err := setToken(&secret, text); err != nil {
			return errors.New("the secret in the file " + err.Error())
		}
		return nil
	})
	if err := faultsOrNil(v.faults); err != nil {
		return Secret{}, err
	}
	return secret, nil
}
