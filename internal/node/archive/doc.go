// Package archive keeps on the host what ran on its devices before an update, so that it can be brought back. An archived
// image is a directory <device>/<version>_<bootID>[_unhealthy] with the image and a manifest.
package archive
