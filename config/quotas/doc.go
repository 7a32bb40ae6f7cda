// Package quotas answers "how much may groups use?".
//
// quotas.yaml is read into lists of what is written (file.go and the files beside it), the names in them are then
// linked (links.go), grown into trees of nodes (tree.go) and checked: what is promised must fit (checks.go).
//
// What operators and rules have changed of it since ([ControlledFile.With]) is put into its tree (controls.go;
// controltree.go: where things stand, controllimits.go, controlboost.go), which is then read as any file is.
//
// It must never read a file or the environment, give quotas that have a fault, or know of agents.yaml.
package quotas
