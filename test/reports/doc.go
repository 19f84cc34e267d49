// Package reports tries what people reported of kubelets and other node agents, on a real containerd and as a node of a
// cluster: each report is a test, or a row of one, that says where it comes from. docs/REPORTS.md has the table.
//
//	make reports                  # our agent, on the lab "reports"
//	make reports AGENT=kubelet    # the kubelet of the same release: what it does with the same pods
//
// One control plane and one node serve all tests (machine_test.go). A test has a namespace of its own and creates its
// pods there through a place (place_test.go): as pods of the API server that are bound to the node, or as manifests in
// the node's static pod directory, whose status the API server has as well. Start reading at everywhere.
//
// What a report asks of the agent is tested at a lower tier, too. Here is the proof that people see the same.
package reports
