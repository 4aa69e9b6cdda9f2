// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Scatter/gather lists: pieces of memory that were checked, with the
 * references that keep them alive while they are copied.
 */
#include <linux/string.h>

#include "vhca.h"

void vhca_sgl_init(struct vhca_sgl *sgl)
{
	sgl->n = 0;
	sgl->len = 0;
}

/* False if the key does not give this access, or the list is full. */
bool vhca_sgl_add(struct vhca_sgl *sgl, struct ib_pd *pd, u32 key, u64 addr,
		  u32 len, int access)
{
	struct vhca_seg *seg = &sgl->seg[sgl->n];

	if (!len)
		return true;
	if (sgl->n == VHCA_MAX_SEGS)
		return false;
	seg->mr = vhca_mr_get(pd, key, addr, len, access);
	if (!seg->mr)
		return false;
	seg->addr = addr;
	seg->len = len;
	sgl->n++;
	sgl->len += len;
	return true;
}

/* @data lies in the engine's copy of the descriptor. */
bool vhca_sgl_add_inline(struct vhca_sgl *sgl, void *data, u32 len)
{
	struct vhca_seg *seg = &sgl->seg[sgl->n];

	if (!len)
		return true;
	if (sgl->n == VHCA_MAX_SEGS)
		return false;
	seg->mr = NULL;
	seg->data = data;
	seg->len = len;
	sgl->n++;
	sgl->len += len;
	return true;
}

/* Gives the references back; the length stays, for the completion. */
void vhca_sgl_put(struct vhca_sgl *sgl)
{
	u32 i;

	for (i = 0; i < sgl->n; i++)
		if (sgl->seg[i].mr)
			vhca_res_put(&sgl->seg[i].mr->res);
	sgl->n = 0;
}

struct vhca_cursor {
	struct vhca_seg	*seg;
	u32		off;
};

/* Where the cursor stands; *@len is cut to what is contiguous from there. */
static void *vhca_cursor_chunk(struct vhca_cursor *cur, u32 *len)
{
	struct vhca_seg *seg = cur->seg;

	*len = min(*len, seg->len - cur->off);
	if (!seg->mr)
		return seg->data + cur->off;
	return vhca_mr_chunk(seg->mr, seg->addr + cur->off, len);
}

static void vhca_cursor_advance(struct vhca_cursor *cur, u32 len)
{
	cur->off += len;
	if (cur->off == cur->seg->len) {
		cur->seg++;
		cur->off = 0;
	}
}

/*
 * Both lists are at least @len long.  The two may be the same memory, if a
 * process sends to itself.
 */
void vhca_sgl_copy(struct vhca_sgl *dst, struct vhca_sgl *src, u64 len)
{
	struct vhca_cursor to = { .seg = dst->seg };
	struct vhca_cursor from = { .seg = src->seg };
	void *d, *s;
	u32 n;

	while (len) {
		n = min_t(u64, len, U32_MAX);
		d = vhca_cursor_chunk(&to, &n);
		s = vhca_cursor_chunk(&from, &n);
		memmove(d, s, n);
		vhca_cursor_advance(&to, n);
		vhca_cursor_advance(&from, n);
		len -= n;
	}
}
