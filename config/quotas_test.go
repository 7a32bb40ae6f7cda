package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// quotaFiles gives the files of testdata/quotas by name, without ".yaml".
func quotaFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/quotas/*.yaml")
	if err != nil || len(paths) < 30 {
		t.Fatalf("testdata/quotas holds %d files (%v), want at least 30", len(paths), err)
	}
	files := make(map[string][]byte, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = data
	}
	return files
}

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
	for name, data := range quotaFiles(t) {
		t.Run(name, func(t *testing.T) {
			_, err := ParseQuotas(data, name+".yaml")
			if strings.HasPrefix(name, "valid-") {
				if err != nil {
					t.Fatalf("a valid file is refused:\n%v", err)
				}
				return
			}
			var faults *Faults
			if !errors.As(err, &faults) {
				t.Fatalf("want *Faults, got %v", err)
			}
			checkGolden(t, filepath.Join("testdata", "quotas", name+".faults"), err.Error()+"\n")
		})
	}
}
