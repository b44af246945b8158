package deploy

// Files are the manifests as they are built in, and Decode reads objects.
var (
	Files  = files
	Decode = decode
)
