package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"taskbus/config/yamlconf"
)

// The variables of the webhook.
const (
	envWebhookURL        = "TASKBUS_WEBHOOK_URL"
	envWebhookURLFile    = "TASKBUS_WEBHOOK_URL_FILE"
	envWebhookSecret     = "TASKBUS_WEBHOOK_SECRET"
	envWebhookSecretFile = "TASKBUS_WEBHOOK_SECRET_FILE"
	envWebhookFormat     = "TASKBUS_WEBHOOK_FORMAT"
)

// Webhook is the receiver of events about quotas over HTTP.
type Webhook struct {
	// URL of the receiver, http or https; empty: there is none.
	URL Secret
	// Keys that sign, each of 24 to 64 bytes: one, or two while a receiver changes from one to the
	// other. With the format standard there is at least one.
	Keys []Secret
	// Slack: the receiver gets text as Slack shows it, not the event.
	Slack bool
}

// ReadWebhook reads TASKBUS_WEBHOOK_URL and TASKBUS_WEBHOOK_SECRET, or the content of the files that
// TASKBUS_WEBHOOK_URL_FILE and TASKBUS_WEBHOOK_SECRET_FILE name, and TASKBUS_WEBHOOK_FORMAT. The
// error is a *Faults and never holds a part of the URL or of a secret.
func ReadWebhook(getenv func(string) string) (Webhook, error) {
	var w Webhook
	v := variableReader{getenv: getenv}
	v.readText(envWebhookURL, envWebhookURLFile, "URL", w.setURL)
	v.readText(envWebhookSecret, envWebhookSecretFile, "secret", w.setKeys)
	v.read(envWebhookFormat, func(value string) error {
		switch strings.ToLower(value) {
		case "standard":
		case "slack":
			w.Slack = true
		default:
			return errors.New("must be standard or slack, not " + yamlconf.Echo(value))
		}
		return nil
	})
	fault := func(name, text string) {
		v.faults = append(v.faults, Fault{Source: environment, Path: name, Text: text})
	}
	if len(v.faults) == 0 {
		url := w.URL.Reveal() != ""
		switch {
		case url && !w.Slack && len(w.Keys) == 0:
			fault(envWebhookSecret, "is missing: what is sent to "+envWebhookURL+" must be signed"+wantKey)
		case !url && len(w.Keys) > 0:
			fault(envWebhookSecret, "is set, but nothing is sent: set "+envWebhookURL+" as well, or unset it")
		case !url && getenv(envWebhookFormat) != "":
			fault(envWebhookFormat, "is set, but nothing is sent: set "+envWebhookURL+" as well, or unset it")
		}
	}
	if err := yamlconf.ErrorOf(v.faults); err != nil {
		return Webhook{}, err
	}
	return w, nil
}

// readText reads a text out of one variable, or out of the file that another one names, less white
// space around it. what it is, for people.
func (v *variableReader) readText(name, fileName, what string, set func(text string) error) {
	v.read(name, set)
	v.readFile(fileName, name, func(path string) error {
		text, err := readSecretFile(path, what)
		if err != nil {
			return err
		}
		if err := set(strings.TrimSpace(text)); err != nil {
			return errors.New("the " + what + " in the file " + err.Error())
		}
		return nil
	})
}

// setURL checks the receiver's URL. The value is not repeated: Slack's is a secret.
func (w *Webhook) setURL(value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return errors.New("must be an http:// or https:// URL with a host, such as https://alerts.example.com/taskbus")
	case u.Fragment != "":
		return errors.New("has a # with something behind it, which is never sent; percent-encode it, or leave it out")
	}
	w.URL = NewSecret(value)
	return nil
}

const wantKey = "; make one with: echo whsec_$(openssl rand -base64 32)"

// Of keys, as Standard Webhooks have them.
const (
	keyPrefix         = "whsec_"
	leastKey, mostKey = 24, 64 // bytes
	mostKeys          = 2
)

// setKeys checks the secrets, of which there may be two with white space between them.
func (w *Webhook) setKeys(value string) error {
	all := strings.Fields(value)
	if len(all) == 0 || len(all) > mostKeys {
		return fmt.Errorf(
			"must hold one secret, or %d with a blank between them while the receiver changes from one to the other", mostKeys)
	}
	for _, text := range all {
		encoded, is := strings.CutPrefix(text, keyPrefix)
		if !is {
			return errors.New("does not begin with " + keyPrefix + wantKey)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return errors.New("is not base64 behind " + keyPrefix + wantKey)
		}
		if len(key) < leastKey || len(key) > mostKey {
			return fmt.Errorf("has %d bytes, and must have %d to %d%s", len(key), leastKey, mostKey, wantKey)
		}
		w.Keys = append(w.Keys, NewSecret(string(key)))
	}
	return nil
}
