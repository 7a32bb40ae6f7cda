package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

//go:embed quotas.schema.json
var quotasSchema []byte

// QuotasSchema is the JSON Schema (draft-07) of quotas.yaml, for editors and for
// `taskbus check --schema quotas`. The caller owns the copy.
func QuotasSchema() []byte { return bytes.Clone(quotasSchema) }

// ParseQuotas reads the text of a quotas.yaml. source names it in faults. The error is always
// a *Faults.
func ParseQuotas(data []byte, source string) (_ *coordinator.Quotas, err error) {
	defer yamlconf.RefusePanic(source, &err)
	d := newDecoder(source, quotasFile)
	root := d.Parse(data)
	var q *coordinator.Quotas
	if root != nil {
		q, _ = d.quotaTree(root)
	}
	if err := yamlconf.ErrorOf(d.Faults); err != nil {
		return nil, err
	}
	q.Source = quotasSourceOf(root)
	return q, nil
}

// quotaTree reads the tree of a whole file. What it gives is of use if there are no faults.
func (d *decoder) quotaTree(root *yaml.Node) (*coordinator.Quotas, *grower) {
	f := newQuotaFile()
	d.quotaRoot(f)(place{Node: root})
	d.Check()
	d.link(f)
	g := d.grow(f)
	if len(d.Faults) == 0 {
		g.checkSums()
		g.bounded.check(d)
	}
	f.quotas.Nodes, f.quotas.Loss = g.nodes, f.lost()
	return f.quotas, g
}

// LoadQuotas reads quotas.yaml from path. The error is a *Faults, or says why the file cannot
// be read.
func LoadQuotas(path string) (*coordinator.Quotas, error) {
	data, err := readRegular(path, maxQuotaBytes+1)
	if err != nil {
		return nil, fmt.Errorf("read the quotas: %w", err)
	}
	return ParseQuotas(data, path)
}

// quotasName is the file that is looked for beside agents.yaml.
const quotasName = "quotas.yaml"

// SearchQuotas finds quotas.yaml: the flag --quotas if it is not empty, else the variable
// TASKBUS_QUOTAS if it is not empty, else quotas.yaml beside the agents.yaml at beside. A place
// that was named must exist. Without a name there need not be a file: path is then where it
// would be, and found is false.
func SearchQuotas(flag string, getenv func(string) string, beside string) (path string, found bool, err error) {
	named, by := flag, "--quotas"
	if named == "" {
		named, by = getenv(envQuotas), envQuotas
	}
	if named != "" {
		if err := readableFile(named); err != nil {
			return "", false, fmt.Errorf("find the quotas named by %s: %w", by, err)
		}
		return named, true, nil
	}
	path = filepath.Join(filepath.Dir(beside), quotasName)
	switch err := readableFile(path); {
	case err == nil:
		return path, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	default:
		return "", false, fmt.Errorf("find the quotas: %w", err)
	}
}

// WithQuotas is this configuration with these quotas, nil for none, in the place of those
// that it has.
func (c *Config) WithQuotas(q *coordinator.Quotas) *Config {
	changed := *c
	changed.policy.Quotas = q
	changed.lanesOf(q)
	changed.lanesAbove(q)
	changed.setVersion()
	changed.setSource()
	return &changed
}

// WithChangedQuotas is WithQuotas for the quotas of the files with standing changes to them: the
// configuration stays one of the same files.
func (c *Config) WithChangedQuotas(q *coordinator.Quotas) *Config {
	changed := c.WithQuotas(q)
	changed.fileVersion, changed.quotas = c.fileVersion, c.quotas
	return changed
}

// LoadWithQuotas is Load together with LoadQuotas; quotas is the path of quotas.yaml, empty
// for none. A *Faults has the faults of both files.
func LoadWithQuotas(path, quotas string, env Environment) (_ *Config, err error) {
	c, err := Load(path, env)
	if quotas == "" {
		return c, err
	}
	q, quotasErr := LoadQuotas(quotas)
	if err := both(err, quotasErr); err != nil {
		return nil, err
	}
	defer yamlconf.RefusePanic(quotas, &err)
	return c.WithQuotas(q), nil
}

// both makes one error of two. Faults stay faults: together, in the order of the files.
func both(first, second error) error {
	var a, b *Faults
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	case errors.As(first, &a) && errors.As(second, &b):
		return &Faults{List: append(append([]Fault(nil), a.List...), b.List...)}
	default:
		return errors.Join(first, second)
	}
}

// appendQuotas writes down what quotas say, for the version.
func appendQuotas(text []byte, q *coordinator.Quotas) []byte {
	zone := q.Location
	if zone == nil {
		zone = time.UTC
	}
	text = fmt.Appendf(text, " %q %d %d %d %d %#v %v", zone, q.RepayPercent, q.ReservationTTL, q.TombstoneTTL,
		q.DefaultOutput, q.Prices, q.Routing)
	if !slices.Equal(q.AlertPercents, defaultQuotas().AlertPercents) {
		text = fmt.Appendf(text, " alerts %d", q.AlertPercents)
	}
	if q.Unpriced != coordinator.UnpricedRefuse {
		text = fmt.Appendf(text, " unpriced %d %v", q.Unpriced, q.UnpricedPrice)
	}
	if q.AnyCaller {
		text = append(text, " any caller"...)
	}
	if q.Adjustment.Idle != nil {
		text = fmt.Appendf(text, " %#v", *q.Adjustment.Idle)
	}
	if q.Adjustment.Slow != nil {
		text = fmt.Appendf(text, " %#v", *q.Adjustment.Slow)
	}
	// Thousands of groups and agents have the same: = stands for what the one before has.
	written, borrowing := limitTexts{written: make(map[coordinator.QuotaLimit]string)}, coordinator.Borrowing{}
	text = slices.Grow(text, 128*len(q.Nodes))
	nodes := slices.Concat(q.Nodes, q.Loss)
	for i := range nodes {
		n := &nodes[i]
		text = strconv.AppendQuote(append(text, ' '), n.ID)
		text = strconv.AppendInt(append(text, ' '), int64(n.Kind), 10)
		text = strconv.AppendInt(append(text, ' '), int64(n.Parent), 10)
		text = strconv.AppendQuote(append(text, ' '), n.Provider)
		text = strconv.AppendQuote(append(text, ' '), n.Model)
		text = strconv.AppendInt(append(text, ' '), n.Weight, 10)
		if n.Borrowing == borrowing {
			text = append(text, " ="...)
		} else {
			borrowing = n.Borrowing
			text = fmt.Appendf(text, " %#v", borrowing)
		}
		for dim := range n.Budgets {
			text = written.append(written.append(text, 2*dim, n.Budgets[dim]), 2*dim+1, n.Rates[dim])
		}
		text = written.append(text, 2*len(n.Budgets), n.Seats)
		for k := range n.Beside {
			text = fmt.Appendf(text, " beside %d", n.Beside[k].Dimension)
			text = written.append(text, 2*int(n.Beside[k].Dimension), &n.Beside[k].QuotaLimit)
		}
	}
	return text
}

// limitTexts are limits as they are written down.
type limitTexts struct {
	written map[coordinator.QuotaLimit]string
	before  [2*coordinator.NumDimensions + 1]*coordinator.QuotaLimit // the latest of each sort
}

func (t *limitTexts) append(text []byte, sort int, l *coordinator.QuotaLimit) []byte {
	before := t.before[sort]
	switch {
	case l == nil:
		return append(text, " -"...)
	case before != nil && *before == *l:
		return append(text, " ="...)
	}
	t.before[sort] = l
	written, known := t.written[*l]
	if !known {
		written = fmt.Sprintf(" %#v", *l)
		t.written[*l] = written
	}
	return append(text, written...)
}
