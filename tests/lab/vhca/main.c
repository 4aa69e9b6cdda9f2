// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Module entry: makes the devices and takes them away again.
 */
#include <linux/module.h>

#include "vhca.h"

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "number of devices, 1 to 16");

static unsigned int ports = 2;
module_param(ports, uint, 0444);
MODULE_PARM_DESC(ports, "ports per device, 1 or 2");

/* An administered prefix, so that a GUID is recognised at sight. */
#define VHCA_GUID_BASE	0x0200c0de00000000ULL
#define VHCA_FIRST_LID	0x10

struct vhca_limits vhca_limits = {
	.pd = 1 << 20,
	.xrcd = 1 << 16,
	.mr = 1 << 19,
	.cq = VHCA_NUM_TAB_SIZE - 1,
	.srq = VHCA_NUM_TAB_SIZE - 1,
	.qp = VHCA_NUM_TAB_SIZE - VHCA_MIN_QPN,
};

/* More than there are numbers for fails with ENOMEM all the same. */
#define VHCA_LIMIT(name)						\
	module_param_named(max_##name, vhca_limits.name, uint, 0444);	\
	MODULE_PARM_DESC(max_##name, "room for so many, per device")
VHCA_LIMIT(pd);
VHCA_LIMIT(xrcd);
VHCA_LIMIT(mr);
VHCA_LIMIT(cq);
VHCA_LIMIT(srq);
VHCA_LIMIT(qp);

static LIST_HEAD(vhca_devices);
/* Guards the list, and makes plugging and unplugging one at a time. */
static DEFINE_MUTEX(plug_lock);

/* LIDs and GUIDs follow from the index, so tests may count on them. */
static void vhca_init_ports(struct vhca_dev *dev, unsigned int index)
{
	u32 i;

	dev->nports = ports;
	for (i = 0; i < ports; i++) {
		dev->ports[i].dev = dev;
		dev->ports[i].num = i + 1;
		dev->ports[i].lid = VHCA_FIRST_LID + index * VHCA_MAX_PORTS + i;
		dev->ports[i].state = IB_PORT_ACTIVE;
	}
}

static void vhca_init_limits(struct vhca_dev *dev)
{
	vhca_table_init(&dev->cqs, vhca_limits.cq);
	vhca_table_init(&dev->qps, vhca_limits.qp);
	vhca_table_init(&dev->srqs, vhca_limits.srq);
	vhca_table_init(&dev->mrs, vhca_limits.mr);
	dev->pds.max = vhca_limits.pd;
	dev->xrcds.max = vhca_limits.xrcd;
}

static int vhca_add_device(unsigned int index)
{
	char name[IB_DEVICE_NAME_MAX];
	struct vhca_dev *dev;
	int err;

	dev = ib_alloc_device(vhca_dev, ibdev);
	if (!dev)
		return -ENOMEM;

	dev->index = index;
	vhca_init_limits(dev);
	vhca_faults_init(dev);
	vhca_init_ports(dev, index);

	dev->ibdev.node_type = RDMA_NODE_IB_CA;
	dev->ibdev.node_guid = cpu_to_be64(VHCA_GUID_BASE + (index << 8));
	dev->ibdev.phys_port_cnt = ports;
	dev->ibdev.num_comp_vectors = 1;
	strscpy(dev->ibdev.node_desc, "virtual HCA",
		sizeof(dev->ibdev.node_desc));

	ib_set_device_ops(&dev->ibdev, &vhca_device_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_context_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_domain_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_mr_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_cq_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_srq_ops);
	ib_set_device_ops(&dev->ibdev, &vhca_qp_ops);

	vhca_fabric_add(dev);
	/* A fixed name, so that a device comes back under the one it had. */
	snprintf(name, sizeof(name), "vhca%u", index);
	err = ib_register_device(&dev->ibdev, name, NULL);
	if (err) {
		vhca_fabric_del(dev);
		ib_dealloc_device(&dev->ibdev);
		return err;
	}
	vhca_debugfs_add(dev);
	list_add(&dev->link, &vhca_devices);
	return 0;
}

/*
 * Unregistering is the hot unplug: ib_core destroys every object of the
 * device, open handles or not, and only then returns.
 */
static void vhca_remove_device(struct vhca_dev *dev)
{
	list_del(&dev->link);
	vhca_debugfs_del(dev);
	vhca_fabric_del(dev);
	ib_unregister_device(&dev->ibdev);
	ib_dealloc_device(&dev->ibdev);
}

static void vhca_remove_devices(void)
{
	struct vhca_dev *dev, *next;

	list_for_each_entry_safe(dev, next, &vhca_devices, link)
		vhca_remove_device(dev);
}

static struct vhca_dev *vhca_find_device(unsigned int index)
{
	struct vhca_dev *dev;

	list_for_each_entry(dev, &vhca_devices, link)
		if (dev->index == index)
			return dev;
	return NULL;
}

int vhca_plug(unsigned int index)
{
	int err = -EEXIST;

	if (index >= VHCA_MAX_DEVICES)
		return -EINVAL;
	mutex_lock(&plug_lock);
	if (!vhca_find_device(index))
		err = vhca_add_device(index);
	mutex_unlock(&plug_lock);
	return err;
}

int vhca_unplug(unsigned int index)
{
	struct vhca_dev *dev;

	mutex_lock(&plug_lock);
	dev = vhca_find_device(index);
	if (dev)
		vhca_remove_device(dev);
	mutex_unlock(&plug_lock);
	return dev ? 0 : -ENODEV;
}

static int __init vhca_init(void)
{
	unsigned int i;
	int err;

	/* Pages are reached by their permanent kernel address. */
	BUILD_BUG_ON(IS_ENABLED(CONFIG_HIGHMEM));

	if (!devices || devices > VHCA_MAX_DEVICES || !ports ||
	    ports > VHCA_MAX_PORTS)
		return -EINVAL;

	err = vhca_engine_start();
	if (err)
		return err;
	vhca_debugfs_init();
	for (i = 0; i < devices; i++) {
		err = vhca_add_device(i);
		if (err)
			goto err_remove;
	}
	vhca_debugfs_start();
	return 0;

err_remove:
	vhca_remove_devices();
	vhca_debugfs_exit();
	vhca_engine_stop();
	return err;
}

/* The files go first: after them nobody plugs or unplugs any more. */
static void __exit vhca_exit(void)
{
	vhca_debugfs_stop();
	vhca_remove_devices();
	vhca_debugfs_exit();
	vhca_engine_stop();
}

module_init(vhca_init);
module_exit(vhca_exit);

MODULE_DESCRIPTION("Virtual HCA with the mlx4 user ABI");
MODULE_LICENSE("Dual BSD/GPL");
