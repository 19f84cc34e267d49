// Command witness is what the containers of chaos tests with a cluster run, from a directory of the host that all of
// them mount. It records there what happens in the containers, whatever the agent and the API server report: each run,
// each end of work, two of them at once under one pod name, and a mount that is missing. Nothing else has it. Start
// reading at main.
package main
