package toolcontract

import (
	"regexp"
	"strings"
)

// Tool is a program that drivers run, and its part of the contract.
type Tool struct {
	// Name is the program's base name.
	Name string
	// VersionArgs make it print its version, which is the first group of VersionText.
	VersionArgs []string
	VersionText *regexp.Regexp
	// Marks classify an answer: the first whose text the answer has decides.
	Marks []Mark
	Cases []Case
}

// Mark says what a text in a tool's output means.
type Mark struct {
	Text  string
	Class Class
}

// Case is one command line, run where the hardware that it names does not exist.
type Case struct {
	// Name says what the command line is for.
	Name string
	// Args may have placeholders; see World.
	Args []string
	// Env are variables that the tool gets beside LC_ALL=C, as KEY=VALUE.
	Env []string
	// Want is the answer.
	Want Want
	// On are other answers, on machines of which a condition is true.
	On map[Condition]Want
}

// Want is what is known of an answer in every version of the tool that is supported.
type Want struct {
	Class Class
	Exit  int
	// Text is part of standard output or standard error, with placeholders.
	Text string
}

// Class is the kind of an answer.
type Class string

// The classes of answers.
const (
	// Done: the tool did what it was asked to.
	Done Class = "Done"
	// Usage: the tool does not know the command line.
	Usage Class = "Usage"
	// NoDevice: the tool knows the command line, and finds no such device.
	NoDevice Class = "NoDevice"
	// NoFile and BadFile: there is no such image file, or the tool cannot use it.
	NoFile  Class = "NoFile"
	BadFile Class = "BadFile"
	// Refused: the tool knows the command line, and does not do this on this machine or in this state.
	Refused Class = "Refused"
	// Locked: another process uses the device or the tool's own lock.
	Locked Class = "Locked"
	// Unclear: the answer has no mark and the exit code is not 0.
	Unclear Class = "Unclear"
)

// Condition is a property of a machine that changes the answers of a tool.
type Condition string

// The conditions. Where several are true, the first of this order that a case names decides.
const (
	// SecureBoot: mokutil, if it is installed, reports that Secure Boot is on.
	SecureBoot Condition = "secure-boot"
	// Virtual: lscpu, if it is installed, names a hypervisor.
	Virtual Condition = "virtual"
	// NoDevlink: the kernel is built without devlink.
	NoDevlink Condition = "no-devlink"
)

func conditions() []Condition { return []Condition{SecureBoot, Virtual, NoDevlink} }

// want is the answer on a machine of which the conditions are true.
func (c Case) want(on []Condition) Want {
	for _, known := range conditions() {
		for _, is := range on {
			if w, ok := c.On[known]; ok && is == known {
				return w
			}
		}
	}
	return c.Want
}

// Classify says what kind of answer it is.
func (t Tool) Classify(a Answer) Class {
	for _, m := range t.Marks {
		if strings.Contains(a.Stdout+a.Stderr, m.Text) {
			return m.Class
		}
	}
	if a.Exit == 0 {
		return Done
	}
	return Unclear
}
