// Package trace names the trace that a FirmwareJob belongs to. The ids are derived from what the API server has, so that whoever asks gets
// the same ones, whenever a program was killed. It exports nothing: package export does, in the operator alone.
package trace
