// Package fieldset writes statuses, and the firmware that a device should run. Every part of a status has one field manager
// and one function here, which sends the part whole by server-side apply: what it leaves out is removed, and nothing that
// another manager owns is touched.
package fieldset
