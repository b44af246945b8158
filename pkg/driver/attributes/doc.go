// Package attributes reads and changes the settings that system firmware shows through the kernel's class firmware-attributes, whichever
// driver updates the firmware.
package attributes
