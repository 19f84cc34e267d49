// Package preflight looks at a machine before the agent touches it: `journalet check` prints what it finds, and the
// agent refuses to start where two agents would fight over one runtime. It only looks: it makes no folder, loads no
// module and sets nothing; each check that fails says what its reader can type. Every check reads below a root, so that
// tests can make up a machine. Start reading at Run in preflight.go; kubelet.go is the one check that start-up obeys.
package preflight
