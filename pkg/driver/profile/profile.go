package profile

import (
	"regexp"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Profile is what one file declares. It is made by Parse, which checks it.
type Profile struct {
	// Name is the driver's name.
	Name string
	// Version is to be changed with every change of the file.
	Version string
	// Match says which devices the profile is for.
	Match Match
	// Inspect reads a device.
	Inspect Query
	// Check reads an image; nil when the tool cannot.
	Check *Query
	// Write stages an image; nil when the device can only be read.
	Write *Change
	// Activate makes a staged image run; nil when the tool cannot.
	Activate *Change
	// Activation is what a written image needs before it runs.
	Activation inventory.Activation
	// Format declares how the device's versions order.
	Format inventory.VersionFormat
	// Rollback is None or Image.
	Rollback inventory.Rollback
	// ReadOnly says why there is no Write.
	ReadOnly string
}

// Match chooses devices. Of each list that is not empty one entry has to be the device's; case does not matter.
type Match struct {
	Class     inventory.Class
	Support   driver.Support
	Vendors   []string
	VendorIDs []string
	DeviceIDs []string
	// SubsystemVendorIDs tell the boards of those apart who build them around one chip; of storage controllers alone.
	SubsystemVendorIDs []string
	Models             []string
	Transport          string
}

// Query is a run of a tool that changes nothing, and how its output is read.
type Query struct {
	Argv    []template
	Timeout time.Duration
	Exits   Exits
	Format  Format
	Fields  map[string]Field
	Expect  []Expectation
}

// Change is a run of a tool that writes to the device.
type Change struct {
	Argv    []template
	Timeout time.Duration
	Exits   Exits
	// Format and Expect say how the output of a tool is judged whose exit code lies; of Write alone.
	Format Format
	Expect []Expectation
	// Progress finds percentages in a line of the output; nil for none.
	Progress *regexp.Regexp
	// Kind is the kind of activation; of Activate alone.
	Kind inventory.Activation
}

// Format is how the output of a tool is structured.
type Format string

// The formats.
const (
	JSON  Format = "json"
	XML   Format = "xml"
	Regex Format = "regex"
)

// Field is where a value stands in the output.
type Field struct {
	// Path leads to the value in JSON and XML.
	Path []step
	// Pattern has one group, which is the value: of what is at the path, or of the whole output.
	Pattern *regexp.Regexp
	// Optional fields may be missing.
	Optional bool
}

// Expectation is a value that must be one of several.
type Expectation struct {
	Field
	Is []string
}

// Exits sorts exit codes. One that is in no class is a failure.
type Exits struct {
	// OK, Already, Rejected and Retry list codes.
	OK, Already, Rejected, Retry []int
	// Pending codes say that it worked and what it needs to take effect.
	Pending map[int]inventory.Activation
	// Fail codes come with what the tool's documentation says of them.
	Fail map[int]string
}

// The names of fields.
const (
	fieldRunning      = "running"
	fieldStored       = "stored"
	fieldBoardID      = "boardID"
	fieldModel        = "model"
	fieldPartNumber   = "partNumber"
	fieldSerialNumber = "serialNumber"
	fieldUniqueID     = "uniqueID"
	fieldNumber       = "number"
	fieldVersion      = "version"
)
