// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * /sys/kernel/debug/vhca/<device>/: the two faults that a test must be able to
 * cause at will, because no ordinary use of the device brings them about.
 *
 *   qp_fatal    write a QP number: that QP goes to the error state, IBV_EVENT_QP_FATAL
 *   port_state  write "up" or "down": all ports of the device, with their events
 */
#include <linux/debugfs.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "vhca.h"

static struct dentry *vhca_debugfs_root;

static ssize_t vhca_qp_fatal_write(struct file *file, const char __user *buf,
				   size_t len, loff_t *pos)
{
	struct vhca_dev *dev = file->private_data;
	struct vhca_qp *qp;
	u32 qpn;
	int err;

	err = kstrtou32_from_user(buf, len, 0, &qpn);
	if (err)
		return err;
	qp = vhca_qp_get(dev, qpn);
	if (!qp)
		return -ENOENT;

	mutex_lock(&qp->lock);
	vhca_qp_set_error(qp);
	vhca_qp_event(qp, IB_EVENT_QP_FATAL);
	mutex_unlock(&qp->lock);
	vhca_res_put(&qp->res);
	return len;
}

static const struct file_operations vhca_qp_fatal_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = vhca_qp_fatal_write,
};

static ssize_t vhca_port_state_write(struct file *file, const char __user *buf,
				     size_t len, loff_t *pos)
{
	struct vhca_dev *dev = file->private_data;
	enum ib_port_state state;
	char word[8] = {};
	u32 i;

	if (len >= sizeof(word))
		return -EINVAL;
	if (copy_from_user(word, buf, len))
		return -EFAULT;
	if (sysfs_streq(word, "up"))
		state = IB_PORT_ACTIVE;
	else if (sysfs_streq(word, "down"))
		state = IB_PORT_DOWN;
	else
		return -EINVAL;

	for (i = 0; i < dev->nports; i++)
		vhca_set_port_state(&dev->ports[i], state);
	return len;
}

static const struct file_operations vhca_port_state_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = vhca_port_state_write,
};

void vhca_debugfs_init(void)
{
	vhca_debugfs_root = debugfs_create_dir("vhca", NULL);
}

void vhca_debugfs_exit(void)
{
	debugfs_remove(vhca_debugfs_root);
}

void vhca_debugfs_add(struct vhca_dev *dev)
{
	dev->debugfs = debugfs_create_dir(dev_name(&dev->ibdev.dev),
					  vhca_debugfs_root);
	debugfs_create_file("qp_fatal", 0200, dev->debugfs, dev,
			    &vhca_qp_fatal_fops);
	debugfs_create_file("port_state", 0200, dev->debugfs, dev,
			    &vhca_port_state_fops);
}

/* Waits for writers, so the device may go after it. */
void vhca_debugfs_del(struct vhca_dev *dev)
{
	debugfs_remove(dev->debugfs);
}
