// Package node holds the node's configuration, in one struct for both sides, so that they cannot differ. Start
// reading at node.go.
package node
