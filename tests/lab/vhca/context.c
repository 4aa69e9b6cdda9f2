// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * User contexts: the doorbell page that the engine watches, and the pages of
 * doorbell records that it reads.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/mlx4-abi.h>

#include "vhca.h"

/*
 * libmlx4 packs the doorbell records of many objects into one page.  Pinning
 * the page once, as the mlx4 driver does, keeps a process with thousands of
 * QPs within its limit of locked memory.
 */
struct vhca_db_page {
	struct list_head	link;
	struct ib_umem		*umem;
	struct mm_struct	*mm;
	u64			addr;
	u32			users;
	void			*va;
};

static int vhca_alloc_ucontext(struct ib_ucontext *ibuctx,
			       struct ib_udata *udata)
{
	struct vhca_uctx *uctx = to_vuctx(ibuctx);
	struct mlx4_ib_alloc_ucontext_resp resp = {
		.qp_tab_size = VHCA_NUM_TAB_SIZE,
		/* No BlueFlame: every doorbell goes to the one page. */
		.bf_reg_size = 0,
		.cqe_size = 32,
	};
	int err;

	err = vhca_cmd(ibuctx->device, VHCA_CMD_OPEN_CTX);
	if (err)
		return err;
	uctx->uar = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!uctx->uar)
		return -ENOMEM;
	mutex_init(&uctx->lock);
	INIT_LIST_HEAD(&uctx->qps);
	INIT_LIST_HEAD(&uctx->cqs);
	INIT_LIST_HEAD(&uctx->db_pages);

	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err) {
		__free_page(uctx->uar);
		return err;
	}
	vhca_engine_add_uctx(uctx);
	return 0;
}

static void vhca_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
	struct vhca_uctx *uctx = to_vuctx(ibuctx);

	vhca_engine_del_uctx(uctx);
	/* A mapping of an unplugged device may still hold the page. */
	put_page(uctx->uar);
}

/*
 * Its presence tells uverbs that the device can go while handles are open.
 * Nothing is left to do: uverbs destroys the objects, and a doorbell page
 * that stays mapped is a page that nobody watches any more.
 */
static void vhca_disassociate_ucontext(struct ib_ucontext *ibuctx)
{
}

/*
 * vm_insert_page() makes the mapping hold a reference to the page, so that
 * the page outlives the context if need be.
 */
static int vhca_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != PAGE_SIZE ||
	    !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	return vm_insert_page(vma, vma->vm_start, to_vuctx(ibuctx)->uar);
}

static struct vhca_db_page *vhca_db_page_find(struct vhca_uctx *uctx, u64 addr)
{
	struct vhca_db_page *page;

	list_for_each_entry(page, &uctx->db_pages, link)
		if (page->addr == addr && page->mm == current->mm)
			return page;
	return NULL;
}

static struct vhca_db_page *vhca_db_page_pin(struct vhca_uctx *uctx, u64 addr)
{
	struct vhca_db_page *page;
	struct sg_page_iter iter;
	int err;

	page = kzalloc(sizeof(*page), GFP_KERNEL);
	if (!page)
		return ERR_PTR(-ENOMEM);
	page->umem = ib_umem_get(uctx->ibuctx.device, addr, PAGE_SIZE,
				 IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(page->umem)) {
		err = PTR_ERR(page->umem);
		kfree(page);
		return ERR_PTR(err);
	}
	for_each_sgtable_page(&page->umem->sgt_append.sgt, &iter, 0)
		page->va = page_address(sg_page_iter_page(&iter));
	page->addr = addr;
	page->mm = current->mm;
	list_add(&page->link, &uctx->db_pages);
	return page;
}

/* A record is aligned to its size, so it never straddles two pages. */
int vhca_db_map(struct vhca_uctx *uctx, u64 addr, u32 size, struct vhca_db *db)
{
	struct vhca_db_page *page;

	if (!IS_ALIGNED(addr, size))
		return -EINVAL;

	mutex_lock(&uctx->lock);
	page = vhca_db_page_find(uctx, addr & PAGE_MASK);
	if (!page)
		page = vhca_db_page_pin(uctx, addr & PAGE_MASK);
	if (!IS_ERR(page))
		page->users++;
	mutex_unlock(&uctx->lock);
	if (IS_ERR(page))
		return PTR_ERR(page);

	db->page = page;
	db->rec = page->va + offset_in_page(addr);
	return 0;
}

/* Harmless for a record that was never mapped: some QPs have none. */
void vhca_db_unmap(struct vhca_uctx *uctx, struct vhca_db *db)
{
	if (!db->page)
		return;
	mutex_lock(&uctx->lock);
	if (!--db->page->users) {
		list_del(&db->page->link);
		ib_umem_release(db->page->umem);
		kfree(db->page);
	}
	mutex_unlock(&uctx->lock);
	db->page = NULL;
}

const struct ib_device_ops vhca_context_ops = {
	.alloc_ucontext = vhca_alloc_ucontext,
	.dealloc_ucontext = vhca_dealloc_ucontext,
	.disassociate_ucontext = vhca_disassociate_ucontext,
	.mmap = vhca_mmap,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, vhca_uctx, ibuctx),
};
