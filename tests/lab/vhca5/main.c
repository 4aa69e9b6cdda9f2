// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The device: what it says about itself, how it comes and goes.
 */
#include <linux/module.h>

#include "vhca5.h"

#define VHCA5_GUID	0x0200c0de05000000ULL
/* Beyond the LIDs of vhca's ports. */
#define VHCA5_LID	0x80
/* Below are the numbers that the InfiniBand specification reserves. */
#define VHCA5_MIN_NUMBER	64

static struct vhca5_dev *vhca5;

/*
 * Numbers are handed out cyclically: one that was just freed does not come
 * back at once, as with real hardware, which makes stale numbers visible.
 */
int vhca5_number_take(struct vhca5_numbers *numbers, u32 *number)
{
	int err;

	err = xa_alloc_cyclic(&numbers->used, number, xa_mk_value(1),
			      XA_LIMIT(VHCA5_MIN_NUMBER,
				       VHCA5_MIN_NUMBER + VHCA5_MAX_OBJECTS - 1),
			      &numbers->next, GFP_KERNEL);
	if (err == -EBUSY)
		return -ENOMEM;
	/* 1 says that the numbers wrapped around, which is fine. */
	return err < 0 ? err : 0;
}

void vhca5_number_give_back(struct vhca5_numbers *numbers, u32 number)
{
	xa_erase(&numbers->used, number);
}

static int vhca5_query_device(struct ib_device *ibdev,
			      struct ib_device_attr *attr,
			      struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = ibdev->node_guid;
	attr->page_size_cap = PAGE_SIZE;
	attr->device_cap_flags = IB_DEVICE_XRC | IB_DEVICE_SYS_IMAGE_GUID;
	attr->max_qp = VHCA5_MAX_OBJECTS;
	attr->max_qp_wr = VHCA5_MAX_WR;
	attr->max_send_sge = VHCA5_MAX_SGE;
	attr->max_recv_sge = VHCA5_MAX_SGE;
	attr->max_cq = VHCA5_MAX_OBJECTS;
	attr->max_cqe = VHCA5_MAX_CQE;
	attr->max_pd = VHCA5_MAX_OBJECTS;
	attr->max_qp_rd_atom = VHCA5_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = VHCA5_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = attr->max_qp * VHCA5_MAX_RD_ATOMIC;
	attr->max_srq = VHCA5_MAX_OBJECTS;
	attr->max_srq_wr = VHCA5_MAX_WR - 1;
	attr->max_srq_sge = VHCA5_MAX_SGE;
	attr->max_pkeys = VHCA5_PKEY_TBL_LEN;
	return 0;
}

static int vhca5_query_port(struct ib_device *ibdev, u32 port_num,
			    struct ib_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = VHCA5_GID_TBL_LEN;
	attr->pkey_tbl_len = VHCA5_PKEY_TBL_LEN;
	attr->max_msg_sz = 1U << 30;
	attr->lid = VHCA5_LID;
	attr->sm_lid = 1;
	attr->max_vl_num = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_QDR;
	return 0;
}

/* No MAD, CM or SA: kernel clients that would need kernel verbs stay away. */
static int vhca5_get_port_immutable(struct ib_device *ibdev, u32 port_num,
				    struct ib_port_immutable *immutable)
{
	immutable->pkey_tbl_len = VHCA5_PKEY_TBL_LEN;
	immutable->gid_tbl_len = VHCA5_GID_TBL_LEN;
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_IB;
	return 0;
}

static int vhca5_query_gid(struct ib_device *ibdev, u32 port_num, int index,
			   union ib_gid *gid)
{
	if (index >= VHCA5_GID_TBL_LEN)
		return -EINVAL;
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ibdev->node_guid;
	return 0;
}

static int vhca5_query_pkey(struct ib_device *ibdev, u32 port_num, u16 index,
			    u16 *pkey)
{
	static const u16 pkeys[VHCA5_PKEY_TBL_LEN] = { 0xffff, 0x8001 };

	if (index >= VHCA5_PKEY_TBL_LEN)
		return -EINVAL;
	*pkey = pkeys[index];
	return 0;
}

static void vhca5_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "1.0.0");
}

static const struct ib_device_ops vhca5_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX5,
	.uverbs_abi_ver = MLX5_IB_UVERBS_ABI_VERSION,

	.query_device = vhca5_query_device,
	.query_port = vhca5_query_port,
	.get_port_immutable = vhca5_get_port_immutable,
	.query_gid = vhca5_query_gid,
	.query_pkey = vhca5_query_pkey,
	.get_dev_fw_str = vhca5_get_dev_fw_str,
};

/* What libmlx5 calls past the verbs that all devices have. */
static const struct uapi_definition vhca5_defs[] = {
	UAPI_DEF_CHAIN(vhca5_context_defs),
	UAPI_DEF_CHAIN(vhca5_uar_defs),
	{},
};

static int __init vhca5_init(void)
{
	struct vhca5_dev *dev;
	int err;

	dev = ib_alloc_device(vhca5_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	xa_init_flags(&dev->cqs.used, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->srqs.used, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->qps.used, XA_FLAGS_ALLOC);

	dev->ibdev.node_type = RDMA_NODE_IB_CA;
	dev->ibdev.node_guid = cpu_to_be64(VHCA5_GUID);
	dev->ibdev.phys_port_cnt = 1;
	dev->ibdev.num_comp_vectors = 1;
	dev->ibdev.driver_def = vhca5_defs;
	strscpy(dev->ibdev.node_desc, "virtual HCA, control path",
		sizeof(dev->ibdev.node_desc));
	ib_set_device_ops(&dev->ibdev, &vhca5_device_ops);
	ib_set_device_ops(&dev->ibdev, &vhca5_context_ops);
	ib_set_device_ops(&dev->ibdev, &vhca5_uar_ops);
	ib_set_device_ops(&dev->ibdev, &vhca5_object_ops);
	ib_set_device_ops(&dev->ibdev, &vhca5_qp_ops);

	err = ib_register_device(&dev->ibdev, "vhca5_%d", NULL);
	if (err) {
		ib_dealloc_device(&dev->ibdev);
		return err;
	}
	vhca5 = dev;
	return 0;
}

/* A hot unplug: ib_core destroys every object first, open handles or not. */
static void __exit vhca5_exit(void)
{
	ib_unregister_device(&vhca5->ibdev);
	ib_dealloc_device(&vhca5->ibdev);
}

module_init(vhca5_init);
module_exit(vhca5_exit);

MODULE_DESCRIPTION("Control path of a virtual HCA with the mlx5 user ABI");
MODULE_LICENSE("Dual BSD/GPL");
