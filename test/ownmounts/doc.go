// Package ownmounts runs the tests of a package in a mount namespace of their own, so that they mount without privilege
// and leave nothing behind. It may not be used outside tests. Start reading at ownmounts.go.
package ownmounts
