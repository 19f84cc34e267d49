// This file lets link.go declare functions without a body: they are the kubelet's, found by the linker.
