// Package archive keeps the previous firmware of devices on the host, so that it can be restored after an update. An
// archived image is a directory <device>/<version>_<bootID>[_unhealthy] with the image and a manifest.
package archive
