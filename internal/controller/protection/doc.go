// Package protection keeps a FirmwareJob that may have begun until its node has let go of it and the operator has recorded
// what it reported, and certifies the drives that it erased.
package protection
