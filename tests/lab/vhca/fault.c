// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Faults on demand: every command of the control path passes through here
 * first, and may be made slow, or made to fail, or find its device dead.
 */
#include <linux/delay.h>
#include <linux/string.h>

#include "vhca.h"

static const char * const vhca_cmd_names[VHCA_CMD_COUNT] = {
	[VHCA_CMD_OPEN_CTX]	= "open_ctx",
	[VHCA_CMD_ALLOC_PD]	= "alloc_pd",
	[VHCA_CMD_DEALLOC_PD]	= "dealloc_pd",
	[VHCA_CMD_ALLOC_XRCD]	= "alloc_xrcd",
	[VHCA_CMD_DEALLOC_XRCD]	= "dealloc_xrcd",
	[VHCA_CMD_REG_MR]	= "reg_mr",
	[VHCA_CMD_DEREG_MR]	= "dereg_mr",
	[VHCA_CMD_CREATE_CQ]	= "create_cq",
	[VHCA_CMD_RESIZE_CQ]	= "resize_cq",
	[VHCA_CMD_DESTROY_CQ]	= "destroy_cq",
	[VHCA_CMD_CREATE_SRQ]	= "create_srq",
	[VHCA_CMD_MODIFY_SRQ]	= "modify_srq",
	[VHCA_CMD_QUERY_SRQ]	= "query_srq",
	[VHCA_CMD_DESTROY_SRQ]	= "destroy_srq",
	[VHCA_CMD_CREATE_QP]	= "create_qp",
	[VHCA_CMD_MODIFY_QP]	= "modify_qp",
	[VHCA_CMD_QUERY_QP]	= "query_qp",
	[VHCA_CMD_DESTROY_QP]	= "destroy_qp",
};

/* "any" stands for all classes together; it is the last slot of the rules. */
static int vhca_rule_index(const char *name)
{
	int found = match_string(vhca_cmd_names, VHCA_CMD_COUNT, name);

	if (found >= 0)
		return found;
	return strcmp(name, "any") ? -EINVAL : VHCA_CMD_COUNT;
}

void vhca_faults_init(struct vhca_dev *dev)
{
	spin_lock_init(&dev->faults.lock);
}

/* The @nth command of this class from now on fails, once; 0 takes it back. */
int vhca_fault_fail(struct vhca_dev *dev, const char *name, u32 nth, u32 error)
{
	int i = vhca_rule_index(name);

	if (i < 0 || (nth && (!error || error > MAX_ERRNO)))
		return -EINVAL;
	spin_lock(&dev->faults.lock);
	dev->faults.rule[i].countdown = nth;
	dev->faults.rule[i].error = error;
	spin_unlock(&dev->faults.lock);
	return 0;
}

/* Every command of this class takes so long; 0 takes it back. */
int vhca_fault_delay(struct vhca_dev *dev, const char *name, u32 ms)
{
	int i = vhca_rule_index(name);

	if (i < 0 || ms > VHCA_MAX_DELAY_MS)
		return -EINVAL;
	spin_lock(&dev->faults.lock);
	dev->faults.rule[i].delay_ms = ms;
	spin_unlock(&dev->faults.lock);
	return 0;
}

static int vhca_rule_apply(struct vhca_rule *rule, u32 *delay_ms)
{
	*delay_ms += rule->delay_ms;
	if (!rule->countdown || --rule->countdown)
		return 0;
	return -rule->error;
}

/*
 * Called before a command does anything.  The delay cannot be interrupted, as
 * that of a command which firmware has taken cannot.  A dead device refuses
 * everything but destruction: that has to succeed, or nobody could clean up.
 */
int vhca_cmd(struct ib_device *ibdev, enum vhca_cmd cmd)
{
	struct vhca_dev *dev = to_vdev(ibdev);
	u32 delay_ms = 0;
	int err, any;

	spin_lock(&dev->faults.lock);
	err = vhca_rule_apply(&dev->faults.rule[cmd], &delay_ms);
	any = vhca_rule_apply(&dev->faults.rule[VHCA_CMD_COUNT], &delay_ms);
	spin_unlock(&dev->faults.lock);
	if (delay_ms)
		msleep(delay_ms);
	if (READ_ONCE(dev->dead))
		return cmd < VHCA_CMD_FIRST_DESTROY ? -EIO : 0;
	return err ? err : any;
}

/* No message leaves or reaches the device any more, and no port event follows. */
void vhca_device_die(struct vhca_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
	};

	if (xchg(&dev->dead, true))
		return;
	ib_dispatch_event(&event);
}
