package observer

import (
	"testing"
	"time"

	"taskbus/coordinator"
)

// A caller may name any model: so many are listed, those that were named first.
func TestUnpricedModelsAreBounded(t *testing.T) {
	var o Observer
	for i := range 2 * mostUnpriced {
		o.unpriced.note(time.Unix(1000, 0),
			&coordinator.ModelUnpriced{Service: coordinator.Service{Provider: "p", Model: string(rune('0' + i))}})
	}
	if n := len(o.Unpriced()); n != mostUnpriced {
		t.Errorf("%d are listed, want %d", n, mostUnpriced)
	}
}
