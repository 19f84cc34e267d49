// Package terminal runs programs in a terminal of their own, for tests of what a person would see and type.
package terminal
