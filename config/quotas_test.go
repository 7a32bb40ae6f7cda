package config

import (
	"testing"

	"taskbus/coordinator"
)

// quotaFiles gives the files of testdata/quotas by name, without ".yaml".
func quotaFiles(t testing.TB) map[string][]byte { t.Helper(); return filesOf(t, "testdata/quotas") }

// mustParseQuotas parses what the test knows to be valid.
func mustParseQuotas(t testing.TB, text string) *coordinator.Quotas {
	t.Helper()
	q, err := ParseQuotas([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return q
}

// Every file of testdata/quotas gives exactly the faults in the .faults file beside it; those
// whose name begins with "valid-" give none.
func TestQuotaGoldenFaults(t *testing.T) {
	goldenFaults(t, "testdata/quotas", func(data []byte, name string) error {
		_, err := ParseQuotas(data, name)
		return err
	})
}
