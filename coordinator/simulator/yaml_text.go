package simulator

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// illegible finds the first thing in the file that is no text, which the parser
// would refuse without its line; text is "" when there is none.
func illegible(data []byte) (line int, text string) {
	line = 1
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		data = data[size:]
		switch {
		case c == utf8.RuneError && size == 1:
			return line, "is no UTF-8 text; save the file as UTF-8"
		case c == '\n':
			line++
		case c != '\t' && c != '\r' && unicode.IsControl(c):
			return line, fmt.Sprintf("holds the control character %U; remove it", c)
		}
	}
	return line, ""
}

// unseen reports whether a character does not show, or changes how others show: the
// output goes to terminals and into charts.
func unseen(c rune) bool {
	return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || unicode.Is(unicode.Bidi_Control, c)
}

// text reads a word or a sentence that is not empty, on one line.
func (r *reader) text(into *string) func(spot) { return r.textWithout(into, unseen, "on one line") }

// lines reads text that may have several lines.
func (r *reader) lines(into *string) func(spot) {
	unseen := func(c rune) bool { return c != '\n' && c != '\t' && unseen(c) }
	return r.textWithout(into, unseen, "of one or more lines")
}

func (r *reader) textWithout(into *string, forbidden func(rune) bool, form string) func(spot) {
	return func(p spot) {
		switch {
		case p.node.Kind != yaml.ScalarNode || p.node.Tag == "!!null" || p.node.Value == "":
			r.fault(p, "must be text, not %s", found(p.node))
		case strings.ContainsFunc(p.node.Value, forbidden):
			r.fault(p, "must be text %s without control characters, not %s", form, found(p.node))
		default:
			*into = p.node.Value
		}
	}
}

// name reads a word that may stand in an id.
func (r *reader) name(into *string) func(spot) {
	return func(p spot) {
		v := p.node.Value
		ok := p.node.Kind == yaml.ScalarNode && v != "" && len(v) <= 100
		for i, c := range v {
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
			ok = ok && (letter || i > 0 && strings.ContainsRune("._:-", c))
		}
		if !ok {
			r.fault(p, "must be letters, digits and . _ : -, beginning with a letter or a digit, not %s", found(p.node))
			return
		}
		*into = v
	}
}

// names reads a list of words into a sorted set.
func (r *reader) names(into *[]string) func(spot) {
	return func(p spot) {
		var list []string
		r.list(p, func(item spot) {
			var s string
			r.name(&s)(item)
			list = append(list, s)
		})
		slices.Sort(list)
		*into = slices.Compact(list)
	}
}

// labels reads a mapping of words to text.
func (r *reader) labels(into *map[string]string) func(spot) {
	return func(p spot) {
		*into = make(map[string]string)
		r.entries(p, func(key string, _, value spot) {
			var s string
			r.text(&s)(value)
			(*into)[key] = s
		})
	}
}
