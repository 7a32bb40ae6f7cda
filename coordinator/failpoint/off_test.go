//go:build !failpoint

package failpoint

import "testing"

// The program that people run dies of nothing that the environment says.
func TestOffWhateverTheEnvironmentSays(t *testing.T) {
	for _, armed := range []string{"after_deliver", "panic:t-1", "nonsense"} {
		t.Setenv(Environment, armed)
		Hit(AfterDeliver)
		Task("t-1")
	}
}
