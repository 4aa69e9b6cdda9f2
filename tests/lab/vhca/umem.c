// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * User memory, pinned and made addressable for the engine.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>

#include "vhca.h"

/* ib_umem keeps a scatter list; the engine wants to index by page. */
struct page **vhca_umem_pages(struct ib_umem *umem, size_t *npages)
{
	size_t n = ib_umem_num_pages(umem), i = 0;
	struct sg_page_iter iter;
	struct page **pages;

	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		if (WARN_ON(i == n))
			break;
		pages[i++] = sg_page_iter_page(&iter);
	}
	*npages = i;
	return pages;
}

/*
 * Queues are mapped in one piece, because descriptors may straddle pages.
 * libmlx4 aligns its buffers to pages; 64 bytes is what the format relies on.
 */
int vhca_buf_map(struct ib_device *ibdev, u64 addr, size_t len,
		 struct vhca_buf *buf)
{
	struct page **pages;
	size_t npages;

	if (!IS_ALIGNED(addr, 64) || !len)
		return -EINVAL;

	buf->umem = ib_umem_get(ibdev, addr, len, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(buf->umem))
		return PTR_ERR(buf->umem);

	pages = vhca_umem_pages(buf->umem, &npages);
	if (pages)
		buf->map = vmap(pages, npages, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	if (!buf->map) {
		ib_umem_release(buf->umem);
		return -ENOMEM;
	}
	buf->va = buf->map + offset_in_page(addr);
	return 0;
}

/* Harmless for a buffer that was never mapped: some QPs have none. */
void vhca_buf_unmap(struct vhca_buf *buf)
{
	if (!buf->map)
		return;
	vunmap(buf->map);
	ib_umem_release(buf->umem);
	buf->map = NULL;
}
