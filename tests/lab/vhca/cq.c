// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queues.  The engine is the only writer of entries; user space
 * publishes its consumer index and its arm requests in the doorbell record.
 */
#include <linux/mlx4/cq.h>
#include <linux/mlx4/device.h>
#include <rdma/mlx4-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "vhca.h"

#define VHCA_CQ_IDX_MASK	0xffffff
#define VHCA_ARM_CMD_MASK	(MLX4_CQ_DB_REQ_NOT | MLX4_CQ_DB_REQ_NOT_SOL)

static int vhca_create_cq(struct ib_cq *ibcq,
			  const struct ib_cq_init_attr *attr,
			  struct ib_udata *udata)
{
	struct vhca_uctx *uctx =
		rdma_udata_to_drv_context(udata, struct vhca_uctx, ibuctx);
	struct vhca_dev *dev = to_vdev(ibcq->device);
	struct mlx4_ib_create_cq_resp resp = {};
	struct vhca_cq *cq = to_vcq(ibcq);
	struct mlx4_ib_create_cq cmd;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > VHCA_MAX_CQE)
		return -EINVAL;
	err = vhca_cmd(ibcq->device, VHCA_CMD_CREATE_CQ);
	if (err)
		return err;
	err = ib_copy_from_udata(&cmd, udata, min(sizeof(cmd), udata->inlen));
	if (err)
		return err;

	cq->uctx = uctx;
	cq->entries = roundup_pow_of_two(attr->cqe + 1);
	ibcq->cqe = cq->entries - 1;
	err = vhca_buf_map(ibcq->device, cmd.buf_addr,
			   (size_t)cq->entries * sizeof(struct mlx4_cqe),
			   &cq->buf);
	if (err)
		return err;
	/* The owner bit set means "not yet written" in the first round. */
	memset(cq->buf.va, MLX4_CQE_OWNER_MASK,
	       (size_t)cq->entries * sizeof(struct mlx4_cqe));

	err = vhca_db_map(uctx, cmd.db_addr, 8, &cq->db);
	if (err)
		goto err_buf;
	err = vhca_table_reserve(&dev->cqs, 1, VHCA_NUM_TAB_SIZE - 1, &cq->cqn);
	if (err)
		goto err_db;
	resp.cqn = cq->cqn;
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err)
		goto err_number;

	vhca_table_publish(&dev->cqs, cq->cqn, &cq->res);
	mutex_lock(&uctx->lock);
	list_add(&cq->uctx_link, &uctx->cqs);
	mutex_unlock(&uctx->lock);
	return 0;

err_number:
	vhca_table_release(&dev->cqs, cq->cqn);
err_db:
	vhca_db_unmap(uctx, &cq->db);
err_buf:
	vhca_buf_unmap(&cq->buf);
	return err;
}

/*
 * ib_core sees to it that no QP or SRQ uses the CQ any more; only the engine's
 * look at the arm requests is left to be excluded.
 */
static int vhca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct vhca_cq *cq = to_vcq(ibcq);
	int err;

	err = vhca_cmd(ibcq->device, VHCA_CMD_DESTROY_CQ);
	if (err)
		return err;
	mutex_lock(&cq->uctx->lock);
	list_del(&cq->uctx_link);
	mutex_unlock(&cq->uctx->lock);
	vhca_table_remove(&to_vdev(ibcq->device)->cqs, cq->cqn, &cq->res);
	vhca_db_unmap(cq->uctx, &cq->db);
	vhca_buf_unmap(&cq->buf);
	return 0;
}

/* Entries between two indices, which are numbers of 24 bits. */
static u32 vhca_cq_distance(u32 from, u32 to)
{
	return (to - from) & VHCA_CQ_IDX_MASK;
}

/*
 * Raises a completion event if one was asked for and there is something that
 * user space has not seen when it asked.  The sequence number of a request
 * tells a new one from the one that was served already.
 */
void vhca_cq_serve_arm(struct vhca_cq *cq)
{
	u32 arm = be32_to_cpu(READ_ONCE(cq->db.rec[1]));
	u32 cmd = arm & VHCA_ARM_CMD_MASK;
	u8 sn = (arm >> 28) & 3;
	u32 prod;

	if (!cmd || sn == cq->fired_sn)
		return;
	prod = cmd == MLX4_CQ_DB_REQ_NOT_SOL ? cq->prod_solicited : cq->prod;
	/* Zero or "negative": all of it was polled before the request. */
	if (vhca_cq_distance(arm, prod) - 1 >= VHCA_CQ_IDX_MASK / 2)
		return;
	cq->fired_sn = sn;
	cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void vhca_cq_overrun(struct vhca_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.element.cq = &cq->ibcq,
		.event = IB_EVENT_CQ_ERR,
	};

	if (cq->overrun)
		return;
	cq->overrun = true;
	cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/*
 * The error form of an entry lays vendor code and syndrome over the checksum;
 * all that libmlx4 needs to find the queue stays where it is.
 */
void vhca_cqe_set_error(struct mlx4_cqe *cqe, u8 syndrome)
{
	cqe->checksum = cpu_to_be16(syndrome);
	cqe->owner_sr_opcode &= ~MLX4_CQE_OPCODE_MASK;
	cqe->owner_sr_opcode |= MLX4_CQE_OPCODE_ERROR;
}

/* The owner byte goes last: with it the entry belongs to user space. */
void vhca_cq_push(struct vhca_cq *cq, const struct mlx4_cqe *cqe,
		  bool solicited)
{
	u32 cons = be32_to_cpu(READ_ONCE(cq->db.rec[0]));
	struct mlx4_cqe *slot;
	u8 owner;

	if (cq->overrun ||
	    vhca_cq_distance(cons, cq->prod) >= cq->entries) {
		vhca_cq_overrun(cq);
		return;
	}
	slot = cq->buf.va + (cq->prod & (cq->entries - 1)) * sizeof(*slot);
	owner = cq->prod & cq->entries ? MLX4_CQE_OWNER_MASK : 0;
	memcpy(slot, cqe, offsetof(struct mlx4_cqe, owner_sr_opcode));
	smp_store_release(&slot->owner_sr_opcode,
			  (u8)(cqe->owner_sr_opcode | owner));

	cq->prod++;
	if (solicited)
		cq->prod_solicited = cq->prod;
	/* Pairs with user space, which arms first and then polls once more. */
	smp_mb();
	vhca_cq_serve_arm(cq);
}

const struct ib_device_ops vhca_cq_ops = {
	.create_cq = vhca_create_cq,
	.destroy_cq = vhca_destroy_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, vhca_cq, ibcq),
};
