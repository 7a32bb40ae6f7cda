package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator/engine"
	"taskbus/coordinator/fairshare/fairqueue"
)

// gauged collects what is emitted, by name and labels.
func gauged(collect func(emitter)) map[string]float64 {
	all := make(map[string]float64)
	collect(func(d *prometheus.Desc, v float64, labels ...string) {
		name := d.String()
		name = name[strings.Index(name, "taskbus_"):]
		all[name[:strings.Index(name, `"`)]+" "+strings.Join(labels, " ")] = v
	})
	return all
}

// However many groups there are, at most 201 of them have series.
func TestQuotaGroupsAreBounded(t *testing.T) {
	groups := []engine.QuotaGroup{{Name: fairqueue.OtherGroup, Waiting: 5}}
	for i := range 300 {
		groups = append(groups, engine.QuotaGroup{Name: fmt.Sprintf("g%03d", i), Waiting: 1, Share: 1. / 300})
	}
	got := gauged(func(emit emitter) { collectQuotaGroups(groups, emit) })
	// 100 of the 300, and its own 5
	if len(got) != 4*(maxQuotaGroups+1) || got["taskbus_quota_waiting other"] != 105 ||
		got["taskbus_quota_waiting g199"] != 1 {
		t.Errorf("%d series, %v wait of the others", len(got), got["taskbus_quota_waiting other"])
	}
}
