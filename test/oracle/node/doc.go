// Package node holds what both sides are told of the node: one struct, so that neither can be told anything else. Start
// reading at node.go.
package node
