package messages

import (
	"iter"
	"reflect"
	"strings"

	"taskbus/coordinator"
	"taskbus/messages/internal/jsontext"
)

// Carried is [coordinator.Carried], for agents, which know no more of that package than this one shows.
type Carried = coordinator.Carried

// carriedField is one field of Carried, as its tags have it.
type carriedField struct {
	key      string
	index    int
	required bool // in a dispatch and the events of its end
	read     func(*scanner) (string, bool)
}

// texts are the words of the tag `text`, each with the reader of the fast path. A test holds them against the schemas.
var texts = map[string]func(*scanner) (string, bool){
	"name": func(s *scanner) (string, bool) { return s.name("") },
	"printable": func(s *scanner) (string, bool) {
		raw, ok := s.printable()
		return string(raw), ok
	},
}

// carriedFields are the fields of Carried, in their order.
var carriedFields = func() (all []carriedField) {
	t := reflect.TypeFor[Carried]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key, omitted, _ := strings.Cut(tag.Get("json"), ",")
		all = append(all, carriedField{key, i, omitted == "", texts[tag.Get("text")]})
	}
	return all
}()

// Texts gives the keys and texts of c that are not empty.
func Texts(c *Carried) iter.Seq2[string, string] {
	return func(yield func(key, text string) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range carriedFields {
			f := &carriedFields[i]
			if text := v.Field(f.index).String(); text != "" && !yield(f.key, text) {
				return
			}
		}
	}
}

// appendCarried appends the fields of c that are not empty.
func appendCarried(dst []byte, c *Carried) []byte {
	for key, text := range Texts(c) {
		dst = appendField(dst, key, text)
	}
	return dst
}

// carried reads a field of Carried, or one that is unknown.
func (s *scanner) carried(c *Carried, key jsontext.Text, known []string) (required, ok bool) {
	for i := range carriedFields {
		if f := &carriedFields[i]; string(key.Raw) == f.key {
			text, ok := f.read(s)
			reflect.ValueOf(c).Elem().Field(f.index).SetString(text)
			return f.required, ok
		}
	}
	return false, s.unknown(key, known)
}
