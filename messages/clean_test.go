package messages

import (
	"testing"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"a\nb\x00c\x7fd\u0085e\u2028f\u202eg", 40, "a b c d e f g"},
		{"äöü", 6, "äöü"},    // 6 bytes fit exactly
		{"äöüß", 7, "äö…"},   // 8 bytes: 4 and the ellipsis' 3 fit in 7
		{"abcdef", 5, "ab…"}, // 2 + 3
		{"a\xffb", 10, "a\ufffdb"},
		{"\xff\xff\xff", 5, "…"}, // 9 bytes once cleaned, of which 2 would fit
	} {
		if got := Clean(c.in, c.limit); got != c.want {
			t.Errorf("Clean(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "in"))
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		out := Clean(in, limit)
		if len(out) > limit || Clean(out, limit) != out {
			t.Fatalf("Clean(%q, %d) = %q", in, limit, out)
		}
	})
}
