// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Protection domains and XRC domains.  Both are mere identities here: the
 * engine compares the pointers, ib_core counts the users.
 */
#include <linux/atomic.h>
#include <rdma/mlx4-abi.h>

#include "vhca.h"

static int vhca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	static atomic_t next_pdn;
	struct vhca_dev *dev = to_vdev(ibpd->device);
	struct mlx4_ib_alloc_pd_resp resp = {};
	int err;

	err = vhca_cmd(ibpd->device, VHCA_CMD_ALLOC_PD);
	if (!err)
		err = vhca_quota_charge(&dev->pds);
	if (err)
		return err;

	/* libmlx4 puts the number into address handles only. */
	resp.pdn = atomic_inc_return(&next_pdn) & 0xffffff;
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err)
		vhca_quota_refund(&dev->pds);
	return err;
}

static int vhca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	int err = vhca_cmd(ibpd->device, VHCA_CMD_DEALLOC_PD);

	if (!err)
		vhca_quota_refund(&to_vdev(ibpd->device)->pds);
	return err;
}

static int vhca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	int err = vhca_cmd(ibxrcd->device, VHCA_CMD_ALLOC_XRCD);

	return err ? err : vhca_quota_charge(&to_vdev(ibxrcd->device)->xrcds);
}

static int vhca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	int err = vhca_cmd(ibxrcd->device, VHCA_CMD_DEALLOC_XRCD);

	if (!err)
		vhca_quota_refund(&to_vdev(ibxrcd->device)->xrcds);
	return err;
}

const struct ib_device_ops vhca_domain_ops = {
	.alloc_pd = vhca_alloc_pd,
	.dealloc_pd = vhca_dealloc_pd,
	.alloc_xrcd = vhca_alloc_xrcd,
	.dealloc_xrcd = vhca_dealloc_xrcd,

	INIT_RDMA_OBJ_SIZE(ib_pd, vhca_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, vhca_xrcd, ibxrcd),
};
