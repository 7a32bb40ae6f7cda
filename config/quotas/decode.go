package quotas

import "taskbus/config/yamlconf"

// MaxBytes of a file: far above any real set of quotas, far below what would cost memory.
const MaxBytes = 16 << 20

var quotasFile = yamlconf.File{Name: "quotas.yaml", MaxBytes: MaxBytes,
	Holds: "quotas.yaml describes who may use how much, it holds no data", Begin: "write `{}` if there are no quotas"}

// decoder reads quotas.yaml.
type decoder struct {
	*yamlconf.Decoder
	// read is what is known of entries of groups and agents; nil: nothing.
	read *readEntries
}

func newDecoder(source string) *decoder {
	return &decoder{Decoder: &yamlconf.Decoder{Source: source, File: quotasFile}}
}

// A place of the file, and what reads one.
type (
	place   = yamlconf.Place
	reader  = yamlconf.Reader
	readers = yamlconf.Keys
)

// What names look like, beside yamlconf.ID.
var (
	aModel = yamlconf.NewForm(`^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$`,
		"a model of 1 to 128 letters, digits and . _ : @ / + -, beginning with a letter or digit")
	aCurrency = yamlconf.NewForm(`^[A-Z]{3}$`, "a currency of three capital letters such as EUR")
	aZone     = yamlconf.NewForm(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`, "a time zone such as Europe/Berlin, or UTC")
)
