// Package defect contains a panic in work that is one pod's (ADR 115): the work fails, and other pods go on.
package defect
