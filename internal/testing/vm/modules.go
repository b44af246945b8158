package vm

import "github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"

// The stock modules accept an update and ignore it. Both modules are built from Debian's source of the same kernel with
// as few changes as possible, so that the version of a device comes from the bytes of the image that arrived in the
// kernel by the tested mechanism. Both count the images in lab_writes. Nothing else is changed.

// netdevsim runs and stores versions that are parameters, and takes the first line of an image for the version that it
// stores once the flash went through. The running version changes when the module is loaded again, as at a reboot. With
// lab_fail set a flash fails midway, for which the stock module has no knob. A template selects the device by its
// serial number.
var netdevsim = rootfs.Source{
	Name: "netdevsim", Dir: "drivers/net/netdevsim", Files: []string{""}, Config: []string{"CONFIG_NETDEVSIM=m"},
	Edits: []rootfs.Edit{
		{File: "dev.c", Old: "static int nsim_dev_info_get(", New: `#include <linux/firmware.h>
static char fw_running[32] = "10.20.30", fw_stored[32] = "10.20.30";
module_param_string(fw_running, fw_running, sizeof(fw_running), 0644);
module_param_string(fw_stored, fw_stored, sizeof(fw_stored), 0644);
static int lab_writes;
static bool lab_fail;
module_param(lab_writes, int, 0444);
module_param(lab_fail, bool, 0644);
static void lab_store(const struct firmware *fw)
{
	size_t n = 0;

	while (n < fw->size && n < sizeof(fw_stored) - 1 && fw->data[n] > ' ')
		n++;
	memcpy(fw_stored, fw->data, n);
	fw_stored[n] = 0;
	lab_writes++;
}

static int nsim_dev_info_get(`},
		{
			File: "dev.c", Old: `err = devlink_info_version_stored_put_ext(req, "fw.mgmt", "10.20.30"`,
			New: `err = devlink_info_board_serial_number_put(req, "LABNETDEV1");
	if (err)
		return err;
	err = devlink_info_version_stored_put_ext(req, "fw.mgmt", fw_stored`,
		},
		{File: "dev.c", Old: `version_running_put_ext(req, "fw.mgmt", "10.20.30"`, New: `version_running_put_ext(req, "fw.mgmt", fw_running`},
		{
			File: "dev.c", Old: "\treturn 0;\n}\n\nstatic struct nsim_trap_item *\n",
			New: "\tlab_store(params->fw);\n\treturn 0;\n}\n\nstatic struct nsim_trap_item *\n",
		},
		{
			File: "dev.c", Old: "\t\tmsleep(NSIM_DEV_FLASH_CHUNK_TIME_MS);\n",
			New: "\t\tmsleep(NSIM_DEV_FLASH_CHUNK_TIME_MS);\n\t\tif (lab_fail && i == 100)\n\t\t\treturn -EIO;\n",
		},
	},
}

// scsiDebug reports the supported modes of WRITE BUFFER, which the stock module does not, so that the driver rightly
// does not write that one. Mode 0x0e keeps the first four bytes of an image as the revision to come, mode 0x0f makes
// them the revision of the INQUIRY and reports that the microcode changed.
var scsiDebug = rootfs.Source{
	Name: "scsi_debug", Dir: "drivers/scsi", Files: []string{"scsi_debug.c", "sd.h", "scsi_logging.h"},
	Edits: []rootfs.Edit{
		{File: "scsi_debug.c", Old: "static const struct opcode_info_t sa_in_16_iarr[] = {", New: `static u8 lab_pending[4];
static int lab_writes;
module_param(lab_writes, int, 0444);
static const struct opcode_info_t write_buffer_iarr[] = {
	{0, 0x3b, 0xf, F_SA_LOW | F_D_OUT_MAYBE, resp_write_buffer, NULL,
	    {10,  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc7, 0, 0, 0, 0, 0, 0} },
};

static const struct opcode_info_t sa_in_16_iarr[] = {`},
		{
			File: "scsi_debug.c", Old: "{0, 0x3b, 0, F_D_OUT_MAYBE, resp_write_buffer, NULL,",
			New: "{ARRAY_SIZE(write_buffer_iarr), 0x3b, 0xe, F_SA_LOW | F_D_OUT_MAYBE, resp_write_buffer, write_buffer_iarr,",
		},
		{File: "scsi_debug.c", Old: "\tcase 0x4:\t/* download microcode (MC) and activate (ACT) */", New: `	case 0xe:
		if (!(cmd[3] | cmd[4] | cmd[5]) && scsi_bufflen(scp) >= sizeof(lab_pending)) {
			fetch_to_dev_buffer(scp, lab_pending, sizeof(lab_pending));
			lab_writes++;
		}
		break;
	case 0xf:
		if (lab_pending[0]) {
			memcpy(sdebug_inq_product_rev, lab_pending, sizeof(lab_pending));
			set_bit(SDEBUG_UA_MICROCODE_CHANGED_WO_RESET, devip->uas_bm);
		}
		break;
	case 0x4:	/* download microcode (MC) and activate (ACT) */`},
	},
}
