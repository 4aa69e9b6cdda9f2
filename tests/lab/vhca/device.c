// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the device says about itself, and the fabric: the one subnet that all
 * ports of all devices in this kernel are plugged into.
 */
#include <rdma/mlx4-abi.h>

#include "vhca.h"

static struct {
	struct mutex		lock;
	struct list_head	ports;
} fabric = {
	.lock = __MUTEX_INITIALIZER(fabric.lock),
	.ports = LIST_HEAD_INIT(fabric.ports),
};

static int vhca_query_device(struct ib_device *ibdev,
			     struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	struct mlx4_uverbs_ex_query_device_resp resp = {
		.response_length = sizeof(resp),
	};

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = ~0ULL;
	attr->page_size_cap = PAGE_SIZE;
	attr->max_qp = vhca_limits.qp;
	attr->max_qp_wr = VHCA_MAX_WR;
	attr->device_cap_flags = IB_DEVICE_XRC | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN;
	attr->max_send_sge = VHCA_MAX_SGE;
	attr->max_recv_sge = VHCA_MAX_SGE;
	attr->max_sge_rd = VHCA_MAX_SGE;
	attr->max_cq = vhca_limits.cq;
	attr->max_cqe = VHCA_MAX_CQE;
	attr->max_mr = vhca_limits.mr;
	attr->max_pd = vhca_limits.pd;
	attr->max_qp_rd_atom = VHCA_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = VHCA_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = attr->max_qp * VHCA_MAX_RD_ATOMIC;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_srq = vhca_limits.srq;
	attr->max_srq_wr = VHCA_MAX_WR - 1;
	attr->max_srq_sge = VHCA_MAX_SGE;
	attr->max_pkeys = VHCA_PKEY_TBL_LEN;
	attr->local_ca_ack_delay = 15;

	if (!udata->outlen)
		return 0;
	return ib_copy_to_udata(udata, &resp,
				min(sizeof(resp), udata->outlen));
}

static int vhca_query_port(struct ib_device *ibdev, u32 port_num,
			   struct ib_port_attr *attr)
{
	struct vhca_port *port = &to_vdev(ibdev)->ports[port_num - 1];

	memset(attr, 0, sizeof(*attr));
	attr->state = READ_ONCE(port->state);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ?
			   IB_PORT_PHYS_STATE_LINK_UP :
			   IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = VHCA_GID_TBL_LEN;
	attr->pkey_tbl_len = VHCA_PKEY_TBL_LEN;
	attr->max_msg_sz = VHCA_MAX_MSG_SZ;
	attr->lid = port->lid;
	attr->sm_lid = 1;
	attr->max_vl_num = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_QDR;
	return 0;
}

/*
 * The InfiniBand protocol and nothing more: without MAD, CM and SA no kernel
 * client attaches to a device that cannot serve kernel verbs.
 */
static int vhca_get_port_immutable(struct ib_device *ibdev, u32 port_num,
				   struct ib_port_immutable *immutable)
{
	immutable->pkey_tbl_len = VHCA_PKEY_TBL_LEN;
	immutable->gid_tbl_len = VHCA_GID_TBL_LEN;
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_IB;
	return 0;
}

static int vhca_query_gid(struct ib_device *ibdev, u32 port_num, int index,
			  union ib_gid *gid)
{
	if (index >= VHCA_GID_TBL_LEN)
		return -EINVAL;
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id =
		cpu_to_be64(be64_to_cpu(ibdev->node_guid) + port_num);
	return 0;
}

/* The default partition, and one more so that choosing a P_Key means something. */
u16 vhca_pkey(u16 index)
{
	static const u16 pkeys[VHCA_PKEY_TBL_LEN] = { 0xffff, 0x8001 };

	return pkeys[index];
}

static int vhca_query_pkey(struct ib_device *ibdev, u32 port_num, u16 index,
			   u16 *pkey)
{
	if (index >= VHCA_PKEY_TBL_LEN)
		return -EINVAL;
	*pkey = vhca_pkey(index);
	return 0;
}

static void vhca_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "1.0.0");
}

void vhca_fabric_add(struct vhca_dev *dev)
{
	u32 i;

	mutex_lock(&fabric.lock);
	for (i = 0; i < dev->nports; i++)
		list_add(&dev->ports[i].fabric_link, &fabric.ports);
	mutex_unlock(&fabric.lock);
}

/* From here on no new message finds its way to this device. */
void vhca_fabric_del(struct vhca_dev *dev)
{
	u32 i;

	mutex_lock(&fabric.lock);
	for (i = 0; i < dev->nports; i++)
		list_del(&dev->ports[i].fabric_link);
	mutex_unlock(&fabric.lock);
}

static bool vhca_port_usable(const struct vhca_port *port)
{
	return port && READ_ONCE(port->state) == IB_PORT_ACTIVE &&
	       !READ_ONCE(port->dev->dead);
}

/*
 * The lock spans both look-ups, or the device could go between the finding of
 * its port and the reference to its QP.
 */
struct vhca_qp *vhca_fabric_get_qp(u16 slid, u16 dlid, u32 qpn)
{
	struct vhca_port *port, *from = NULL, *to = NULL;
	struct vhca_qp *qp = NULL;

	mutex_lock(&fabric.lock);
	list_for_each_entry(port, &fabric.ports, fabric_link) {
		if (port->lid == slid)
			from = port;
		if (port->lid == dlid)
			to = port;
	}
	if (vhca_port_usable(from) && vhca_port_usable(to))
		qp = vhca_qp_get(to->dev, qpn);
	mutex_unlock(&fabric.lock);
	return qp;
}

void vhca_set_port_state(struct vhca_port *port, enum ib_port_state state)
{
	struct ib_event event = {
		.device = &port->dev->ibdev,
		.element.port_num = port->num,
		.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE :
						   IB_EVENT_PORT_ERR,
	};

	if (READ_ONCE(port->state) == state)
		return;
	WRITE_ONCE(port->state, state);
	ib_dispatch_event(&event);
}

const struct ib_device_ops vhca_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX4,
	.uverbs_abi_ver = MLX4_IB_UVERBS_ABI_VERSION,

	.query_device = vhca_query_device,
	.query_port = vhca_query_port,
	.get_port_immutable = vhca_get_port_immutable,
	.query_gid = vhca_query_gid,
	.query_pkey = vhca_query_pkey,
	.get_dev_fw_str = vhca_get_dev_fw_str,
};
