package deploy

// Files are the manifests as they are built in.
var Files = files
