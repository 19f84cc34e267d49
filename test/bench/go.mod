module github.com/journalet/journalet/test/bench

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/journalet/journalet v0.0.0-00010101000000-000000000000
	golang.org/x/exp v0.0.0-20260908205506-85c1c2202aba
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
	k8s.io/cri-api v0.37.2
)

require (
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace github.com/journalet/journalet => ../..
