// Package services follows the Services of the cluster, and returns the variables that containers get of them (ADR
// 056). Of each Service it keeps the name, the cluster IP and the ports. Start reading at services.go.
package services
