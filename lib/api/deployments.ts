import { invalid, notFound } from '../base/errors.js'
import type { Run } from '../deploy/admission.js'
import { json, type Reply } from '../http/core/route.js'
import { maxMessageLength } from '../model/deployment.js'
import { flag, integer, line, list, nullable, oneOf, optional, readFields, instant } from '../base/fields.js'
import { confirmLimits, policyOf, rollbackModes } from '../model/policy.js'
import { tighten } from '../model/policy-keys.js'
import {
  type ApiRequest,
  type Handler,
  optionalBody,
  param,
  queryText,
  switchText,
  traceIdOf,
  checkProject,
  queryChoice
} from './route.js'
import { overrideReason, runReply, startTime } from './upload.js'
import type { ApiServices } from './services.js'
import { receiptsHeader } from '../core/proof/receipt-chain.js'
import { streamHeaders } from '../http/core/reply.js'

const finalStatuses = ['success', 'failed'] as const
/** Fields of `PATCH /api/deployments/:id/status`. */
export const markFields = {
  /** The correct status. */
  status: oneOf(finalStatuses)
}
/** Fields of `POST /api/deployments/:id/rollback`. */
export const rollbackFields = {
  /** A note on the deployment. */
  message: nullable(line({ max: maxMessageLength })),
  /** Default: the policy `rollback` of the project. */
  mode: optional(oneOf(rollbackModes)),
  /**
   * Whether files that were edited since are taken back, too. Default: false: an exact rollback keeps them, another one follows
   * the policy `drift`.
   */
  force: optional(flag),
  /** Whether to say what would happen, and change nothing. Default: false. */
  dryRun: optional(flag)
}
/** Fields of `POST /api/projects/:id/promote`. */
export const promoteFields = {
  /** The deployment of another project. */
  from: line({ min: 1, max: 100 }),
  /** A note on the deployment. Default: that of the other one. */
  message: rollbackFields.message,
  /** The time in which the deployment must be confirmed. Default: as the policy of the project says. */
  confirmSeconds: optional(integer(confirmLimits.min, confirmLimits.max)),
  /** Why it begins outside of the windows of the project. Default: it does not. */
  override: overrideReason,
  /** When it begins, with the zone. Default: at once. */
  startAt: startTime,
  /** Whether to say what would happen, and change nothing. Default: false. */
  dryRun: optional(flag)
}
/** Maximum number of characters of a comment. */
const maxCommentLength = 500
/** Fields of `POST /api/deployments/:id/reject`. */
export const rejectFields = {
  /** Why. */
  comment: nullable(line({ min: 1, max: maxCommentLength, trim: true }))
}
/** Fields of `POST /api/deployments/:id/approve`. */
export const approveFields = {
  ...rejectFields,
  /** The SHA-256 of the list of files that is approved: `treeSha256` of the deployment. */
  treeSha256: line({ min: 64, max: 64 })
}
/** Fields of `POST /api/projects/:id/undo`. */
export const undoFields = {
  /** A note on the deployment. */
  message: rollbackFields.message,
  /** Whether files that were edited since are taken back, too. Default: false, they stay. */
  force: optional(flag),
  /** Whether to say what would happen, and change nothing. Default: false. */
  dryRun: optional(flag)
}

/** Maximum number of files that one request for a repair may name. */
const maxRepairedPaths = 10_000
/** Fields of `POST /api/projects/:id/repair`. */
export const repairFields = {
  /** A note on the deployment. */
  message: rollbackFields.message,
  /** The files to put back. Default: all that differ. */
  paths: optional(list(line({ min: 1, max: 4096 }), { max: maxRepairedPaths })),
  /** Whether the scripts of the last deployment run. Default: false. */
  runScripts: optional(flag)
}

/** Handlers of deployments that are made of earlier ones: rollback, promotion, undo and repair. */
export function againHandlers({ deployer, projects, quota, records, pageOf, proof, runsCommand }: ApiServices) {
  /** Refuses what may run a command to a session that has not given its secret lately. */
  function checkProof({ actor }: ApiRequest, projectId: string, deployId?: string): void {
    if (runsCommand(projectId, deployId)) proof.check(actor.provenAt)
  }

  /** Waits for the result of a run, or streams its output if the client accepts NDJSON. */
  async function replyTo({ headers }: ApiRequest, run: Run): Promise<Reply> {
    if (headers.accept?.includes('application/x-ndjson')) return runReply(run, deployer, pageOf(run.deployId))
    // It may wait for days.
    if (run.heldFor !== null)
      return json({ success: true, deployId: run.deployId, status: 'queued', duration: null }, 202)
    const { id, status, duration, errorMessage, rollbackOf, promotedFrom } = await run.finished
    const failure = status === 'failed' ? { error: errorMessage } : {}
    const source = { ...(rollbackOf !== null && { rollbackOf }), ...(promotedFrom !== null && { promotedFrom }) }
    return json({ success: status === 'success', deployId: id, status, duration, ...source, ...failure })
  }

  return {
    rollback: async request => {
      const { message, mode, force, dryRun } = readFields(await optionalBody(request), rollbackFields)
      const id = param(request, 'id')
      const traceId = traceIdOf(request)
      const { actor, signal } = request
      if (dryRun) return json(await deployer.planRollback(id, { mode, force, signal }))
      checkProof(request, records.find(request, id).projectId, id)
      return replyTo(request, await deployer.rollback(id, { message, traceId, mode, force, actor }))
    },

    promote: async request => {
      const { from, dryRun, ...given } = readFields(await request.json(), promoteFields)
      const { actor, signal } = request
      const project = projects.get(param(request, 'id'))
      const source = records.row(from)
      // Who deploys to a project may promote from where its releases come, and else from what he sees.
      if (policyOf(project).promoteFrom?.projectId !== source.projectId) records.find(request, from)
      tighten(project, given, actor)
      if (dryRun) return json(await deployer.planPromotion(project.id, { from, ...given, signal }))
      checkProof(request, project.id)
      const wish = { from, ...given, traceId: traceIdOf(request), actor }
      const claim = await quota.claim({ bytes: source.archiveBytes ?? 0, projectId: project.id })
      return replyTo(request, await deployer.promote(project.id, wish).finally(claim.release))
    },

    undo: async request => {
      const { message, force, dryRun } = readFields(await optionalBody(request), undoFields)
      const id = param(request, 'id')
      const { actor, signal } = request
      if (dryRun) return json(await deployer.planUndo(id, { force, signal }))
      checkProof(request, id)
      return replyTo(request, await deployer.undo(id, { message, traceId: traceIdOf(request), force, actor }))
    },

    repair: async request => {
      const { message, paths, runScripts } = readFields(await optionalBody(request), repairFields)
      const { actor, signal } = request
      checkProof(request, param(request, 'id'))
      const wish = { message, traceId: traceIdOf(request), paths, runScripts, actor, signal }
      return replyTo(request, await deployer.repair(param(request, 'id'), wish))
    }
  } satisfies Record<string, Handler>
}

/** Handlers of cancelling and status correction (§4.5), and of a deployment's files. */
export function deploymentHandlers({ deployer, records }: ApiServices) {
  return {
    cancel: async request => {
      const { id } = records.own(request, param(request, 'id'))
      const row = await deployer.cancel(id, request.actor)
      return json({
        success: true,
        message: 'The deployment was cancelled',
        deployment: await records.complete(request, row)
      })
    },

    mark: async request => {
      const { status } = readFields(await request.json(), markFields)
      const row = await deployer.mark(param(request, 'id'), status, { actor: request.actor })
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    deleteArchive: async request => {
      const { query, actor } = request
      const force = switchText(query.get('force'), 'force') ?? false
      const { row, freedBytes } = await deployer.deleteArchive(param(request, 'id'), { force, actor })
      return json({ success: true, freedBytes, deployment: await records.complete(request, row) })
    },

    giveUp: async request => {
      const { actor, client } = request
      // A follower passed it on: its user means the machine that was asked.
      const given = await deployer.giveUp(param(request, 'deployId'), { actor, hub: client.hub?.name })
      return json({ success: true, given })
    },

    files: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json(await deployer.manifest(id))
    },

    changes: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const against = queryText(request.query, 'against')
      if (against === undefined) throw invalid('against', '"against" is missing: name the deployment to compare with')
      return json(await deployer.changes(id, records.find(request, against).id))
    }
  } satisfies Record<string, Handler>
}

/** Handlers of the decisions about deployments that wait for an approval. */
export function approvalHandlers({ deployer, records }: ApiServices) {
  return {
    approve: async request => {
      const given = readFields(await request.json(), approveFields)
      const row = await deployer.approve(param(request, 'id'), { ...given, actor: request.actor })
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    reject: async request => {
      const { comment } = readFields(await optionalBody(request), rejectFields)
      const row = await deployer.reject(param(request, 'id'), { comment, actor: request.actor })
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    plan: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json(await deployer.planWaiting(id, request.signal))
    }
  } satisfies Record<string, Handler>
}

/** Handlers of the decisions about deployments whose earlier files can still be put back. */
export function confirmHandlers({ deployer, records, proof, runsCommand }: ApiServices) {
  return {
    confirm: async request => {
      const { id } = records.own(request, param(request, 'id'))
      const row = await deployer.confirm(id, request.actor)
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    revert: async request => {
      const { id, projectId } = records.own(request, param(request, 'id'))
      if (runsCommand(projectId)) proof.check(request.actor.provenAt)
      const row = await deployer.revert(id, request.actor)
      return json({ success: row.revertedAt !== null, deployment: await records.complete(request, row) })
    }
  } satisfies Record<string, Handler>
}

/** Number of receipts that are read at once. */
const pageReceipts = 200

/** The forms of a receipt. */
export const receiptForms = ['receipt', 'result'] as const

/** Handlers of the receipts of deployments. */
export function receiptHandlers({ deployer, records, projects }: ApiServices) {
  return {
    receipt: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const form = queryChoice(request.query, 'form', receiptForms) ?? 'receipt'
      const text = form === 'receipt' ? await deployer.receipt(id) : await deployer.receiptResult(id)
      return {
        kind: 'bytes',
        status: 200,
        body: Buffer.from(text),
        headers: {
          'content-type': 'application/vnd.in-toto+dsse',
          'content-disposition': `attachment; filename="${id}.${form}.json"`
        }
      }
    },

    list: ({ actor, query }) => {
      const projectId = queryText(query, 'projectId') ?? actor.projectId ?? undefined
      if (projectId !== undefined) {
        checkProject(actor, projectId, () => notFound('Project', projectId))
        projects.get(projectId)
      }
      const given = queryText(query, 'since')
      const since = given === undefined ? undefined : new Date(instant(given, 'since')).toISOString()
      const filter = { projectId, projects: actor.projects, since, limit: pageReceipts }
      return {
        kind: 'stream',
        status: 200,
        headers: {
          ...streamHeaders,
          'content-type': 'application/x-ndjson',
          'content-disposition': 'attachment; filename="svc-receipts.jsonl"'
        },
        async run(sink) {
          await sink.write(receiptsHeader(deployer.receiptKeys()))
          for (let after: string | undefined; ; ) {
            const page = deployer.receipts({ ...filter, after })
            after = page.at(-1)?.deployId
            if (after === undefined) return
            await sink.write(page.map(({ text }) => text).join(''))
          }
        }
      }
    }
  } satisfies Record<string, Handler>
}
