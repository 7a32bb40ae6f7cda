package config

import (
	"fmt"
	"io"
)

// masked is what everybody sees of a Secret.
const masked = "***"

// Secret is a text that must not be seen: it prints as *** under every fmt verb
// and in JSON, YAML and text. Only [Secret.Reveal] gives it away, so that every
// place which does can be found by that name.
//
// The text is behind a pointer because fmt does not call the methods of a Secret
// in an unexported field of another struct: it prints the fields, and a pointer
// then shows as an address. The zero value is an empty secret.
type Secret struct{ text *string }

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text itself. Hand it to what needs it and to nothing else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns ***.
func (Secret) String() string { return masked }

// GoString returns ***, for %#v.
func (Secret) GoString() string { return masked }

// Format writes *** whatever the verb and its flags.
func (Secret) Format(state fmt.State, _ rune) {
	// fmt keeps the error of the writer behind state to itself.
	_, _ = io.WriteString(state, masked)
}

// MarshalJSON gives "***".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// MarshalText gives ***.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// MarshalYAML gives "***".
func (Secret) MarshalYAML() (any, error) { return masked, nil }
