package main

import (
	"errors"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/usage"
	"taskbus/coordinator/usage/history"
)

// Without quotas.yaml there is no history, which is no reason to try again; with it there is none yet.
func TestHistoryWithoutQuotas(t *testing.T) {
	fleet, err := config.Parse([]byte("agents: {}\n"), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	quotas, err := quotas.Parse([]byte("{}\n"), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []*config.Config{fleet, fleet.WithQuotas(quotas)} {
		r := newReloader(cli.ConfigFiles{}, cfg, nil)
		_, _, err := historySource{history.New(history.Options{Zone: r.zone}), r}.Usage(t.Context(), usage.Query{})
		if without := cfg.Policy().Quotas == nil; err == nil || errors.Is(err, httpapi.ErrNoQuotas) != without {
			t.Errorf("without quotas %v: %v", without, err)
		}
	}
}
