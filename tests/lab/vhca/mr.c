// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions: what a local or remote key gives access to.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "vhca.h"

/*
 * Index 1 would make the key 0x100, which marks the end of a receive
 * descriptor's scatter list.
 */
#define VHCA_MIN_MR_INDEX	2
#define VHCA_MAX_MR_INDEX	((1U << 20) - 1)

#define VHCA_MR_ACCESS							\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ACCESS_OPTIONAL)

static struct ib_mr *vhca_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
				      u64 virt_addr, int access,
				      struct ib_udata *udata)
{
	struct vhca_dev *dev = to_vdev(ibpd->device);
	struct vhca_mr *mr;
	size_t npages;
	int err;

	if (access & ~VHCA_MR_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);

	err = vhca_cmd(ibpd->device, VHCA_CMD_REG_MR);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->umem = ib_umem_get(&dev->ibdev, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto err_free;
	}
	mr->pages = vhca_umem_pages(mr->umem, &npages);
	if (!mr->pages) {
		err = -ENOMEM;
		goto err_umem;
	}
	err = vhca_table_reserve(&dev->mrs, VHCA_MIN_MR_INDEX,
				 VHCA_MAX_MR_INDEX, &mr->index);
	if (err)
		goto err_pages;

	mr->access = access;
	mr->ibmr.device = ibpd->device;
	mr->ibmr.pd = ibpd;
	mr->ibmr.iova = virt_addr;
	mr->ibmr.length = length;
	mr->ibmr.lkey = mr->index << 8;
	mr->ibmr.rkey = mr->ibmr.lkey;
	vhca_table_publish(&dev->mrs, mr->index, &mr->res);
	return &mr->ibmr;

err_pages:
	kvfree(mr->pages);
err_umem:
	ib_umem_release(mr->umem);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

static int vhca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct vhca_mr *mr = to_vmr(ibmr);
	int err;

	err = vhca_cmd(ibmr->device, VHCA_CMD_DEREG_MR);
	if (err)
		return err;
	vhca_table_remove(&to_vdev(ibmr->device)->mrs, mr->index, &mr->res);
	kvfree(mr->pages);
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}

/*
 * The one gate to user data: a key counts only within its protection domain,
 * its bounds and its access rights.  @access 0 asks for local reading, which
 * every region allows.
 */
struct vhca_mr *vhca_mr_get(struct ib_pd *pd, u32 key, u64 addr, u32 len,
			    int access)
{
	struct vhca_res *res;
	struct vhca_mr *mr;

	res = vhca_table_get(&to_vdev(pd->device)->mrs, key >> 8);
	if (!res)
		return NULL;
	mr = container_of(res, struct vhca_mr, res);
	if (mr->ibmr.lkey != key || mr->ibmr.pd != pd ||
	    (mr->access & access) != access || addr < mr->ibmr.iova ||
	    len > mr->ibmr.length ||
	    addr - mr->ibmr.iova > mr->ibmr.length - len) {
		vhca_res_put(res);
		return NULL;
	}
	return mr;
}

/*
 * Where the byte at @addr lies in kernel memory; *@len becomes how far one may
 * go from there.  The caller checked the bounds by vhca_mr_get().
 */
void *vhca_mr_chunk(struct vhca_mr *mr, u64 addr, u32 *len)
{
	u64 off = addr - mr->ibmr.iova + ib_umem_offset(mr->umem);
	u32 in_page = offset_in_page(off);

	*len = min_t(u32, *len, PAGE_SIZE - in_page);
	return page_address(mr->pages[off >> PAGE_SHIFT]) + in_page;
}

const struct ib_device_ops vhca_mr_ops = {
	.reg_user_mr = vhca_reg_user_mr,
	.dereg_mr = vhca_dereg_mr,
};
