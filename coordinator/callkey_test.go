package coordinator

import (
	"testing"
)

// Ids of agents and of reservations may both hold a colon: agent x, id "y:z", and agent x:y, id "z",
// are two reservations.
func TestCallKeysOfDifferentAgentsDiffer(t *testing.T) {
	if CallKey("x", "y:z") == CallKey("x:y", "z") {
		t.Error("agent x names the reservation of agent x:y, and can settle or release it")
	}
}
