package pattern

import "testing"

func TestPatternIsCompiledWhenItIsUsed(t *testing.T) {
	wrong := New("(") // not yet a panic
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression matches")
		}
	}()
	wrong.MatchString("x")
}

func TestPatternMatches(t *testing.T) {
	p := New("^a(b*)")
	if !p.MatchString("abb") || p.MatchString("b") {
		t.Error("MatchString")
	}
	if got := p.FindStringSubmatch("abbc"); len(got) != 2 || got[1] != "bb" {
		t.Errorf("FindStringSubmatch: %q", got)
	}
	if p.String() != "^a(b*)" {
		t.Errorf("String: %q", p)
	}
}
