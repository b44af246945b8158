package scsi

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// Every command line of this driver is one that the real tools were asked, too.
func TestCommandsAreInContract(t *testing.T) {
	const device, image, size = "/dev/sg4095", "{blank}", 4096
	toolcontract.Covers(t, ".", map[string][][]string{
		"standardInquiry": {standardInquiry(device).Argv},
		"serialPage":      {serialPage(device).Argv},
		"extendedPage":    {extendedPage(device).Argv},
		"scanPage":        {scanPage(device).Argv},
		"descriptor":      {descriptor(device).Argv},
		"supportsAny":     {supportsAny(device).Argv},
		"supports": {
			supports(device, modeSave).Argv, supports(device, modeSelect).Argv, supports(device, modeDefer).Argv,
			supports(device, modeActivate).Argv,
		},
		"download": {
			download(device, image, "", size, transfer{modeSave, 0, usualPiece}).Argv,
			download(device, image, "", size, transfer{modeSelect, eventPowerOn | eventHardReset, usualPiece}).Argv,
			download(device, image, "", size, transfer{modeDefer, 0, usualPiece}).Argv,
		},
		"activate":            {activate(device, "").Argv},
		"requestSense":        {requestSense(device).Argv},
		"characteristicsPage": {characteristicsPage(device).Argv},
		"offers": {
			offers(device, actionCrypto).Argv, offers(device, actionBlock).Argv, offers(device, actionOverwrite).Argv, offers(device, actionExit).Argv,
		},
		"reportLUNs": {reportLUNs(device).Argv},
		"readKeys":   {readKeys(device).Argv},
		"sanitize": {
			sanitize(device, "", actionCrypto, true).Argv, sanitize(device, "", actionCrypto, false).Argv, sanitize(device, "", actionBlock, true).Argv,
			sanitize(device, "", actionOverwrite, true).Argv,
		},
	}, toolcontract.SG()...)
}
