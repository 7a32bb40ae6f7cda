package config

import (
	"errors"
	"strings"
)

// The variables of the agents' secret, and of the gateways' token.
const (
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

// readSecret reads a secret out of one variable, or out of the file that another one names. what
// it is, for people.
func readSecret(getenv func(string) string, name, fileName, what string) (Secret, error) {
	v := variableReader{getenv: getenv}
	var secret Secret
	v.readSecret(&secret, name, fileName, what)
	if err := faultsOrNil(v.faults); err != nil {
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
