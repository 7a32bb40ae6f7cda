package fairshare

import (
	"reflect"
	"testing"
)

// TestPages: pages one after the other are the whole view, and behind the last there is nothing.
func TestPages(t *testing.T) {
	l := lenders(9) // and the pool
	for most := 1; most <= 11; most++ {
		var got []NodeView
		for after := ""; ; {
			some, all, more, ok := l.Page(epoch, after, most)
			if !ok || all != 10 || len(some) > most {
				t.Fatalf("pages of %d: %d of %d behind %q, %v", most, len(some), all, after, ok)
			}
			if got = append(got, some...); !more {
				break
			}
			after = some[len(some)-1].ID
		}
		if !reflect.DeepEqual(got, l.View(epoch)) {
			t.Errorf("pages of %d are %d nodes", most, len(got))
		}
	}
	if _, _, _, ok := l.Page(epoch, "pool/none", 1); ok {
		t.Errorf("behind a node that there is not")
	}
}
