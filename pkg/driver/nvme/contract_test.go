package nvme

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
)

// Every command line of nvme-cli that this driver builds is one that the real tool was asked, too. What the target builds is
// for firmware-nvme, which is a part of this product.
func TestCommandsAreInContract(t *testing.T) {
	const device = "/dev/nvme4095"
	own := toolcontract.Tool{Name: nvmetool.Name, Cases: []toolcontract.Case{{Args: target{node: "n"}.command("reset").Argv[1:]}}}
	toolcontract.Covers(t, ".", map[string][][]string{
		"cliIdentify":    {cliIdentify(device).Argv},
		"cliHealthLog":   {cliHealthLog(device).Argv},
		"cliSlotLog":     {cliSlotLog(device).Argv},
		"cliSanitizeLog": {cliSanitizeLog(device).Argv},
		"cliSanitize": {
			cliSanitize(device, "", admin.BlockErase).Argv, cliSanitize(device, "", admin.Overwrite).Argv, cliSanitize(device, "", admin.CryptoErase).Argv,
		},
		"cliDownload": {cliDownload(device, "{blank}", "", 0, nil).Argv, cliDownload(device, "{blank}", "", 4096, nil).Argv},
		"cliCommit": {
			cliCommit(device, "", 2, admin.ReplaceAtReset).Argv, cliCommit(device, "", 1, admin.ActivateAtReset).Argv,
			cliCommit(device, "", 2, admin.ActivateNow).Argv,
		},
		"cliReset": {cliReset(device, "").Argv},
		"command":  {target{node: "n"}.command("reset").Argv},
	}, toolcontract.NVMe(), own)
}
