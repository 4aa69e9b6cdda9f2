// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * /sys/kernel/debug/vhca/: the faults that a test must be able to cause at
 * will, because no ordinary use of the device brings them about.
 *
 *   plug, unplug      write N: the device vhcaN comes, or goes
 *
 * and for each device in a directory <device>/:
 *
 *   qp_fatal          write a QP number: it fails, IBV_EVENT_QP_FATAL
 *   port_state        write "up" or "down", and a port number if not all
 *   device_fatal      write anything: the device dies, IBV_EVENT_DEVICE_FATAL
 *   cmd_fail          write "CLASS N ERRNO": the N-th command of the class fails
 *   cmd_delay         write "CLASS MS": each command of the class takes so long
 *
 * fault.c has the names of the classes.
 */
#include <linux/debugfs.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "vhca.h"

static struct dentry *vhca_debugfs_root;
static struct dentry *vhca_debugfs_plug;
static struct dentry *vhca_debugfs_unplug;

#define VHCA_LINE	64

/* Each file is written as one line, which its function @done acts upon. */
static ssize_t vhca_write(struct file *file, const char __user *buf, size_t len,
			  int (*done)(struct vhca_dev *dev, char *line))
{
	char line[VHCA_LINE] = {};
	int err;

	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, buf, len))
		return -EFAULT;
	err = done(file->private_data, strim(line));
	return err ? err : len;
}

#define VHCA_FILE(name)							\
static ssize_t vhca_##name##_write(struct file *file,			\
				   const char __user *buf, size_t len,	\
				   loff_t *pos)				\
{									\
	return vhca_write(file, buf, len, vhca_on_##name);		\
}									\
static const struct file_operations vhca_##name##_fops = {		\
	.owner = THIS_MODULE,						\
	.open = simple_open,						\
	.write = vhca_##name##_write,					\
}

static int vhca_on_qp_fatal(struct vhca_dev *dev, char *line)
{
	struct vhca_qp *qp;
	u32 qpn;
	int err;

	err = kstrtou32(line, 0, &qpn);
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
	return 0;
}
VHCA_FILE(qp_fatal);

static int vhca_on_port_state(struct vhca_dev *dev, char *line)
{
	enum ib_port_state state;
	u32 port = 0, i;
	char word[8];

	if (sscanf(line, "%7s %u", word, &port) < 1 || port > dev->nports)
		return -EINVAL;
	if (!strcmp(word, "up"))
		state = IB_PORT_ACTIVE;
	else if (!strcmp(word, "down"))
		state = IB_PORT_DOWN;
	else
		return -EINVAL;

	for (i = 0; i < dev->nports; i++)
		if (!port || port == i + 1)
			vhca_set_port_state(&dev->ports[i], state);
	return 0;
}
VHCA_FILE(port_state);

static int vhca_on_device_fatal(struct vhca_dev *dev, char *line)
{
	vhca_device_die(dev);
	return 0;
}
VHCA_FILE(device_fatal);

static int vhca_on_cmd_fail(struct vhca_dev *dev, char *line)
{
	char class[16];
	u32 nth, error = 0;

	if (sscanf(line, "%15s %u %u", class, &nth, &error) < 2)
		return -EINVAL;
	return vhca_fault_fail(dev, class, nth, error);
}
VHCA_FILE(cmd_fail);

static int vhca_on_cmd_delay(struct vhca_dev *dev, char *line)
{
	char class[16];
	u32 ms;

	if (sscanf(line, "%15s %u", class, &ms) != 2)
		return -EINVAL;
	return vhca_fault_delay(dev, class, ms);
}
VHCA_FILE(cmd_delay);

static int vhca_on_plug(struct vhca_dev *dev, char *line)
{
	unsigned int index;
	int err = kstrtouint(line, 0, &index);

	return err ? err : vhca_plug(index);
}
VHCA_FILE(plug);

static int vhca_on_unplug(struct vhca_dev *dev, char *line)
{
	unsigned int index;
	int err = kstrtouint(line, 0, &index);

	return err ? err : vhca_unplug(index);
}
VHCA_FILE(unplug);

void vhca_debugfs_init(void)
{
	vhca_debugfs_root = debugfs_create_dir("vhca", NULL);
}

void vhca_debugfs_exit(void)
{
	debugfs_remove(vhca_debugfs_root);
}

/* Outside of the devices' directories: removing those waits for writers. */
void vhca_debugfs_start(void)
{
	vhca_debugfs_plug = debugfs_create_file("plug", 0200, vhca_debugfs_root,
						NULL, &vhca_plug_fops);
	vhca_debugfs_unplug = debugfs_create_file("unplug", 0200,
						  vhca_debugfs_root, NULL,
						  &vhca_unplug_fops);
}

void vhca_debugfs_stop(void)
{
	debugfs_remove(vhca_debugfs_plug);
	debugfs_remove(vhca_debugfs_unplug);
}

void vhca_debugfs_add(struct vhca_dev *dev)
{
	struct dentry *dir;

	dir = debugfs_create_dir(dev_name(&dev->ibdev.dev), vhca_debugfs_root);
	dev->debugfs = dir;
	debugfs_create_file("qp_fatal", 0200, dir, dev, &vhca_qp_fatal_fops);
	debugfs_create_file("port_state", 0200, dir, dev, &vhca_port_state_fops);
	debugfs_create_file("device_fatal", 0200, dir, dev,
			    &vhca_device_fatal_fops);
	debugfs_create_file("cmd_fail", 0200, dir, dev, &vhca_cmd_fail_fops);
	debugfs_create_file("cmd_delay", 0200, dir, dev, &vhca_cmd_delay_fops);
}

/* Waits for writers, so the device may go after it. */
void vhca_debugfs_del(struct vhca_dev *dev)
{
	debugfs_remove(dev->debugfs);
}
