package quotas

import (
	"flag"
	"os"
	"testing"

	"taskbus/coordinator"
	"taskbus/tests/support/configtest"
)

// quotaFiles gives the files of testdata by name, without ".yaml".
func quotaFiles(t testing.TB) map[string][]byte { t.Helper(); return configtest.Files(t, "testdata") }

// mustParseQuotas parses what the test knows to be valid.
func mustParse(t testing.TB, text string) *coordinator.Quotas {
	t.Helper()
	q, err := Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return q
}

// Every file of testdata gives exactly the faults in the .faults file beside it; those
// whose name begins with "valid-" give none.
func TestQuotaGoldenFaults(t *testing.T) {
	configtest.Faults(t, *update, "testdata", func(data []byte, name string) error {
		_, err := Parse(data, name)
		return err
	})
}

// The example is a whole file that can be used, and shows most of the language.
func TestExampleQuotas(t *testing.T) {
	exampleText, err := os.ReadFile("../../examples/quotas.yaml")
	must(t, err)
	q, err := Parse(exampleText, "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checkQuotas(t, q)
	if len(q.Nodes) < 10 || len(q.Prices) == 0 {
		t.Errorf("%d nodes, %d prices", len(q.Nodes), len(q.Prices))
	}
}

var update = flag.Bool("update", false,
	"write what the loader says into testdata/*.faults; read the difference before keeping it")

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
