package fairqueue

import (
	"fmt"

	"taskbus/coordinator"
)

// Node is one group of the tree that shares are counted in; the root is implicit.
type Node struct {
	// Name is unique and not empty.
	Name string
	// Parent is the index of a node before this one; -1: it is at the top.
	Parent int
	// Weight, 0 to MaxShareWeight, against that of its siblings. With 0 it is served when
	// no sibling with weight waits.
	Weight int64
}

// MaxWeight is the largest weight.
const MaxWeight = costBound

// OtherGroup is where tasks without a group go, and those of a group that there is not: a
// group of its own at the top, of weight 1, unless one of the tree's groups has that name.
const OtherGroup = "other"

// NodesOf returns the groups of the pool without a provider: by their weights the turns of
// tasks are shared.
func NodesOf(q *coordinator.Quotas) []Node {
	nodes := make([]Node, 0, len(q.Nodes))
	of := make([]int, len(q.Nodes)) // one more than the index among nodes; 0: it is none of them
	for i := range q.Nodes {
		n := &q.Nodes[i]
		if n.Kind != coordinator.QuotaGroup {
			continue
		}
		root := n.Parent
		for q.Nodes[root].Parent >= 0 {
			root = q.Nodes[root].Parent
		}
		if q.Nodes[root].Provider != "" {
			continue
		}
		nodes = append(nodes, Node{Name: n.Name, Parent: of[n.Parent] - 1, Weight: n.Weight})
		of[i] = len(nodes)
	}
	return nodes
}

// check says what is wrong with a tree. (A cycle is a parent that does not come first.)
func checkNodes(nodes []Node) error {
	names := make(map[string]bool, len(nodes))
	for i, n := range nodes {
		switch {
		case n.Name == "":
			return fmt.Errorf("group %d has no name", i)
		case names[n.Name]:
			return fmt.Errorf("there are two groups %q", n.Name)
		case n.Parent < -1 || n.Parent >= i:
			return fmt.Errorf("group %q: its parent must come before it", n.Name)
		case n.Weight < 0 || n.Weight > MaxWeight:
			return fmt.Errorf("group %q: its weight must be 0 to %d, not %d", n.Name, int64(MaxWeight), n.Weight)
		}
		names[n.Name] = true
	}
	return nil
}

// Install takes over another tree. An error says what is wrong with it; everything then stays
// as it was.
//
// A group that is in the tree already, below the same parent, keeps the cost that it is
// ahead of or behind its siblings: new weights act on what waits and not on what has been
// served. One below another parent begins there at the virtual time, as a new group does.
//
// Leaves have other numbers afterwards. Every Backlog must be rebuilt (see
// [Backlog.Rebuild]) before it, or anything of Shares, is used again.
func (s *Shares) Install(nodes []Node) error {
	if err := checkNodes(nodes); err != nil {
		return err
	}
	before := s.Export()
	s.build(nodes)
	s.Import(before)
	return nil
}

// build makes the groups, breadth first, so that siblings lie together in their given
// order; what stands for a parent's own tasks comes after its children.
func (s *Shares) build(nodes []Node) {
	s.groups = make([]group, 1, 2*len(nodes)+2)
	s.leaves = make(map[string]int32, len(nodes)+1)
	s.groups[0] = group{parent: -1, share: 1}

	children := make([][]int, len(nodes)+1) // of the node before: [0] those at the top
	named := false                          // a node has the name of the other group
	for i, n := range nodes {
		children[n.Parent+1] = append(children[n.Parent+1], i)
		named = named || n.Name == OtherGroup
	}
	of := []int{-1} // which node each group is
	for at := 0; at < len(s.groups); at++ {
		first := len(s.groups)
		parent := &s.groups[at]
		add := func(name string, own bool, weight int64, node int) {
			s.groups = append(s.groups, group{name: name, own: own, weight: weight, share: max(weight, 1), parent: int32(at),
				depth: parent.depth + 1})
			of = append(of, node)
		}
		if node := of[at]; !parent.own && node < len(nodes) {
			for _, i := range children[node+1] {
				add(nodes[i].Name, false, nodes[i].Weight, i)
			}
			switch {
			case at > 0 && len(children[node+1]) > 0:
				add(parent.name, true, 1, len(nodes))
			case at == 0 && !named:
				add(OtherGroup, false, 1, len(nodes))
			}
		}
		parent = &s.groups[at] // append may have moved it
		parent.first, parent.end = int32(first), int32(len(s.groups))
		if first == len(s.groups) {
			s.leaves[parent.name] = int32(at)
		}
	}
	s.other = s.leaves[OtherGroup]
}

// Leaf returns the leaf that tasks of a group are charged to: of an inner group a child of its
// own, of weight 1, that stands for them; of "" and of a group that there is not that of
// OtherGroup. It is good until the next Install or Import.
func (s *Shares) Leaf(group string) int {
	if leaf, known := s.leaves[group]; known {
		return int(leaf)
	}
	return int(s.other)
}

// Name returns the group of the tasks that are charged to the leaf.
func (s *Shares) Name(leaf int) string { return s.groups[leaf].name }

// Leaves is one more than the highest number of a leaf.
func (s *Shares) Leaves() int { return len(s.groups) }
