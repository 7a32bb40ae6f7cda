package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/service"
	"taskbus/coordinator/webhook"
)

// keepTelling makes what sends alerts to the webhook that the environment names; nil: it names none.
func (p *parts) keepTelling(registry *prometheus.Registry) (*webhook.Sender, error) {
	w := p.webhook
	if w.URL.Reveal() == "" {
		return nil, nil
	}
	o := webhook.Options{URL: w.URL.Reveal(), Registry: registry, Logger: p.logger}
	for _, key := range w.Keys {
		o.Keys = append(o.Keys, []byte(key.Reveal()))
	}
	if w.Slack {
		o.Format = webhook.Slack
	}
	s, err := webhook.New(o)
	if err != nil {
		return nil, fmt.Errorf("make ready to send alerts: %w", err)
	}
	p.logger.Info().Str("host", s.Host()).Bool("slack", w.Slack).Int("keys", len(w.Keys)).
		Msg("events about quotas are sent to a webhook while this coordinator leads")
	return s, nil
}

// alerted hands alerts to the webhook; nil if there is none.
func alerted(s *webhook.Sender) func(service.Alert) {
	if s == nil {
		return nil
	}
	return func(a service.Alert) {
		s.Send(webhook.Message{ID: a.ID, Subject: a.Subject, Body: a.Body, Text: a.Text})
	}
}
