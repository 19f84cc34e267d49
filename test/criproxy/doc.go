// Package criproxy is a proxy between an agent and its runtime. It records every CRI call, with its method, begin and
// end. It holds the calls that a test or a benchmark names, adds events to the runtime's, and can respond to ExecSync
// itself, because running commands costs a machine more than any agent. It changes no byte of other calls, and decodes
// messages only for their pod's name. Only for tests. Start with proxy.go.
package criproxy
