package quotas

import (
	"gopkg.in/yaml.v3"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
)

// Parse reads the text of a quotas.yaml. source names it in faults. The error is always
// a *yamlconf.Faults.
func Parse(data []byte, source string) (_ *coordinator.Quotas, err error) {
	defer yamlconf.RefusePanic(source, &err)
	d := newDecoder(source)
	root := d.Parse(data)
	var q *coordinator.Quotas
	if root != nil {
		q, _ = d.quotaTree(root)
	}
	if err := yamlconf.ErrorOf(d.Faults); err != nil {
		return nil, err
	}
	q.Source = sourceOf(root)
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

// Describe is what is known of each key of quotas.yaml, by the readers.
func Describe() map[string]yamlconf.Facts {
	return yamlconf.Describe(func(y *yamlconf.Decoder, p place) { (&decoder{Decoder: y}).quotaRoot(newQuotaFile())(p) })
}

// sourceOf writes a file that was read without a fault once more, without comments; it has no place for a secret.
func sourceOf(root *yaml.Node) string { return yamlconf.Encode(yamlconf.WithoutComments(root)) }
