// Package ns stands in for the package of this name of the CNI plugins: every network namespace exists and is empty.
//
// Multus enters the pod's network namespace before each ADD, to see that no link there has the name it is about to
// give. That takes root, and a namespace for each pod; in an empty one it never finds anything.
package ns

// NetNS is the part of a network namespace that Multus uses.
type NetNS interface {
	Do(look func(NetNS) error) error
	Close() error
}

type empty struct{}

// GetNS finds a namespace at any path.
func GetNS(string) (NetNS, error) { return empty{}, nil }

// Do does not look: there is nothing to be found.
func (empty) Do(func(NetNS) error) error { return nil }

// Close has nothing to close.
func (empty) Close() error { return nil }
