package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A flood of one kind is a few lines a second; it hides nothing of another kind, and when it is over what was left out
// is counted.
func TestFloods(t *testing.T) {
	var written bytes.Buffer
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	log := New(zerolog.New(&written), func() time.Time { return now })
	bad, other := log.Kind("bad messages"), log.Kind("lanes")
	for range 100 {
		bad.At(zerolog.WarnLevel).Msg("bad")
	}
	other.At(zerolog.InfoLevel).Msg("other")
	if n := strings.Count(written.String(), `"bad"`); n != LinesPerSecond ||
		!strings.Contains(written.String(), `"other"`) {
		t.Errorf("%d lines within one moment, want %d and the other's:\n%s", n, LinesPerSecond, &written)
	}
	now = now.Add(time.Second)
	bad.At(zerolog.WarnLevel).Msg("bad")
	if want := `"held_back":95`; !strings.Contains(written.String(), want) {
		t.Errorf("the next line does not say %s:\n%s", want, &written)
	}
	for range LinesPerSecond { // of which one is too many
		bad.At(zerolog.WarnLevel).Msg("bad")
	}
	for range 2 {
		now = now.Add(quiet)
		log.AfterFloods()
	}
	if n := strings.Count(written.String(), `"1 more line held back: bad messages"`); n != 1 {
		t.Errorf("the last line is accounted for %d times:\n%s", n, &written)
	}
}
