// Package pluginv1 is the contract between engine and plugin: the gRPC service, and adapters that make a remote plugin look like a local one.
package pluginv1

// What engine and plugin agree on before the first call, in the terms of go-plugin. The cookie keeps a person who
// starts a plugin by hand from waiting for nothing; it protects nothing.
const (
	MagicCookieKey   = "WEIR_PLUGIN"
	MagicCookieValue = "all-reduce-backend"
	ProtocolVersion  = 1
	PluginType       = "backends" // the key of the plugin set

	// LifelineFD is a pipe whose other end only the engine holds: at end of file the engine is gone.
	LifelineFD = 3
)
