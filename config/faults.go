package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"taskbus/config/yamlconf"
)

// Fault is one thing that is wrong with the configuration. Its Source is the file's name, or "environment"; its Path
// leads to the setting, or names the variable.
type Fault = yamlconf.Fault

// Faults is the error of everything that reads a configuration.
type Faults = yamlconf.Faults

// briefFaults is how many faults Brief gives in full.
const briefFaults = 3

// Brief is what is wrong, for where there is little room: of the faults of a configuration the first
// three, how many more there are, and how to see them all. Of another error it is its text. It is one line.
func Brief(err error) string {
	var faults *Faults
	if !errors.As(err, &faults) || len(faults.List) <= briefFaults+1 {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	var b strings.Builder
	for _, f := range faults.List[:briefFaults] {
		b.WriteString(f.String())
		b.WriteString("; ")
	}
	var files []string
	for _, f := range faults.List {
		if f.Source != environment && !slices.Contains(files, f.Source) {
			files = append(files, f.Source)
		}
	}
	fmt.Fprintf(&b, "and %d more; taskbus check %s", len(faults.List)-briefFaults, strings.Join(files, " "))
	return b.String()
}
