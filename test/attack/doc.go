// Package attack attacks a real agent on a real containerd as a container, a manifest, a server or a peer can, and
// judges each attack by the same rules (attack_test.go): other pods start in time meanwhile, the agent's memory stays
// bounded, it does not restart, and it keeps no descriptor, goroutine or process of the attack.
//
// `make attack` runs it (root), with ARGS=-attack.short an attack of each kind, in two minutes: short_test.go lists
// them. In tenants_*_test.go tenants of a cluster attack, with what its API server lets through, and other tenants are
// the judges. They use an API server in memory, or with ARGS=-attack.kubeconfig=FILE the API server of `make cluster`:
// `go run ./test/cluster/lab kubeconfig` prints the file.
//
// A new input of the agent gets a case here: in containers_test.go what a container does, in manifests_test.go what a
// file or URL holds, in peers_test.go what a client or server does, in tenants_pods_test.go what an object of the API
// server holds. Start with attack_test.go.
package attack
