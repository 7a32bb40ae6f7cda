package outputs

import (
	"testing"

	"taskbus/coordinator"
)

func output(bytes int) *coordinator.Output { return &coordinator.Output{Value: make([]byte, bytes)} }

// There is room for two outputs of 1,000 bytes with what is around them: 2 (1,000 + 256) = 2,512. The third displaces
// the oldest; one that comes again displaces nothing but itself, and is the latest then.
func TestKept(t *testing.T) {
	k := New(2512)
	has := func(want ...coordinator.TaskID) {
		t.Helper()
		n := 0
		for _, id := range []coordinator.TaskID{"t-1", "t-2", "t-3", "t-4"} {
			if k.Of(id, "a") != nil {
				n++
			}
		}
		for _, id := range want {
			if k.Of(id, "a") == nil {
				t.Errorf("%s is not kept", id)
			}
		}
		if n != len(want) {
			t.Errorf("%d are kept, want %v", n, want)
		}
	}
	k.Keep("t-1", "a", output(1000))
	k.Keep("t-2", "a", output(1000))
	k.Keep("t-3", "a", nil)
	has("t-1", "t-2")
	k.Keep("t-1", "a", output(1000))
	has("t-1", "t-2")
	k.Keep("t-3", "a", output(900))
	has("t-1", "t-3")
	if k.Of("t-1", "b") != nil {
		t.Error("what a has found out is b's, too")
	}
	k.Keep("t-4", "a", output(2257)) // by a byte more than there is room for
	has()
	if k.bytes != 0 || len(k.byKey) != 0 || k.order.Len() != 0 {
		t.Errorf("%d bytes, %d keys, %d in order", k.bytes, len(k.byKey), k.order.Len())
	}
}
