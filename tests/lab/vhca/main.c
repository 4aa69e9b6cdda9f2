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

static LIST_HEAD(vhca_devices);

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

static int vhca_add_device(unsigned int index)
{
	struct vhca_dev *dev;
	int err;

	dev = ib_alloc_device(vhca_dev, ibdev);
	if (!dev)
		return -ENOMEM;

	vhca_table_init(&dev->cqs);
	vhca_table_init(&dev->qps);
	vhca_table_init(&dev->srqs);
	vhca_table_init(&dev->mrs);
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
	err = ib_register_device(&dev->ibdev, "vhca%d", NULL);
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
static void vhca_remove_devices(void)
{
	struct vhca_dev *dev, *next;

	list_for_each_entry_safe(dev, next, &vhca_devices, link) {
		list_del(&dev->link);
		vhca_debugfs_del(dev);
		vhca_fabric_del(dev);
		ib_unregister_device(&dev->ibdev);
		ib_dealloc_device(&dev->ibdev);
	}
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
	return 0;

err_remove:
	vhca_remove_devices();
	vhca_debugfs_exit();
	vhca_engine_stop();
	return err;
}

static void __exit vhca_exit(void)
{
	vhca_remove_devices();
	vhca_debugfs_exit();
	vhca_engine_stop();
}

module_init(vhca_init);
module_exit(vhca_exit);

MODULE_DESCRIPTION("Virtual HCA with the mlx4 user ABI");
MODULE_LICENSE("Dual BSD/GPL");
