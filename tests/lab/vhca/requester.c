// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The sending side: takes send descriptors apart, lets the responder execute
 * them and keeps the timers for those that could not be delivered yet.
 */
#include <linux/mlx4/cq.h>
#include <linux/mlx4/qp.h>

#include "vhca.h"

#define VHCA_OPCODE_MASK	0x1f
#define VHCA_OWNER_BIT		BIT(31)
#define VHCA_DS_MASK		0x3f
/* Descriptors per step, so that one QP cannot starve the others. */
#define VHCA_STEP_BUDGET	16
#define VHCA_RNR_RETRY_FOREVER	7
/* Pause between attempts where the QP asked for no transport timer. */
#define VHCA_NO_TIMER_PAUSE_NS	NSEC_PER_MSEC

/* Working memory of the engine, too large for its stack. */
static struct {
	u8		wqe[1 << VHCA_SQ_STRIDE_MAX] __aligned(64);
	struct vhca_req	req;
} work;

/*
 * The owner bit of a descriptor flips with each round through the queue; this
 * is how a posted one is told from one of the last round.
 */
static bool vhca_sq_peek(struct vhca_qp *qp, struct mlx4_wqe_ctrl_seg **ctrl,
			 u32 *owner_opcode)
{
	struct vhca_wq *sq = &qp->sq;

	*ctrl = sq->base + ((sq->head & (sq->wqe_cnt - 1)) << sq->wqe_shift);
	*owner_opcode = be32_to_cpu(READ_ONCE((*ctrl)->owner_opcode));
	if (!!(*owner_opcode & VHCA_OWNER_BIT) != !!(sq->head & sq->wqe_cnt))
		return false;
	/* The descriptor was written before its owner bit. */
	smp_rmb();
	return true;
}

/* Data segments, or inline data in pieces that are padded to 16 bytes. */
static u8 vhca_parse_data(struct vhca_qp *qp, struct vhca_req *req, u32 off,
			  u32 size, int access)
{
	struct mlx4_wqe_data_seg *seg;
	u32 count;

	while (off + sizeof(*seg) <= size) {
		seg = (void *)work.wqe + off;
		count = be32_to_cpu(seg->byte_count);
		if (count & MLX4_INLINE_SEG) {
			off += sizeof(struct mlx4_wqe_inline_seg);
			count &= ~MLX4_INLINE_SEG;
			if (count > size - off ||
			    !vhca_sgl_add_inline(&req->local, work.wqe + off,
						 count))
				return MLX4_CQE_SYNDROME_LOCAL_QP_OP_ERR;
			off = ALIGN(off + count, 16);
		} else {
			if (!vhca_sgl_add(&req->local, qp->pd,
					  be32_to_cpu(seg->lkey),
					  be64_to_cpu(seg->addr), count,
					  access))
				return MLX4_CQE_SYNDROME_LOCAL_PROT_ERR;
			off += sizeof(*seg);
		}
	}
	if (req->local.len > VHCA_MAX_MSG_SZ)
		return MLX4_CQE_SYNDROME_LOCAL_LENGTH_ERR;
	return 0;
}

static u32 vhca_npackets(const struct vhca_qp *qp, u64 len)
{
	u32 mtu = ib_mtu_enum_to_int(qp->attr.path_mtu);

	return max_t(u32, 1, DIV_ROUND_UP_ULL(len, mtu));
}

/*
 * Works on the engine's copy, so user space cannot change what was checked.
 * Returns 0 or the syndrome that completes the request in error.
 */
static u8 vhca_parse_wqe(struct vhca_qp *qp, struct vhca_req *req, u32 size)
{
	struct mlx4_wqe_ctrl_seg *ctrl = (void *)work.wqe;
	struct mlx4_wqe_atomic_seg *atomic;
	struct mlx4_wqe_raddr_seg *raddr;
	u32 flags = be32_to_cpu(ctrl->srcrb_flags);
	u32 off = sizeof(*ctrl);
	int access = 0;
	u8 syndrome;

	req->signaled = flags & MLX4_WQE_CTRL_CQ_UPDATE;
	req->solicited = flags & MLX4_WQE_CTRL_SOLICITED;
	req->srqn = flags >> 8;
	req->imm = ctrl->imm;

	switch (req->opcode) {
	case MLX4_OPCODE_SEND:
	case MLX4_OPCODE_SEND_IMM:
		break;
	case MLX4_OPCODE_RDMA_READ:
	case MLX4_OPCODE_ATOMIC_CS:
	case MLX4_OPCODE_ATOMIC_FA:
		access = IB_ACCESS_LOCAL_WRITE;
		fallthrough;
	case MLX4_OPCODE_RDMA_WRITE:
	case MLX4_OPCODE_RDMA_WRITE_IMM:
		raddr = (void *)work.wqe + off;
		off += sizeof(*raddr);
		req->raddr = be64_to_cpu(raddr->raddr);
		req->rkey = be32_to_cpu(raddr->rkey);
		break;
	default:
		return MLX4_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	}
	if (req->opcode == MLX4_OPCODE_ATOMIC_CS ||
	    req->opcode == MLX4_OPCODE_ATOMIC_FA) {
		atomic = (void *)work.wqe + off;
		off += sizeof(*atomic);
		req->swap_add = be64_to_cpu(atomic->swap_add);
		req->compare = be64_to_cpu(atomic->compare);
	}
	if (off > size)
		return MLX4_CQE_SYNDROME_LOCAL_QP_OP_ERR;

	syndrome = vhca_parse_data(qp, req, off, size, access);
	if (syndrome)
		return syndrome;
	req->npackets = vhca_npackets(qp, req->local.len);
	return 0;
}

static u8 vhca_fetch(struct vhca_qp *qp, struct mlx4_wqe_ctrl_seg *ctrl,
		     u32 owner_opcode, struct vhca_req *req)
{
	u32 size = (READ_ONCE(ctrl->qpn_vlan.fence_size) & VHCA_DS_MASK) * 16;

	req->opcode = owner_opcode & VHCA_OPCODE_MASK;
	vhca_sgl_init(&req->local);
	if (size < sizeof(*ctrl) || size > 1U << qp->sq.wqe_shift)
		return MLX4_CQE_SYNDROME_LOCAL_QP_OP_ERR;
	memcpy(work.wqe, ctrl, size);
	return vhca_parse_wqe(qp, req, size);
}

/* Reports the request at the head of the queue and moves on. */
static void vhca_complete(struct vhca_qp *qp, const struct vhca_req *req,
			  u8 syndrome)
{
	struct mlx4_cqe cqe = {
		.vlan_my_qpn = cpu_to_be32(qp->qpn),
		.wqe_index = cpu_to_be16(qp->sq.head),
		.owner_sr_opcode = MLX4_CQE_IS_SEND_MASK,
	};

	if (syndrome) {
		vhca_cqe_set_error(&cqe, syndrome);
	} else {
		cqe.owner_sr_opcode |= req->opcode;
		cqe.byte_cnt = cpu_to_be32(req->local.len);
	}
	if (syndrome || req->signaled)
		vhca_cq_push(qp->send_cq, &cqe, syndrome);
	qp->sq.head++;
	qp->retries = 0;
	qp->rnr_retries = 0;
	qp->retry_at = 0;
}

/* A request that fails for good takes the whole QP with it. */
static enum vhca_step vhca_fail(struct vhca_qp *qp, u8 syndrome)
{
	vhca_complete(qp, NULL, syndrome);
	vhca_qp_set_error(qp);
	return VHCA_WAIT;
}

static enum vhca_step vhca_retry_in(struct vhca_qp *qp, u64 ns)
{
	qp->retry_at = ktime_add_ns(ktime_get(), ns);
	return VHCA_WAIT;
}

/* No answer at all: the transport timer runs, then the next attempt. */
static enum vhca_step vhca_lost(struct vhca_qp *qp)
{
	if (!qp->attr.timeout)
		return vhca_retry_in(qp, VHCA_NO_TIMER_PAUSE_NS);
	qp->retries++;
	return vhca_retry_in(qp, 4096ULL << qp->attr.timeout);
}

/* The responder's RNR timer, in units of 10 us, by the code that it sends. */
static enum vhca_step vhca_not_ready(struct vhca_qp *qp, u8 code)
{
	static const u16 timer[32] = {
		65535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
		12288, 16384, 24576, 32768, 49152,
	};

	if (qp->attr.rnr_retry != VHCA_RNR_RETRY_FOREVER &&
	    qp->rnr_retries++ >= qp->attr.rnr_retry)
		return vhca_fail(qp, MLX4_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	return vhca_retry_in(qp, timer[code] * 10ULL * NSEC_PER_USEC);
}

static enum vhca_step vhca_send_one(struct vhca_qp *qp)
{
	struct vhca_answer answer = { .verdict = VHCA_LOST };
	struct vhca_req *req = &work.req;
	struct mlx4_wqe_ctrl_seg *ctrl;
	u32 owner_opcode;
	u8 syndrome;

	if (!vhca_sq_peek(qp, &ctrl, &owner_opcode))
		return VHCA_IDLE;

	syndrome = vhca_fetch(qp, ctrl, owner_opcode, req);
	if (!syndrome)
		vhca_respond(qp, req, &answer);
	vhca_sgl_put(&req->local);
	if (syndrome)
		return vhca_fail(qp, syndrome);

	switch (answer.verdict) {
	case VHCA_ACK:
		qp->sq_psn = (qp->sq_psn + req->npackets) & 0xffffff;
		vhca_complete(qp, req, 0);
		return VHCA_BUSY;
	case VHCA_LOST:
		return vhca_lost(qp);
	case VHCA_RNR:
		return vhca_not_ready(qp, answer.rnr_timer);
	default:
		return vhca_fail(qp, answer.syndrome);
	}
}

/*
 * What was posted before, and what is posted after, the QP failed.  A QP that
 * failed in RESET has a queue of zeros, which would read as one full of work.
 */
static void vhca_flush_send(struct vhca_qp *qp)
{
	struct mlx4_wqe_ctrl_seg *ctrl;
	u32 owner_opcode;
	u32 i;

	if (!qp->sq_live)
		return;
	for (i = 0; i < qp->sq.wqe_cnt; i++) {
		if (!vhca_sq_peek(qp, &ctrl, &owner_opcode))
			return;
		vhca_complete(qp, NULL, MLX4_CQE_SYNDROME_WR_FLUSH_ERR);
	}
}

/*
 * Called by the engine with qp->lock held.  A QP in error stays on the run
 * list, because receives are posted to it without a doorbell.
 */
enum vhca_step vhca_requester_step(struct vhca_qp *qp)
{
	enum vhca_step step;
	u32 i;

	if (READ_ONCE(qp->dev->dead))
		return VHCA_IDLE;
	if (qp->attr.qp_state == IB_QPS_ERR) {
		vhca_flush_send(qp);
		vhca_flush_recv(qp);
		return qp->uctx ? VHCA_WAIT : VHCA_IDLE;
	}
	if (qp->attr.qp_state != IB_QPS_RTS || !qp->uctx)
		return VHCA_IDLE;
	if (qp->retry_at && ktime_before(ktime_get(), qp->retry_at))
		return VHCA_WAIT;
	if (qp->retries > qp->attr.retry_cnt)
		return vhca_fail(qp, MLX4_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);

	for (i = 0; i < VHCA_STEP_BUDGET; i++) {
		step = vhca_send_one(qp);
		if (step != VHCA_BUSY)
			return step == VHCA_IDLE && i ? VHCA_BUSY : step;
	}
	return VHCA_BUSY;
}
