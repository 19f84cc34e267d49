module github.com/journalet/journalet/test/tools/supply

go 1.26.7

require (
	github.com/google/licensecheck v0.3.1
	golang.org/x/mod v0.41.0
	golang.org/x/vuln v1.8.0
)

require (
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/telemetry v0.0.0-20260908163034-4bcc4b2ee518 // indirect
	golang.org/x/tools v0.50.0 // indirect
)
